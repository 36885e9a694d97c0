"""Measurements of what the tool costs: each runs the thing itself and its yardstick side by side."""
