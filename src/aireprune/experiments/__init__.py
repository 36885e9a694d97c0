"""Sweeps, their statistics and figures, and the paper's tables."""
