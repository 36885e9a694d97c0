"""Which tables and figures are wanted, of which models, and where everything about them is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aireprune.errors import AireError
from aireprune.experiments.paper.models import ABLATED, ZOO, ZooModel
from aireprune.experiments.summary import Summary
from aireprune.training.recipes import check_name

ITEMS = {
    "table1": "S5: the ratio each method is safe at, and the accuracy there",
    "table2": "the same for S4D and Mamba",
    "table3": "S5: speedup and parameters saved at the safe ratios",
    "table5": "the same for Mamba",
    "curves": "accuracy against ratio, a figure per model",
    "profiles": "what each layer loses as the ratio grows, a figure per model",
    "averages": "loss and safe ratio of each method, averaged over the models",
    "ablations": "what each part of the method is worth",
}
FAMILIES = {"s5": "S5", "s4d": "S4D", "mamba": "Mamba"}
TABLE_FAMILIES = {"table1": ("s5",), "table2": ("s4d", "mamba"), "table3": ("s5",), "table5": ("mamba",)}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """zoo: the folder of trained models. out: gets results.md, and the data and figures in results/."""

    items: frozenset[str]
    models: tuple[ZooModel, ...]
    recipe: str
    zoo: Path
    out: Path

    @property
    def data(self) -> Path:
        return self.out / "results"

    @property
    def page(self) -> Path:
        return self.out / "results.md"

    @property
    def sweeps(self) -> bool:
        """Whether anything but ablations is wanted."""
        return bool(self.items - {"ablations"})

    @property
    def ablated(self) -> tuple[ZooModel, ...]:
        """The models whose ablations are wanted."""
        return tuple(model for model in self.models if "ablations" in self.items and model.name in ABLATED)

    def of_family(self, family: str) -> tuple[ZooModel, ...]:
        return tuple(model for model in self.models if model.family == family)

    def path(self, model: ZooModel) -> Path:
        """Of the trained model."""
        return model.path(self.zoo, self.recipe)

    def sweep_folder(self, model: ZooModel) -> Path:
        return self.data / model.name

    def ablation_folder(self, model: ZooModel) -> Path:
        return self.data / "ablations" / model.name

    def summary(self, model: ZooModel) -> Summary:
        return Summary.load(self.sweep_folder(model) / "summary.json")


def plan_reproduction(item: str, recipe: str, zoo: Path, out: Path, only: Iterable[str] = ()) -> Reproduction:
    """item: one of ITEMS, or all. only: names of models, of all that the item is about if there is none."""
    check_name(recipe)
    if item != "all" and item not in ITEMS:
        raise AireError(f"There is no table or figure {item!r}. Choose all or one of {', '.join(ITEMS)}.")
    items = frozenset(ITEMS if item == "all" else (item,))
    names = [model.name for model in ZOO[recipe]]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise AireError(f"There is no model {', '.join(unknown)} in recipe {recipe}. Models: {', '.join(names)}.")
    families = {family for wanted in items for family in TABLE_FAMILIES.get(wanted, FAMILIES)}
    chosen = tuple(m for m in ZOO[recipe] if m.family in families and (not only or m.name in only))
    return Reproduction(items=items, models=chosen, recipe=recipe, zoo=zoo, out=out)
