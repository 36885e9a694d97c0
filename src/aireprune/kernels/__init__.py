"""Scans as torch operators: plain torch references, compiled kernels, and the operators that choose between them."""
