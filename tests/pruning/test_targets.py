"""The table of engines: sizes that are rounded to, sizes that run, and results that load where that can be tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Golden

import aireprune
from aireprune.errors import AireError
from aireprune.families import FAMILIES
from aireprune.files import open_checkpoint
from aireprune.pruning.targets import TARGETS, Sizes, find_target


def test_steps_and_what_runs() -> None:
    assert Sizes(step=32).steps(100) == (32, 64, 96)
    assert Sizes(power=16).steps(128) == (16, 32, 64, 128)
    assert Sizes(power=16).steps(8) == (8,)
    assert Sizes(most=256).steps(512) == ()
    assert [size for size in range(1, 130) if Sizes(step=32).runs(size)] == [32, 64, 96, 128]
    assert [size for size in range(1, 130) if Sizes(power=16).runs(size)] == [16, 32, 64, 128]
    assert Sizes(power=16, strict=False).runs(5)
    assert [size for size in (1, 256, 257) if Sizes(most=256).runs(size)] == [1, 256]


def test_every_engine_is_complete() -> None:
    for target in TARGETS.values():
        assert set(target.families) <= set(FAMILIES)
        assert set(target.on_gpu) <= set(target.families)
        assert target.sources
        assert target.load is None or "{out}" in target.load
        assert json.loads(json.dumps(target.to_dict()))["name"] == target.name


def test_names() -> None:
    with pytest.raises(
        AireError, match=r"no target 'lama.cpp'\. Did you mean llama.cpp\? Targets: mamba-ssm, transformers"
    ):
        find_target("lama.cpp")


@pytest.mark.parametrize("layout", ["uniform", "padded"])
@pytest.mark.parametrize("name", ["uni_ln_full_glu_last", "bidir_bn_half_glu2"])
def test_official_s5(tmp_path: Path, name: str, layout: str) -> None:
    """In Flax modules made with the n of the written configuration: the answers of the masked model at full size."""
    pytest.importorskip("flax.linen", reason="flax is not installed")
    from flax.serialization import msgpack_restore
    from official_s5 import log_probs

    golden = Golden(name)
    full = msgpack_restore(golden.path.read_bytes())
    np.testing.assert_allclose(log_probs(full, golden.config, golden.data["x"]), golden.data["log_probs"], atol=1e-4)
    choices: Any = {"ratio": 0.5, "method": "aire", "reduce": "truncate", "target": "official-s5", "layout": layout}
    plan = aireprune.prune_file(golden.path, tmp_path / "small.msgpack", **choices)
    aireprune.prune_file(golden.path, tmp_path / "masked.msgpack", plan, mask=True)
    config = json.loads((tmp_path / "small.json").read_text())
    assert config["n"] == 2 * max(len(layer.kept) for layer in plan.layers) < golden.config["n"]
    small, masked = (msgpack_restore((tmp_path / f"{one}.msgpack").read_bytes()) for one in ("small", "masked"))
    expected = log_probs(masked, golden.config, golden.data["x"])
    np.testing.assert_allclose(log_probs(small, config, golden.data["x"]), expected, atol=1e-5)
    assert np.abs(expected - golden.data["log_probs"]).max() > 1e-3  # something was taken away
    with pytest.raises(Exception, match="shape"):
        log_probs(small, golden.config, golden.data["x"])


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("layout", ["uniform", "adaptive"])
def test_s5_pytorch(tmp_path: Path, layout: str) -> None:
    """Modules made with the new state_width load the file and give the masked model's answers."""
    from s5 import S5Block
    from torch import nn

    def network(*sizes: int) -> nn.Module:
        torch.manual_seed(3)
        blocks = [S5Block(8, size, bidir=number == 1) for number, size in enumerate(sizes)]
        return nn.Sequential(nn.Linear(2, 8), *blocks, nn.Linear(8, 3)).eval()

    torch.save(network(16, 16).state_dict(), tmp_path / "full.pt")
    choices: Any = {"ratio": 0.5, "method": "aire", "reduce": "truncate", "target": "s5-pytorch", "layout": layout}
    plan = aireprune.prune_file(tmp_path / "full.pt", tmp_path / "small.pt", **choices)
    aireprune.prune_file(tmp_path / "full.pt", tmp_path / "masked.pt", plan, mask=True)
    small, masked = network(*(len(layer.kept) for layer in plan.layers)), network(16, 16)
    small.load_state_dict(torch.load(tmp_path / "small.pt"))
    masked.load_state_dict(torch.load(tmp_path / "masked.pt"))
    x = torch.randn(2, 20, 2)
    with torch.no_grad():
        torch.testing.assert_close(small(x), masked(x), rtol=1e-4, atol=1e-5)


