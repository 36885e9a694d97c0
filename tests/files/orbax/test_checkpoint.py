"""Orbax checkpoints, as Flax writes them: read, pruned and restored by Flax again."""

from __future__ import annotations

import gc
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import GOLDEN, Golden

import aireprune
from aireprune.errors import AireError
from aireprune.files import open_checkpoint

NAME = "uni_ln_full_glu_last"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A train state of a golden model, with an optimiser's, as save_checkpoint writes it."""
    checkpoints = pytest.importorskip("flax.training.checkpoints", reason="flax is not installed")
    from flax.serialization import msgpack_restore

    folder = tmp_path_factory.mktemp("run")
    tree = msgpack_restore((GOLDEN / f"{NAME}.msgpack").read_bytes())
    checkpoints.save_checkpoint(folder, {**tree, "step": 3, "opt_state": {"mu": np.zeros(3)}}, 500)
    (folder / "checkpoint_500.json").write_text(json.dumps(Golden(NAME).config))
    return folder / "checkpoint_500"


def restored(folder: Path) -> Any:
    from flax.training import checkpoints

    return checkpoints.restore_checkpoint(folder, None)


pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module", autouse=True)
def _no_late_complaints() -> Iterator[None]:
    """Reads of a broken folder end in threads of Orbax after its event loop; other tests do not hear of it."""
    yield
    before, sys.unraisablehook = sys.unraisablehook, lambda complaint: None
    time.sleep(1)
    gc.collect()
    sys.unraisablehook = before


def test_it_is_the_msgpack_file(saved: Path) -> None:
    flax, read = open_checkpoint(GOLDEN / f"{NAME}.msgpack"), open_checkpoint(saved)
    assert read.kind == "orbax"
    assert dict(read.shapes) == dict(flax.shapes)
    assert all(np.array_equal(read[name], flax[name]) for name in read.shapes)
    assert "optimiser state (opt_state) is left out" in read.notices[0]


def test_pruned_and_restored_by_flax(saved: Path, tmp_path: Path) -> None:
    choices: Any = {"ratio": 0.5, "target": "official-s5"}
    plan = aireprune.prune_file(saved, tmp_path / "small" / "checkpoint_500", **choices)
    aireprune.prune_file(GOLDEN / f"{NAME}.msgpack", tmp_path / "flax.msgpack", **choices)
    expected, tree = open_checkpoint(tmp_path / "flax.msgpack"), restored(tmp_path / "small")
    assert set(tree) == {"params", "step"}
    assert tree["step"] == 3
    for name in expected.shapes:
        values = tree
        for key in name.split("."):
            values = values[key]
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    folder = tmp_path / "small" / "checkpoint_500"
    assert aireprune.Plan.load(folder / "plan.json") == plan
    config = json.loads((folder / "config.json").read_text())
    assert config["n"] == 2 * config["states"][0]
    model = aireprune.load(folder)
    assert len(set(model.config.modes)) == 1


def test_bfloat16_stays(saved: Path, tmp_path: Path) -> None:
    import jax.numpy as jnp
    from flax.training import checkpoints

    checkpoints.save_checkpoint(tmp_path, {"w": jnp.arange(4, dtype=jnp.bfloat16), "v": np.ones(2)}, 1)
    checkpoint = open_checkpoint(tmp_path / "checkpoint_1")
    np.testing.assert_array_equal(checkpoint["w"], np.arange(4, dtype=np.float32))
    checkpoint.write(tmp_path / "out" / "checkpoint_1", {"w": lambda values: values[:2]})
    assert str(restored(tmp_path / "out")["w"].dtype) == "bfloat16"


def test_what_is_not_whole(saved: Path, tmp_path: Path) -> None:
    from flax.serialization import msgpack_restore
    from flax.training import checkpoints

    tree = msgpack_restore((GOLDEN / f"{NAME}.msgpack").read_bytes())
    large = np.random.default_rng(0).standard_normal((300, 300))  # too large to stand among the names
    checkpoints.save_checkpoint(tmp_path / "run", {**tree, "large": large}, 1)
    for missing in ("_METADATA", "manifest.ocdbt", "ocdbt.process_0", "d"):
        here = tmp_path / missing.replace(".", " ")
        shutil.copytree(tmp_path / "run" / "checkpoint_1", here / "broken")
        gone = here / "broken" / missing
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        with pytest.raises(AireError, match="Orbax checkpoint"):
            aireprune.prune_file(here / "broken", here / "out", config=Golden(NAME).config, ratio=0.5)
        assert [path.name for path in here.iterdir()] == ["broken"]


def test_the_folder_around_one(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "500" / "default")
    (tmp_path / "500" / "_CHECKPOINT_METADATA").write_text("{}")
    with pytest.raises(AireError, match=r"name .*500/default, which is in it"):
        open_checkpoint(tmp_path / "500")


def test_without_the_library(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="orbax")

    monkeypatch.setattr("aireprune.files.orbax.checkpoint.import_module", missing)
    with pytest.raises(AireError, match=r"Orbax is not installed: pip install orbax-checkpoint, or 'aireprune\[jax\]'"):
        open_checkpoint(saved)
