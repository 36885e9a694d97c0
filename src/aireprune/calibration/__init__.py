"""Calibration of reduced models with unlabelled inputs (docs/method.md section 5)."""

from aireprune.calibration.inputs import Inputs, read_inputs
from aireprune.calibration.readout import calibrate

__all__ = ["Inputs", "calibrate", "read_inputs"]
