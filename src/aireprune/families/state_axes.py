"""What a user declares about tensors that no family knows: 'NAME=AXIS', or 'NAME=none' for one without a state axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aireprune.errors import AireError

NONE = "none"


@dataclass(frozen=True)
class StateAxes:
    """The state axes of further tensors by name, None for a tensor that has none.

    A name is the whole name of a tensor, or the end of it from a dot on: B_base is the B_base of every layer.
    """

    declared: tuple[tuple[str, int | None], ...] = ()

    @classmethod
    def parse(cls, texts: str | Iterable[str]) -> StateAxes:
        """From 'NAME=AXIS' texts, of which each name has one."""
        found: dict[str, int | None] = {}
        for text in [texts] if isinstance(texts, str) else texts:
            name, axis = _parsed(text)
            if name in found:
                raise AireError(f"state_axis= names {name} twice.")
            found[name] = axis
        return cls(tuple(found.items()))

    @property
    def texts(self) -> tuple[str, ...]:
        """What `parse` reads."""
        return tuple(f"{name}={NONE if axis is None else axis}" for name, axis in self.declared)

    def of(self, tensor: str) -> tuple[str, int | None] | None:
        """The declaration that speaks of a tensor, the most specific one if there are several."""
        fitting = [found for found in self.declared if f".{tensor}".endswith(f".{found[0]}")]
        return max(fitting, key=lambda found: len(found[0]), default=None)


def _parsed(text: object) -> tuple[str, int | None]:
    name, _, axis = text.rpartition("=") if isinstance(text, str) else ("", "", "")
    if not name or not (axis == NONE or (axis.isascii() and axis.isdecimal())):
        raise AireError(
            f"state_axis= holds {text!r}; expected 'NAME=AXIS', a tensor and which of its axes (0, 1, …) holds the "
            f"states, or 'NAME={NONE}'."
        )
    return name, None if axis == NONE else int(axis)
