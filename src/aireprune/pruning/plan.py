"""A plan: which states of which layers stay, why, and for which checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any

from aireprune.drawing import shown_axes, styled
from aireprune.errors import AireError
from aireprune.extras import data_frame
from aireprune.families import Found, Layer, StateAxes, Units
from aireprune.files.writing.atomic import atomic_path
from aireprune.method.methods import find_method
from aireprune.method.reductions import find_reduction
from aireprune.pruning import views
from aireprune.pruning.targets import find_target

SCHEMA = 1
LAYOUTS = {
    "adaptive": "every layer has its own size",
    "uniform": "all layers keep equally many states",
    "padded": "chosen as adaptive, then filled up with silent states to the size of the largest layer",
}
ALLOCATIONS = {
    "scores": "how many states each layer keeps follows from one ranking of their scores",
    "measured": "the layers that the model's answers need most keep most, as measured on unlabelled inputs",
}


@dataclass(frozen=True)
class LayerPlan:
    """What stays of one layer.

    With `reduce` balanced or projected, the new states of a layer (or S4D channel, or Mamba-2 group) are numbered from the
    strongest on, and `kept` are the first ones of these numbers; their energies are the squared singular values.
    """

    name: str
    family: str
    states: int
    kept: tuple[int, ...]
    energy_kept: float  # share of the layer's summed [energy] that the kept states hold (stable states only)
    silent: int = 0  # states without any gain, which fill up rows or were masked; they are not counted
    measured_error: float | None = (
        None  # of a projection on held-out inputs: how far the scan moves, relative to its norm
    )

    @property
    def counted(self) -> int:
        """The states that a ratio is a share of."""
        return self.states - self.silent

    @property
    def ratio(self) -> float:
        return max(0.0, 1 - len(self.kept) / self.counted) if self.counted else 0.0

    @property
    def predicted_error(self) -> float:
        """The root of the share of energy that is gone: how far a projection moves the scan, relative to its norm, if the
        gates C_t are independent of the states."""
        return math.sqrt(max(0.0, 1 - self.energy_kept))

    def __repr__(self) -> str:
        return views.one_layer_line(self)


@dataclass(frozen=True)
class Plan:
    """The kept states of every layer, and everything that led to them."""

    method: str
    ratio: float | None
    threshold: float  # the score from which states were kept
    by_threshold: bool  # the user gave the threshold; otherwise it follows from the ratio
    min_states: int
    epsilon: float
    horizon: int | None
    seed: int
    layout: str  # adaptive, uniform or padded: see `LAYOUTS`
    granularity: str  # S4D: mode (every channel chooses its own) or state (one index for all channels)
    fingerprint: str  # of the checkpoint the plan was made from
    layers: tuple[LayerPlan, ...]
    reduce: str = "truncate"  # what becomes of the kept states: see `aireprune.method.reductions`
    round_to: int = 1
    source: str | None = None  # the checkpoint it was made from, for `aire certify`
    calibrated: int = 0  # unlabelled sequences that the readouts were then fitted on
    recovered: int = 0  # steps in which all parameters then learnt from the full model, without labels
    certificate: tuple[dict[str, Any], ...] | None = None  # per layer, once applied: `method.bounds.LayerCertificate`
    allocate: str = "scores"  # what decided how many states each layer keeps: see `ALLOCATIONS`
    state_axes: tuple[str, ...] = ()  # 'NAME=AXIS' of tensors that no family knows: see `aireprune.families.StateAxes`
    target: str | None = None  # the engine it was made for: see `aireprune.pruning.targets`

    @property
    def units(self) -> Units:
        """What a removable state is, and which tensors it is cut from, where families leave that open."""
        axes = StateAxes.parse(self.state_axes)
        return Units(granularity=self.granularity, even=self.layout == "uniform", state_axes=axes)

    @property
    def states(self) -> int:
        """All that count: silent ones do not."""
        return sum(layer.counted for layer in self.layers)

    @property
    def kept(self) -> int:
        return sum(len(layer.kept) for layer in self.layers)

    @property
    def achieved_ratio(self) -> float:
        """Share of states that really goes, after rounding and min_states."""
        return max(0.0, 1 - self.kept / self.states) if self.states else 0.0

    def __repr__(self) -> str:
        return views.one_line(self)

    def _repr_html_(self) -> str:
        """In notebooks: a table of the layers."""
        return views.as_html(self)

    def to_pandas(self) -> Any:
        """A DataFrame with a row per layer: states, kept, share of energy, and what the certificate says."""
        return data_frame(views.rows(self))

    def plot(self, axes: Any = None) -> Any:
        """Kept and removed states of every layer, on matplotlib axes (new ones if none are given), which are returned."""
        with styled():
            axes = shown_axes(7.0, 1.2 + 0.3 * len(self.layers)) if axes is None else axes
            views.draw(axes, self)
        return axes

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        values["threshold"] = None if math.isinf(self.threshold) else self.threshold
        return {"schema": SCHEMA, **values}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        with atomic_path(Path(path)) as temporary:
            temporary.write_text(self.to_json())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "plan") -> Plan:
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            found = values.get("schema") if isinstance(values, Mapping) else type(values).__name__
            raise AireError(f"{where}: plan schema {found!r} is not the one this version reads ({SCHEMA}).")
        fields = {key: value for key, value in values.items() if key != "schema"}
        try:
            fields["layers"] = tuple(LayerPlan(**{**layer, "kept": tuple(layer["kept"])}) for layer in fields["layers"])
            if fields.get("certificate") is not None:
                fields["certificate"] = tuple(fields["certificate"])
            fields["state_axes"] = tuple(fields.get("state_axes", ()))
            fields["threshold"] = math.inf if fields["threshold"] is None else fields["threshold"]
            plan = cls(**fields)
        except (KeyError, TypeError) as problem:
            raise AireError(f"{where}: not a complete plan ({problem}).") from None
        plan._validate(where)
        return plan

    def _validate(self, where: str) -> None:
        """A plan that was edited by hand, or broken, is refused before it touches anything."""
        for name, kinds in _TYPES.items():
            if not isinstance(getattr(self, name), kinds):
                raise AireError(f"{where}: {name} is {getattr(self, name)!r}, which is not of the right type.")
        find_method(self.method)
        find_reduction(self.reduce)
        check_layout(self.layout)
        check_allocation(self.allocate)
        if self.target is not None:
            find_target(self.target)
        _ = self.units
        for layer in self.layers:
            whole = type(layer.states) is int and all(type(index) is int for index in layer.kept)
            ascending = whole and all(a < b for a, b in pairwise((-1, *layer.kept, layer.states)))
            if not ascending or not isinstance(layer.name, str) or type(layer.silent) is not int:
                raise AireError(
                    f"{where}: the kept states of layer {layer.name} must be ascending whole numbers from 0 to "
                    f"{layer.states} - 1."
                )

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise AireError(f"There is no plan file {path}.") from None
        except (OSError, ValueError, RecursionError) as problem:
            raise AireError(f"{path} is not a plan: {problem}.") from None
        return cls.from_dict(values, str(path))

    def check(self, found: Found) -> None:
        """Raise unless the plan was made from exactly these layers."""
        if [layer.states for layer in found.layers] != [layer.states for layer in self.layers]:
            raise AireError(
                f"The plan was made for another model: it has {_sizes(self.layers)}, this one has "
                f"{_sizes(found.layers)}."
            )
        if found.fingerprint() != self.fingerprint:
            raise AireError(
                "The plan was made from another checkpoint: the shapes agree but the weights of the state space layers "
                "do not."
            )

    def named_after(self, layers: Sequence[Layer[Any]]) -> Plan:
        """The same plan under the names that another container gives the same layers."""
        names = {mine.name: layer.name for mine, layer in zip(self.layers, layers, strict=True)}
        certificate = self.certificate
        if certificate is not None:
            certificate = tuple({**found, "name": names.get(found["name"], found["name"])} for found in certificate)
        named = tuple(replace(mine, name=names[mine.name]) for mine in self.layers)
        return replace(self, layers=named, certificate=certificate)


_TYPES: dict[str, Any] = {
    "method": str,
    "ratio": (int, float, NoneType),
    "threshold": (int, float),
    "by_threshold": bool,
    "min_states": int,
    "epsilon": (int, float),
    "horizon": (int, NoneType),
    "seed": int,
    "layout": str,
    "granularity": str,
    "fingerprint": str,
    "reduce": str,
    "round_to": int,
    "source": (str, NoneType),
    "calibrated": int,
    "recovered": int,
    "certificate": (tuple, NoneType),
    "state_axes": tuple,
    "allocate": str,
    "target": (str, NoneType),
}


def check_layout(layout: str) -> None:
    """Raise unless the layout is known."""
    if layout not in LAYOUTS:
        raise AireError(f"There is no layout {layout!r}. Layouts: {', '.join(LAYOUTS)}.")


def check_allocation(allocate: str) -> None:
    """Raise unless the allocation is known."""
    if allocate not in ALLOCATIONS:
        raise AireError(f"There is no allocation {allocate!r}. Allocations: {', '.join(ALLOCATIONS)}.")


def _sizes(layers: Sequence[Layer[Any]] | Sequence[LayerPlan]) -> str:
    return f"{len(layers)} layers with {', '.join(str(layer.states) for layer in layers)} states"
