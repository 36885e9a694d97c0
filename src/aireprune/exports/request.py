"""What is asked of an export, checked before anything is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from aireprune.errors import AireError

SUFFIXES = {".onnx": "onnx", ".gguf": "gguf", ".pt2": "torch"}
OPSETS = range(20, 28)
DEFAULT_OPSET = 20
INPUTS = ("auto", "tokens", "numbers")
WEIGHTS = ("f32", "f16", "q8_0")


class ExportChoices(TypedDict, total=False):
    """Keyword arguments of `aireprune.export` besides model, target, format and task."""

    step: bool
    opset: int
    inputs: str
    int8: bool
    weights: str


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """to: onnx, gguf or torch. step: one step at a time, with states as inputs and outputs. opset: of ONNX; from 27 on,
    selective scans are LinearAttention operators. inputs: whether a classifier takes tokens or numbers. int8: projections
    in 8 bits. weights: of GGUF, how matrices are stored."""

    to: str
    step: bool = False
    opset: int = DEFAULT_OPSET
    inputs: str = "auto"
    int8: bool = False
    weights: str = "f32"

    def __post_init__(self) -> None:
        _expect("to", self.to, tuple(SUFFIXES.values()))
        _expect("inputs", self.inputs, INPUTS)
        _expect("weights", self.weights, WEIGHTS)
        if self.opset not in OPSETS:
            raise AireError(
                f"opset={self.opset} is not one that graphs are written for: {OPSETS[0]} to {OPSETS[-1]} are."
            )
        for name, default, formats in (
            ("step", False, ("onnx",)),
            ("opset", DEFAULT_OPSET, ("onnx",)),
            ("int8", False, ("onnx",)),
            ("inputs", "auto", ("onnx", "torch")),
            ("weights", "f32", ("gguf",)),
        ):
            if getattr(self, name) != default and self.to not in formats:
                raise AireError(f"{name}= is for to={formats[0]!r}, and this is an export to {self.to}.")


def make_export_request(target: Path, to: str | None, choices: ExportChoices) -> ExportRequest:
    """The request that keyword arguments make; the format, if it is not given, follows from the target's suffix."""
    unknown = sorted(set(choices) - ExportChoices.__optional_keys__)
    if unknown:
        raise AireError(
            f"There is no argument {unknown[0]}=. Arguments: {', '.join(sorted(ExportChoices.__optional_keys__))}."
        )
    named = SUFFIXES.get(target.suffix)
    if to is None and named is None:
        raise AireError(
            f"The suffix of {target} does not say which format to write: {', '.join(SUFFIXES)} do, or to='onnx'."
        )
    return ExportRequest(to=to or str(named), **choices)


def _expect(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise AireError(f"There is no {name}={value!r}. Choices: {', '.join(known)}.")
