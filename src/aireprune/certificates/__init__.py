"""What pruning did to a model: bounds, true norms, measured differences."""
