"""The last line of `aire prune` is code that loads what was written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from foreign_models import MODELS as FOREIGN
from helpers import GOLDEN
from safetensors.torch import save_file

import aireprune
from aireprune.models.mamba import MambaModel
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d_config import S4DConfig


def last_line(aire: Any, *arguments: Any, ratio: float = 0.5) -> str:
    code, out, err = aire("prune", *arguments, "--ratio", ratio)
    assert code == 0, err
    return str(out.splitlines()[-1]).removeprefix("Load it: ")


def test_our_own_format(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.s4d(), tmp_path / "in")
    torch.save(small_models.s4d().state_dict(), tmp_path / "in.pth")
    (tmp_path / "in.json").write_text('{"prenorm": false}')
    for source in ("in", "in.pth"):
        line = last_line(aire, tmp_path / source, "-o", tmp_path / f"out-of-{source.replace('.', '-')}")
        assert isinstance(eval(line), S4DModel)


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_transformers_folders(aire: Any, tmp_path: Any, kind: str) -> None:
    from transformers import AutoModelForCausalLM  # noqa: F401

    FOREIGN[kind]().save_pretrained(tmp_path / "in")  # type: ignore[operator]
    line = last_line(aire, tmp_path / "in", "-o", tmp_path / "out")
    assert line == f'AutoModelForCausalLM.from_pretrained("{tmp_path / "out"}")'
    assert eval(line).config.get_text_config() is not None
    line = last_line(aire, tmp_path / "in", "-o", tmp_path / "varied", "--layout", "adaptive", ratio=0.6)
    assert line == f'aireprune.load("{tmp_path / "varied"}")'


def test_projected_folders(aire: Any, tmp_path: Any) -> None:
    """Stock code loads neither a projected folder nor what is made of it."""
    FOREIGN["mamba2"]().save_pretrained(tmp_path / "in")  # type: ignore[operator]
    np.save(tmp_path / "tokens.npy", np.random.default_rng(0).integers(1, 40, (8, 20)))
    asked = ("--reduce", "projected", "--calibrate", tmp_path / "tokens.npy")
    for source, target, options in (("in", "out", asked), ("out", "twice", ())):
        line = last_line(aire, tmp_path / source, "-o", tmp_path / target, *options)
        assert line == f'aireprune.load("{tmp_path / target}")'
        assert eval(line).config.projected_from == 6


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_state_dict_and_the_number_that_changed(aire: Any, tmp_path: Any, wrapped: bool) -> None:
    """d_state of the stock S4D counts both halves of a pair."""
    state = small_models.s4d().state_dict()
    torch.save({"model": state} if wrapped else state, tmp_path / "in.pth")
    line = last_line(aire, tmp_path / "in.pth", "-o", tmp_path / "out.pth")
    code, number = re.fullmatch(r"(.*), made with d_state=(\d+)", line).groups()  # type: ignore[union-attr]
    model = S4DModel(S4DConfig(d_input=2, d_output=3, h=6, n=int(number), layers=2))
    eval(code, {"model": model, "torch": torch})
    assert int(number) == 8


def test_safetensors_and_flax_files(aire: Any, tmp_path: Any) -> None:
    save_file(small_models.mamba().state_dict(), tmp_path / "in.safetensors")
    line = last_line(aire, tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors")
    code, number = line.split(", made with d_state=")
    model = MambaModel(small_models.mamba().config.with_states((int(number),) * 2))
    import safetensors.torch

    eval(code, {"model": model, "safetensors": safetensors})
    line = last_line(aire, GOLDEN / "bidir_bn_half_glu2.msgpack", "-o", tmp_path / "flax.msgpack")
    assert line.startswith("flax.serialization.msgpack_restore(open(")
    assert line.endswith(", made with ssm_size=8 (one block)")


def test_layers_of_different_sizes_and_masks(aire: Any, tmp_path: Any) -> None:
    torch.save(small_models.mamba().state_dict(), tmp_path / "in.pth")
    line = last_line(aire, tmp_path / "in.pth", "-o", tmp_path / "masked.pth", "--mask")
    assert line == f'model.load_state_dict(torch.load("{tmp_path / "masked.pth"}"))'
    state = small_models.mamba().state_dict()
    state["layers.0.x_proj.weight"][-8:] *= 0.1 ** torch.arange(8)[:, None]  # few of the states of layer 0 say anything
    torch.save(state, tmp_path / "uneven.pth")
    line = last_line(aire, tmp_path / "uneven.pth", "-o", tmp_path / "varied.pth", "--layout", "adaptive")
    sizes = aireprune.load(tmp_path / "varied.pth").config.states
    assert sizes[0] < sizes[1]
    assert line.endswith(f"layers of {', '.join(map(str, sizes))} states")
