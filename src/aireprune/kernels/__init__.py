"""Scans as torch operators: a plain torch reference, numba kernels, and the operator that picks between them."""
