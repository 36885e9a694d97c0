"""A pruned copy of the embedded model, and a sweep of a toy."""

from __future__ import annotations

import pytest
import toy_experiments

import aireprune
from aireprune import embedded
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import Setting, run_sweep
from aireprune.experiments.variants import Variant


@pytest.fixture(scope="session")
def pruned(tmp_path_factory):
    """A folder: half of the embedded model's states are gone."""
    path = tmp_path_factory.mktemp("pruned") / "half"
    aireprune.prune_file(embedded.MODEL, path, method="aire", reduce="truncate", layout="adaptive", ratio=0.5)
    return path


@pytest.fixture(scope="session")
def swept(tmp_path_factory):
    """A sweep of three variants at two ratios, with the model it is of beside it."""
    folder = tmp_path_factory.mktemp("swept")
    model, task = toy_experiments.classification()
    aireprune.save(model, folder / "model")
    variants = (Variant.of("aire"), Variant.of("random"), Variant.of("aire", "balanced"))
    request = SweepRequest(variants=variants, ratios=(0.25, 0.5), seeds=2, drop=5.0)
    source = str((folder / "model").resolve())
    run_sweep(aireprune.load(folder / "model"), task, request, folder / "sweep", setting=Setting(source=source))
    return folder / "sweep"
