"""Models as torch.export programs of standard operators, which run where aireprune is not installed."""
