"""Training our models on tasks."""
