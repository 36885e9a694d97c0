"""A share of a sweep's cells: what one of several machines does, without a word to the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aireprune.errors import AireError
from aireprune.experiments.request import Cell


@dataclass(frozen=True)
class Part:
    """Part `number` (from 1 on) of `count`: every count-th cell, so that all parts have ratios of all sizes."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise AireError(f"There is no part {self}: parts are 1/{self.count} to {self.count}/{self.count}.")

    @classmethod
    def parse(cls, text: str) -> Part:
        """3/20: the third of twenty."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or int(found[2]) == 0:
            raise AireError(f"The part {text!r} is not NUMBER/COUNT, like 3/20 for the third of twenty.")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def folder(self) -> str:
        """The name of its folder among those of the others; in order when sorted."""
        digits = len(str(self.count))
        return f"part-{self.number:0{digits}}-of-{self.count}"

    def of(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Its share of all cells."""
        return cells[self.number - 1 :: self.count]
