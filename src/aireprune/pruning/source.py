"""A model in memory or a checkpoint on disk, opened once: its state space layers, and how edits are applied to it.

`FileSource` and `ModuleSource` have the same `apply(surgery)`: a copy of what they are, with edited arrays. Of a module
that is a module; of a checkpoint it is an `EditedFile`, which exists on disk once it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.arrays import Edit, NamedArrays
from aireprune.errors import AireError
from aireprune.families import Found, Units, find_layers
from aireprune.families.s4 import Diagonalized, diagonal_error, diagonalize
from aireprune.families.s4d_packed import PACKED_ROWS, packed_edits, unpack
from aireprune.files import open_checkpoint
from aireprune.files.base import Checkpoint
from aireprune.files.folder import FolderCheckpoint
from aireprune.files.gguf.checkpoint import READ_ONLY
from aireprune.files.shards import ShardWork
from aireprune.files.single import KINDS, refuse_shared
from aireprune.files.sizes import resized_config, with_plain_size
from aireprune.pruning.plan import Plan
from aireprune.pruning.selective import projected_from
from aireprune.pruning.surgery import Surgery
from aireprune.zoo import shown

if TYPE_CHECKING:
    from torch import nn

ASSUMED = {  # what tensors do not show, for the notice when there is no configuration either
    "mamba": "no norms of B and C without weights, as FalconMamba has,",
    "mamba2": "one group of states",
}
ConfigLike = Mapping[str, Any] | str | Path | None


@dataclass(frozen=True)
class Source(Found):
    """Where layers were found. origin: the checkpoint that it is or was loaded from; notices: what a user should know."""

    origin: str | None = None
    notices: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "arrays"


@dataclass(frozen=True)
class ModuleSource(Source):
    """A module in memory."""

    module: nn.Module = field(kw_only=True)
    settings: Mapping[str, Any] = field(default_factory=dict)  # what it does not say about itself

    @property
    def kind(self) -> str:
        return "module"

    @property
    def is_own(self) -> bool:
        """One of our own models."""
        from aireprune.models.arrays import is_own

        return is_own(self.module)

    def apply(self, surgery: Surgery) -> nn.Module:
        """An edited copy of the module."""
        from aireprune.models.editing import edited

        return edited(self.module, self.layers, surgery.edits, surgery.sizes)


@dataclass(frozen=True)
class FileSource(Source):
    """A checkpoint on disk."""

    checkpoint: Checkpoint = field(kw_only=True)
    builder: Callable[[], nn.Module] | None = None  # makes the module that the file holds the weights of
    settled: Mapping[str, Any] = field(
        default_factory=dict
    )  # found out about its network: `aireprune.pruning.settling`

    @property
    def kind(self) -> str:
        return self.checkpoint.kind

    @property
    def is_file(self) -> bool:
        """A single file, as opposed to a folder."""
        return self.checkpoint.path.is_file()

    @property
    def is_own(self) -> bool:
        """A folder in our own format."""
        return self.kind == "aire"

    @property
    def rectangular(self) -> bool:
        """Rows of modes (S4D) are stored equally long, as in every layout but our own."""
        return not self.is_own

    def becomes_own(self, target: Path) -> bool:
        """Whether a copy at `target` is a folder in our own format: of a single file with a suffix, and without one.

        What has no suffix itself (checkpoint_500) stays of its kind.
        """
        return self.is_file and not target.suffix and self.checkpoint.path.suffix.lower() in KINDS

    def writes_own(self, target: Path) -> bool:
        """Whether a copy at `target` is in our own format."""
        return self.is_own or self.becomes_own(target)

    def check_copy(self, target: Path) -> None:
        """Raise if no copy can stand at `target`, as far as that is known beforehand."""
        self.checkpoint.check_target(target)
        if self.is_file:
            refuse_shared(target)

    def apply(self, surgery: Surgery) -> EditedFile:
        """A copy of the same kind, ready to be written."""
        edits = dict(surgery.edits)
        if isinstance(self.arrays, Diagonalized):  # S4 layers were diagonalised on opening
            edits = self.arrays.edits(edits)
        edits, rows = packed_edits(self, edits, keep=not self.rectangular)
        names = [layer.name for layer in self.layers]
        config = {key: value for key, value in self.checkpoint.config.items() if key != PACKED_ROWS}
        if self.kind != "huggingface":
            before = [layer.states // (layer.groups * layer.rows) for layer in self.layers]
            config = with_plain_size(config, max(before, default=0), max(surgery.sizes, default=0))
        resized = resized_config(self.kind, config, names, surgery.sizes)
        if resized is not None:
            resized |= projected_from(self.kind, self.layers, surgery.edits, surgery.sizes)
        facts = {} if self.kind == "huggingface" else {**self.describe(), **self.settled, **rows}
        if resized is None and facts:
            resized = {"states": list(surgery.sizes)}
        return EditedFile(self.checkpoint, edits, None if resized is None else {**facts, **resized})

    def with_diagonal_errors(self, plan: Plan) -> Plan:
        """The plan with, in its certificate, the relative H2 error of S4 layers that were fitted on opening.

        What else the certificate says of such a layer is about its diagonal form.
        """
        if plan.certificate is None:
            return plan
        errors = {entry["name"]: diagonal_error(self.arrays, entry["name"]) for entry in plan.certificate}
        entries = (
            entry if errors[entry["name"]] is None else {**entry, "diagonal_error": errors[entry["name"]]}
            for entry in plan.certificate
        )
        return replace(plan, certificate=tuple(entries))

    def build(self) -> nn.Module:
        """The model that the checkpoint holds, in evaluation mode."""
        if self.kind == "gguf":
            raise AireError(f"{self.name} {READ_ONLY}.")
        if self.builder is None:
            from aireprune.models.build import build_model

            return build_model(self, self.checkpoint)
        from aireprune.models.user_module import filled

        if isinstance(self.arrays, Diagonalized):
            raise AireError(
                f"{self.name} holds S4 layers, which are diagonalised before they are reduced; a module of the original "
                "class cannot hold the result. Leave out module=."
            )
        return filled(self.builder(), self.arrays, self.name)


@dataclass(frozen=True)
class EditedFile:
    """An edited copy of a checkpoint that is not written yet."""

    checkpoint: Checkpoint
    edits: Mapping[str, Edit]
    config: Mapping[str, Any] | None

    def write(self, target: Path, texts: Mapping[str, str], overwrite: bool, work: ShardWork | None = None) -> None:
        """Write it with small texts by name (plan.json); it appears whole or not at all. work: how the shards of a folder
        are written."""
        if work is not None and isinstance(self.checkpoint, FolderCheckpoint):
            self.checkpoint.work = work
        self.checkpoint.write(target, self.edits, self.config, texts, overwrite)


def open_file(
    path: str | Path | Checkpoint,
    config: ConfigLike = None,
    units: Units | None = None,
    module: str | None = None,
) -> FileSource:
    """Open a checkpoint and find the state space layers in it. units: what a removable state is.

    module: 'path.py:build_model', a function of the user's that builds the module, if it has to be built.
    """
    builder = None
    if module is not None:
        from aireprune.models.user_module import load_builder

        builder = load_builder(module)
    checkpoint = open_checkpoint(path, config) if isinstance(path, str | Path) else path
    url = getattr(checkpoint, "url", None)
    name = url or shown(checkpoint.path)
    unpacked = unpack(checkpoint, checkpoint.config)
    view = diagonalize(unpacked or checkpoint, checkpoint.config, units)
    arrays: NamedArrays = view or unpacked or checkpoint
    layers = find_layers(arrays, checkpoint.config, units, name)
    notices = [*checkpoint.notices, *([] if view is None else view.notices)]
    assumed = sorted({ASSUMED[layer.family] for layer in layers if layer.family in ASSUMED})
    if assumed and not checkpoint.config:
        notices.append(
            f"no configuration came with {name}, so {' and '.join(assumed)} are assumed; config= says otherwise."
        )
    origin = url or str(checkpoint.path.resolve())
    return FileSource(
        name, arrays, checkpoint.config, layers, origin, tuple(notices), checkpoint=checkpoint, builder=builder
    )


def open_module(
    module: nn.Module, config: Mapping[str, Any] | None = None, units: Units | None = None, origin: str | None = None
) -> ModuleSource:
    """A module in memory with the state space layers found in it. config: what it does not say about itself."""
    from aireprune.models.arrays import ModuleArrays, module_config

    found = {**module_config(module), **(config or {})}
    arrays, name = ModuleArrays(module), type(module).__name__
    layers = find_layers(arrays, found, units, name)
    return ModuleSource(name, arrays, found, layers, origin, module=module, settings=config or {})


def open_source(
    what: nn.Module | Checkpoint | str | Path,
    config: ConfigLike = None,
    units: Units | None = None,
    module: str | None = None,
) -> FileSource | ModuleSource:
    """Open a path, an opened checkpoint or a module."""
    if isinstance(what, str | Path | Checkpoint):
        return open_file(what, config, units, module)
    if module is not None:
        raise AireError("module= says how to build the module of a checkpoint; a model in memory is built already.")
    if not hasattr(what, "state_dict"):
        raise AireError(f"Expected a model or the path of a checkpoint, not a {type(what).__name__}.")
    if config is not None and not isinstance(config, Mapping):
        raise AireError("A model in memory takes its configuration as a mapping, not from a file.")
    return open_module(what, config, units)
