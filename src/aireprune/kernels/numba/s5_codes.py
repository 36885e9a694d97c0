"""The numbers by which the kernel of an S5 block knows what to do: places in these lists of names."""

from __future__ import annotations

ACTIVATIONS = ("", "gelu", "half_glu1", "half_glu2", "full_glu")  # "": the layer alone, without norm and residual
LAYER, GELU, HALF_GLU1, HALF_GLU2, FULL_GLU = range(len(ACTIVATIONS))

NORMS = ("", "pre_batch", "pre_layer", "post_batch", "post_layer")
NO_NORM, PRE_BATCH, PRE_LAYER, POST_BATCH, POST_LAYER = range(len(NORMS))

METHODS = ("zoh", "bilinear", "discrete")  # of discretisation; discrete: the poles are there already
ZOH, BILINEAR, DISCRETE = range(len(METHODS))
