"""Flax checkpoints: trees of arrays in msgpack."""
