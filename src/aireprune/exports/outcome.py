"""What an export wrote, and how it was found to agree with the model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aireprune.errors import AireError

TOLERANCE = 1e-4  # of outputs, relative to the largest one


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A task's metric of the model and of the file, on so many examples."""

    metric: str
    model: float
    file: float
    examples: int


@dataclass(frozen=True, kw_only=True)
class Exported:
    """difference: the largest one between outputs of file and model, relative to the largest output; None where the file
    could not be run. checked: in which words that was found. states: of every layer."""

    target: Path
    to: str
    states: tuple[int, ...]
    bytes: int = 0
    difference: float | None = None
    checked: str = ""
    judged: Judged | None = None
    notices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"{self.target}: {self.to}, {self.bytes:,} bytes, states {', '.join(map(str, self.states))}; {self.checked}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "target": str(self.target)}


def require_agreement(difference: float, engine: str) -> None:
    """Raise if a file does not compute what the model does."""
    if not difference <= TOLERANCE:
        raise AireError(
            f"In {engine} the file gives other outputs than the model: they differ by {difference:.1e} of the largest one, "
            f"and at most {TOLERANCE:.0e} is accepted. The file was not kept."
        )
