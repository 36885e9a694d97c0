"""Which models stand for the paper's, where they are, and what is done to each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aireprune.calibration.inputs import COUNT
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.variants import Variant
from aireprune.training.recipes import task_name

BASELINES = ("random", "uniform-magnitude", "global-magnitude", "lamp", "uniform-hinf", "global-hinf", "last")
METHODS = (*BASELINES, "aire")
RATIOS = tuple(round(0.1 * i, 1) for i in range(10))
ABLATION_RATIOS = (0.0, 0.2, 0.4, 0.6, 0.8)
EXAMPLES = {"mini": (500, 1000), "paper": (0, 0)}  # of validation and test; 0: all
FEWER_TO_FIT = {"smnist-mamba": 64, "image-s4d": 64}  # sequences to calibrate with: the slowest to fit
DROP = {"mini": 2.0, "paper": 1.0}  # points that a safe ratio may cost; a point of 500 examples is five of them


@dataclass(frozen=True)
class ZooModel:
    """A trained model of the zoo. seed: of its training. size: how it is called if it is not of the recipe's."""

    base: str
    family: str
    seed: int = 0
    size: str = ""

    @property
    def name(self) -> str:
        seed = f"seed{self.seed}" if self.seed else ""
        return "-".join(filter(None, (self.base, self.family, self.size, seed)))

    def task(self, recipe: str) -> str:
        return task_name(self.base, recipe)

    def find(self, zoo: Path) -> Path | None:
        """Where the model is, if it is there."""
        found = zoo / self.name
        return found if (found / "config.json").is_file() else None


ZOO: dict[str, tuple[ZooModel, ...]] = {
    "mini": tuple(
        ZooModel(base, family)
        for family, bases in (
            ("s5", ("listops", "text", "image", "pathfinder", "speech")),
            ("s4d", ("listops", "image")),
            ("mamba", ("smnist", "lm")),
        )
        for base in bases
    ),
    "paper": tuple(
        ZooModel(base, family)
        for family, bases in (
            ("s5", ("listops", "text", "retrieval", "image", "pathfinder", "pathx", "speech")),
            ("s4d", ("listops", "text", "retrieval", "image")),
            ("mamba", ("text", "retrieval", "image")),
        )
        for base in bases
    ),
}

SEEDED: dict[str, tuple[tuple[ZooModel, ...], ...]] = {  # models that differ in nothing but the seed of their training
    "mini": (
        tuple(ZooModel("listops", "s5", seed) for seed in range(3)),
        tuple(ZooModel("smnist", "s5", seed, "small") for seed in (0, 2, 3)),  # 1 has an unstable pole
    ),
    "paper": (),
}


def variants(family: str) -> tuple[Variant, ...]:
    """The paper's methods, then ours."""
    theirs = tuple(Variant.of(name) for name in METHODS)
    if family == "mamba":
        return (*theirs, Variant.of("aire", calibrated=True))
    return (
        *theirs,
        Variant.of("aire", "refit"),
        Variant.of("aire", "balanced"),
        Variant.of("aire", "balanced", True),
    )


def ablations(family: str, length: int) -> tuple[Variant, ...]:
    """What each part of the method is worth."""
    parts = (
        Variant.of("aire"),
        Variant.of("global-energy"),
        Variant.of("uniform-energy"),
        Variant.of("aire", epsilon=1e-8),
        Variant.of("aire", epsilon=1e-2),
        Variant.of("aire", horizon=length),
        Variant.of("aire", horizon=max(1, length // 16)),
    )
    if family == "mamba":  # its poles are no pairs, and depend on the input
        return (*parts, Variant.of("aire", calibrated=True))
    return (
        *parts,
        Variant.of("aire-published"),
        Variant.of("aire-pair"),
        Variant.of("aire", "refit"),
        Variant.of("aire", "balanced"),
        Variant.of("aire", "balanced", horizon=length),
        Variant.of("aire", calibrated=True),
        Variant.of("aire", "balanced", True),
        Variant.of("aire", "balanced", True, horizon=length),
    )


def sweep_request(model: ZooModel, recipe: str) -> SweepRequest:
    """The sweep behind the tables and curves of a model."""
    validation, test = EXAMPLES[recipe]
    return SweepRequest(
        variants=variants(model.family),
        ratios=RATIOS,
        examples=test,
        validation=validation,
        calibrate_count=_to_fit(model, recipe),
        drop=DROP[recipe],
    )


def ablation_request(model: ZooModel, recipe: str, length: int) -> SweepRequest:
    """The sweep of a model's ablations; length: steps of its task."""
    validation, test = EXAMPLES[recipe]
    return SweepRequest(
        variants=ablations(model.family, length),
        ratios=ABLATION_RATIOS,
        examples=test,
        validation=validation,
        calibrate_count=_to_fit(model, recipe),
        drop=DROP[recipe],
    )


def _to_fit(model: ZooModel, recipe: str) -> int:
    return FEWER_TO_FIT.get(model.name, COUNT) if recipe == "mini" else COUNT
