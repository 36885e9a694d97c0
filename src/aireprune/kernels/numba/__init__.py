"""The operators compiled for CPUs."""
