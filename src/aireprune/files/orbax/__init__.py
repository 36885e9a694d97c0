"""Orbax checkpoints: folders that flax.training.checkpoints writes."""
