"""The operators for CUDA."""
