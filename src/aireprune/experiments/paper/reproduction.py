"""Which tables and figures are wanted, of which models, and where everything about them is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aireprune.errors import AireError, did_you_mean
from aireprune.experiments.paper.models import SEEDED, ZOO, ZooModel
from aireprune.experiments.summary import Summary
from aireprune.pruning.source import open_file
from aireprune.training.recipes import check_name
from aireprune.zoo import locate

ITEMS = {
    "table1": "S5: the ratio each method is safe at, and the accuracy there",
    "table2": "the same for S4D and Mamba",
    "table3": "S5: speedup and parameters saved at the safe ratios",
    "table5": "the same for Mamba",
    "curves": "accuracy against ratio, a figure per model",
    "profiles": "what each layer loses as the ratio grows, a figure per model",
    "averages": "loss and safe ratio of each method, averaged over the models",
    "ablations": "what each part of the method is worth",
    "seeds": "what varies from model to model: the methods on models of several seeds",
}
FAMILIES = {"s5": "S5", "s4d": "S4D", "mamba": "Mamba"}
TABLE_FAMILIES = {"table1": ("s5",), "table2": ("s4d", "mamba"), "table3": ("s5",), "table5": ("mamba",)}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """seeded: groups of models that differ in their seed. zoo: the folder of trained models. own: checkpoints of the user's
    that take the place of models, by their names. out: gets results.md, and the data and figures in results/."""

    items: frozenset[str]
    models: tuple[ZooModel, ...]
    seeded: tuple[tuple[ZooModel, ...], ...]
    recipe: str
    zoo: Path
    own: Mapping[str, Path]
    out: Path

    @property
    def data(self) -> Path:
        return self.out / "results"

    @property
    def page(self) -> Path:
        return self.out / "results.md"

    @property
    def sweeps(self) -> bool:
        """Whether anything but ablations and seeds is wanted."""
        return bool(self.items - {"ablations", "seeds"})

    @property
    def ablated(self) -> tuple[ZooModel, ...]:
        """The models whose ablations are wanted."""
        return self.models if "ablations" in self.items else ()

    @property
    def every(self) -> tuple[ZooModel, ...]:
        """The models of all tables and figures, each once."""
        return tuple(dict.fromkeys((*self.models, *(model for group in self.seeded for model in group))))

    def of_family(self, family: str) -> tuple[ZooModel, ...]:
        return tuple(model for model in self.models if model.family == family)

    def find(self, model: ZooModel) -> Path | None:
        """Where the trained model is, if it is there."""
        return self.own.get(model.name) or model.find(self.zoo)

    def path(self, model: ZooModel) -> Path:
        """The same; a model that is missing is an error."""
        found = self.find(model)
        if found is None:
            raise AireError(
                f"There is no model {self.zoo / model.name}: it is trained on {model.base} with family={model.family!r} "
                f"and recipe={self.recipe!r}."
            )
        return found

    def sweep_folder(self, model: ZooModel) -> Path:
        return self.data / model.name

    def ablation_folder(self, model: ZooModel) -> Path:
        return self.data / "ablations" / model.name

    def seed_folder(self, model: ZooModel) -> Path:
        return self.data / "seeds" / model.name

    def summary(self, model: ZooModel) -> Summary:
        return Summary.load(self.sweep_folder(model) / "summary.json")


def plan_reproduction(
    item: str,
    recipe: str,
    zoo: Path,
    out: Path,
    only: Iterable[str] = (),
    own: Iterable[str] = (),
) -> Reproduction:
    """item: one of ITEMS, or all. only: names of models; by default those of `own`, or all that the item is about.

    own: checkpoints of the user's, 'listops-s5=PATH', or 'listops=PATH' for one of the family that it is found to be.
    """
    check_name(recipe)
    paths = dict(_own_model(text, recipe) for text in own)
    only = tuple(only) or tuple(paths)
    if item != "all" and item not in ITEMS:
        raise AireError(
            f"There is no table or figure {item!r}.{did_you_mean(item, ITEMS)} Choose all or one of {', '.join(ITEMS)}."
        )
    items = frozenset(ITEMS if item == "all" else (item,))
    groups = SEEDED[recipe] if "seeds" in items else ()
    names = list(dict.fromkeys(model.name for model in (*ZOO[recipe], *(group[0] for group in groups))))
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise AireError(f"There is no model {', '.join(unknown)} in recipe {recipe}. Models: {', '.join(names)}.")
    families = {family for wanted in items - {"seeds"} for family in TABLE_FAMILIES.get(wanted, FAMILIES)}
    chosen = tuple(m for m in ZOO[recipe] if m.family in families and (not only or m.name in only))
    seeded = tuple(group for group in groups if not only or group[0].name in only)
    if not (chosen or seeded):
        raise AireError(f"{item} is not about {', '.join(only) or f'recipe {recipe}'}.")
    return Reproduction(items=items, models=chosen, seeded=seeded, recipe=recipe, zoo=zoo, own=paths, out=out)


def _own_model(text: str, recipe: str) -> tuple[str, Path]:
    """'listops=PATH' -> the name of the model that it stands for, and where it is."""
    name, equals, where = text.partition("=")
    if not (name and equals and where):
        raise AireError(f"A model of your own is given as TASK=PATH or NAME=PATH, not {text!r}.")
    path = locate(where)
    known = {model.name: model for model in ZOO[recipe]}
    if name not in known:
        family = open_file(path).layers[0].family
        if f"{name}-{family}" not in known:
            raise AireError(
                f"The tables have no {FAMILIES.get(family, family)} model of {name!r} with recipe={recipe!r}. Models: "
                f"{', '.join(known)}."
            )
        name = f"{name}-{family}"
    return name, path
