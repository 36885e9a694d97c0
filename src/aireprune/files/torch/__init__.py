"""PyTorch files, read so that nothing in them can run code."""