def test_mamba_ssm_folders(tmp_path: Path) -> None:
    """config.json with ssm_cfg, pytorch_model.bin: recognised, and written back with the new d_state."""
    from foreign_models import transformers_model

    states = transformers_model("Mamba", state_size=16).state_dict()
    weights = {name.replace("embeddings", "embedding"): values for name, values in states.items()}
    folder = tmp_path / "mamba"
    folder.mkdir()
    torch.save(weights, folder / "pytorch_model.bin")
    config = {"d_model": 32, "n_layer": 3, "vocab_size": 40, "ssm_cfg": {}, "rms_norm": True}
    (folder / "config.json").write_text(json.dumps(config))
    assert [layer.states for layer in aireprune.inspect(folder).layers] == [16] * 3
    plan = aireprune.prune_file(folder, tmp_path / "out", ratio=0.6, target="mamba-ssm")
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written == {**config, "ssm_cfg": {"d_state": 6}}
    small = torch.load(tmp_path / "out" / "pytorch_model.bin")
    assert {name: values.shape[1] for name, values in small.items() if "A_log" in name} == {
        f"backbone.layers.{number}.mixer.A_log": 6 for number in range(3)
    }
    assert {len(layer.kept) for layer in plan.layers} == {6}
    data = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(data[: len(data) // 2])
    with pytest.raises(AireError, match="damaged or truncated"):
        aireprune.prune_file(folder, tmp_path / "none", ratio=0.5)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(AireError, match="holds no checkpoint: expected one of"):
        aireprune.prune_file(folder, tmp_path / "none", ratio=0.5)
    assert not (tmp_path / "none").exists()


def test_files_without_a_suffix(tmp_path: Path) -> None:
    """checkpoint_500, as Flax called its files: the copy is of the same kind, with its texts beside it."""
    golden = Golden("uni_ln_full_glu_last")
    (tmp_path / "checkpoint_500").write_bytes(golden.path.read_bytes())
    plan = aireprune.prune_file(
        tmp_path / "checkpoint_500", tmp_path / "small_500", ratio=0.5, target="official-s5", config=golden.config
    )
    assert open_checkpoint(tmp_path / "small_500").kind == "flax"
    assert aireprune.Plan.load(tmp_path / "small_500.plan.json") == plan


def test_two_files_of_one_name_do_not_share_a_plan(tmp_path: Path) -> None:
    golden = Golden("uni_ln_full_glu_last")
    aireprune.prune_file(golden.path, tmp_path / "small.msgpack", ratio=0.5)
    checkpoint = open_checkpoint(golden.path)
    arrays = {name: torch.tensor(checkpoint[name]) for name in checkpoint.shapes}
    torch.save(arrays, tmp_path / "full.pth")
    before = (tmp_path / "small.plan.json").read_bytes()
    with pytest.raises(AireError, match=r"small.plan.json belongs to .*small.msgpack, .* choose another name"):
        aireprune.prune_file(tmp_path / "full.pth", tmp_path / "small.pth", ratio=0.25, overwrite=True)
    assert (tmp_path / "small.plan.json").read_bytes() == before
    assert not (tmp_path / "small.pth").exists()
    aireprune.prune_file(golden.path, tmp_path / "small.msgpack", ratio=0.25, overwrite=True)  # its own is replaced
    assert (tmp_path / "small.plan.json").read_bytes() != before
