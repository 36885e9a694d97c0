"""Families of state space layers, each described over named arrays in a file of its own."""

from aireprune.families.base import Family, Layer, LTIFamily, Units
from aireprune.families.found import FAMILIES, Found, find_layers, lti_family
from aireprune.families.state_axes import StateAxes

__all__ = ["FAMILIES", "Family", "Found", "LTIFamily", "Layer", "StateAxes", "Units", "find_layers", "lti_family"]
