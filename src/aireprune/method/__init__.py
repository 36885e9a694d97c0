"""The mathematics, in NumPy alone: layers as diagonal systems, scores, selection, reductions, bounds."""
