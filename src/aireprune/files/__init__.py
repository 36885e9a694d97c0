"""Files at the edge: everything that reads or writes a checkpoint."""
