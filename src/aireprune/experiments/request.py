"""What a sweep is to do: which variants at which ratios, judged on how many examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from aireprune.calibration.inputs import COUNT
from aireprune.errors import AireError, did_you_mean
from aireprune.experiments.cells import Key
from aireprune.experiments.stored import number, text, whole
from aireprune.experiments.variants import Variant, make_variants

METHODS = ("aire", "last", "lamp", "global-hinf", "uniform-hinf", "global-magnitude", "uniform-magnitude", "random")
RATIOS = tuple(round(0.1 * i, 1) for i in range(10))


class SweepChoices(TypedDict, total=False):
    """Keyword arguments of `aireprune.sweep`; see `SweepRequest` for their meaning.

    methods, reduce: names. calibrated: method aire also with calibrated readouts. max_drop: what a safe ratio may cost.
    """

    methods: Sequence[str]
    reduce: Sequence[str]
    ratios: Sequence[float]
    seeds: int
    examples: int
    calibrated: bool
    calibrate: str | None
    max_drop: float


@dataclass(frozen=True)
class Cell:
    """One model to prune and judge."""

    variant: Variant
    ratio: float
    seed: int = 0

    @property
    def key(self) -> Key:
        return Key(self.variant.name, self.ratio, self.seed)


FULL = Cell(Variant("full"), 0.0)  # the model as it is


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """What a sweep is made of, besides the model and the task. Ratio 0, the full model, is always part of it."""

    variants: tuple[Variant, ...]
    ratios: tuple[float, ...]
    seeds: int = 3  # of method random
    examples: int = 1000  # the first so many of the test split; 0: all
    validation: int = 1000  # and of the validation split
    calibrate: str | None = None  # inputs of calibrated variants; None: the task's training split
    calibrate_count: int = COUNT
    drop: float = 1.0  # what a safe ratio may cost: points of accuracy, or per cent of bits

    def __post_init__(self) -> None:
        for ratio in self.ratios:
            if not 0 <= ratio <= 1:
                raise AireError(f"A ratio is a share of the states, 0 to 1; got {ratio:g}.")
        object.__setattr__(self, "ratios", tuple(sorted({0.0, *self.ratios})))
        names = [variant.name for variant in self.variants]
        if len(set(names)) != len(names):
            raise AireError(f"A variant is listed twice: {', '.join(names)}.")

    def cells(self) -> Iterator[Cell]:
        """In the order in which they are done: ratio by ratio, so that an early look sees every variant."""
        for ratio in self.ratios:
            for variant in self.variants if ratio else ():
                yield from self.seeded(variant, ratio)

    def seeded(self, variant: Variant, ratio: float) -> list[Cell]:
        """The cells of a variant at one ratio: several of method random, one of the others."""
        return [Cell(variant, ratio, seed) for seed in range(self.seeds if variant.method == "random" else 1)]

    def to_dict(self) -> dict[str, Any]:
        """As sweep.json has it."""
        return {
            "variants": [variant.to_dict() for variant in self.variants],
            "ratios": list(self.ratios),
            "seeds": self.seeds,
            "examples": self.examples,
            "validation": self.validation,
            "calibrate": self.calibrate,
            "calibrate_count": self.calibrate_count,
            "drop": self.drop,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SweepRequest:
        """From sweep.json."""
        counts = ("seeds", "examples", "validation", "calibrate_count")
        return cls(
            variants=tuple(map(Variant.from_dict, values["variants"])),
            ratios=tuple(map(number, values["ratios"])),
            calibrate=None if values["calibrate"] is None else text(values["calibrate"]),
            drop=number(values["drop"]),
            **{name: whole(values[name]) for name in counts},
        )


def make_sweep_request(choices: SweepChoices) -> SweepRequest:
    """The request that keyword arguments make."""
    unknown = sorted(set(choices) - SweepChoices.__optional_keys__)
    if unknown:
        known = sorted(SweepChoices.__optional_keys__)
        raise AireError(
            f"There is no argument {unknown[0]}=.{did_you_mean(unknown[0], known)} Arguments: {', '.join(known)}."
        )
    calibrate, examples = choices.get("calibrate"), choices.get("examples", 1000)
    return SweepRequest(
        variants=make_variants(
            choices.get("methods", METHODS),
            choices.get("reduce", ("truncate",)),
            choices.get("calibrated", False) or calibrate is not None,
        ),
        ratios=tuple(choices.get("ratios", RATIOS)),
        seeds=choices.get("seeds", 3),
        examples=examples,
        validation=examples,
        calibrate=calibrate,
        drop=choices.get("max_drop", 1.0),
    )


def parse_ratios(written: str) -> tuple[float, ...]:
    """0:1:0.1 (from, to, step; both ends included) or 0.2,0.5,0.8."""
    try:
        if ":" not in written:
            return tuple(sorted({round(float(part), 10) for part in written.split(",")}))
        first, last, step = (float(part) for part in written.split(":"))
        if step <= 0:
            raise ValueError
        return tuple(round(first + i * step, 10) for i in range(int((last - first) / step + 1e-9) + 1))
    except ValueError:
        raise AireError(f"The ratios {written!r} are not FROM:TO:STEP or a list like 0.2,0.5,0.8.") from None
