"""How far a calibration is, for somebody who waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from aireprune.calibration.readout import Progress

EVERY = 5.0  # seconds between two lines


class Telling(Progress):
    """Tells of fitted layers and of the time left; a calibration that is done within `every` seconds says nothing."""

    def __init__(self, report: Callable[[str], None], modules: Collection[str], every: float = EVERY):
        """modules: the layers that will be fitted."""
        self.report, self.left, self.every = report, set(modules), every
        self.count, self.began = len(self.left), time.monotonic()
        self.told = self.began

    def finished(self, name: str) -> None:
        self.left.discard(name)
        now, done = time.monotonic(), self.count - len(self.left)
        if now - self.told < self.every or not self.left or not done:
            return
        self.told = now
        seconds = (now - self.began) / done * len(self.left)
        remaining = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        self.report(f"calibration: {done} of {self.count} layers are fitted, about {remaining} left")
