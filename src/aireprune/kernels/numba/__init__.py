"""The operators compiled for CPUs by numba."""
