"""Calibration of reduced models with unlabelled inputs (METHOD.md section 5)."""

from aireprune.calibrate.inputs import Inputs, read_inputs
from aireprune.calibrate.readout import calibrate

__all__ = ["Inputs", "calibrate", "read_inputs"]
