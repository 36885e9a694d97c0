"""PyTorch models that are parameter-compatible with the official ones."""
