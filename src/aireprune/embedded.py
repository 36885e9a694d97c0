"""What `aire demo` works on: a trained S5 digit classifier and 1,000 test digits, both part of the package."""

from __future__ import annotations

from aireprune.tasks.digits import all_digits as digits
from aireprune.zoo import FOLDER

MODEL = FOLDER / "smnist-s5"

__all__ = ["MODEL", "digits"]
