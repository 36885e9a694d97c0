"""The operators compiled for CUDA by Triton."""
