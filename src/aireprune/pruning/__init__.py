"""From a model or checkpoint and a request to a smaller one."""
