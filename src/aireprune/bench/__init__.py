"""Measurements of what the tool costs: each runs what it measures and a yardstick side by side."""
