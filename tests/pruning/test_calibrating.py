"""What to calibrate with: texts, and inputs of the layers where no model can be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import MODELS, inputs
from stranger_models import STRANGERS

import aireprune
from aireprune import AireError
from aireprune.calibration.calls import answer
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.saving import save_model

BUILD = """
import sys
sys.path.insert(0, {tests!r})
from stranger_models import STRANGERS, s5_pytorch
build = STRANGERS["network"]
other = s5_pytorch
number = lambda: 3
def broken(): raise ValueError("no")
"""


@pytest.fixture
def bytes_model(tmp_path: Path) -> Path:
    config = MambaConfig(d_input=256, d_output=256, d_model=8, layers=2, d_state=4, mode="tokens")
    save_model(initialize(MambaModel(config)).eval(), tmp_path / "lm")
    return tmp_path / "lm"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("What is asked of the many is asked of the few. " * 400)
    return tmp_path / "text.txt"


def test_a_text_calibrates_a_model_of_bytes(bytes_model: Path, text: Path, tmp_path: Path) -> None:
    plan = aireprune.prune_file(bytes_model, tmp_path / "out", ratio=0.5, calibrate=text, calibrate_tokens=8192)
    assert plan.calibrated == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calibrate_tokens": 1}, "calibrate_tokens=1"),
        ({"calibrate_tokens": 100_000, "text": "short"}, "too few for a window"),
        ({"text": b"\xff\xfe\x00bad"}, "UTF-8"),
        ({"model": "s5"}, "takes 2 values per step and no tokens"),
        ({"layer_inputs": "."}, "cannot be combined"),
    ],
)
def test_texts_that_do_not_fit(
    bytes_model: Path, text: Path, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    written = change.pop("text", None)
    if written is not None:
        text.write_bytes(written if isinstance(written, bytes) else written.encode())
    if "model" in change:
        bytes_model = tmp_path / "other"
        save_model(MODELS[change.pop("model")](), bytes_model)
    with pytest.raises(AireError, match=message):
        aireprune.prune_file(bytes_model, tmp_path / "out", ratio=0.5, calibrate=text, **change)
    assert not (tmp_path / "out").exists()


def saved(tmp_path: Path) -> tuple[torch.nn.Module, Path]:
    full = STRANGERS["network"]()
    torch.save(full.state_dict(), tmp_path / "net.pth")
    (tmp_path / "code.py").write_text(BUILD.format(tests=str(Path(__file__).parents[1])))
    return full, tmp_path / "net.pth"


def test_your_own_code_builds_the_module(tmp_path: Path) -> None:
    full, path = saved(tmp_path)
    choices: dict[str, Any] = {"ratio": 0.5, "reduce": "truncate", "granularity": "state", "calibrate": inputs(24)}
    aireprune.prune_file(path, tmp_path / "out.pth", module=f"{tmp_path / 'code.py'}:build", **choices)
    wanted = aireprune.prune(full, **choices)
    found = torch.load(tmp_path / "out.pth", weights_only=True)
    for name, value in wanted.state_dict().items():
        torch.testing.assert_close(found[name], value, msg=name)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("{0}/code.py:other", "does not fit the module"),
        ("{0}/code.py:number", "returned a int"),
        ("{0}/code.py:broken", "ValueError: no"),
        ("{0}/code.py:absent", "has no function absent"),
        ("{0}/nothing.py:build", "There is no file"),
        ("build", "path.py:build_model"),
    ],
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_code_that_does_not_build_it(tmp_path: Path, module: str, message: str) -> None:
    _, path = saved(tmp_path)
    with pytest.raises(AireError, match=message):
        aireprune.prune_file(path, tmp_path / "out.pth", ratio=0.5, calibrate=inputs(), module=module.format(tmp_path))
    assert not (tmp_path / "out.pth").exists()


def layer_inputs(full: torch.nn.Module, folder: Path) -> None:
    """What the layers read, taken by the owner of the model."""
    folder.mkdir()
    names = {"parts.first": "parts.first.kernel", "parts.second": "parts.second.kernel", "lru": "lru"}

    def keep(module: torch.nn.Module, args: tuple[Any, ...], name: str) -> None:
        u = args[0] if name == "lru" else args[0].transpose(1, 2)
        np.save(folder / f"{name}.npy", u.detach().numpy())

    hooks = [
        full.get_submodule(module).register_forward_pre_hook(lambda m, args, name=name: keep(m, args, name))
        for module, name in names.items()
    ]
    full(torch.from_numpy(inputs(24)))
    for hook in hooks:
        hook.remove()


def test_layers_are_fitted_on_their_own_inputs(tmp_path: Path) -> None:
    full, path = saved(tmp_path)
    layer_inputs(full, tmp_path / "seen")
    unseen, answers = torch.from_numpy(inputs(8, seed=1)), {}
    for name, given in (("plain", None), ("fitted", tmp_path / "seen")):
        out = tmp_path / f"{name}.pth"
        aireprune.prune_file(path, out, ratio=0.6, reduce="truncate", granularity="state", layer_inputs=given)
        small = aireprune.prune(full, ratio=0.6, reduce="truncate", granularity="state")
        small.load_state_dict(torch.load(out, weights_only=True))
        answers[name] = answer(small(unseen))
    wanted = answer(full(unseen))
    assert (answers["fitted"] - wanted).norm() < 0.5 * (answers["plain"] - wanted).norm()
    (tmp_path / "seen" / "lru.npy").unlink()
    with pytest.raises(AireError, match=r"holds no lru\.npy"):
        aireprune.prune_file(path, tmp_path / "out.pth", ratio=0.6, layer_inputs=tmp_path / "seen")
    np.save(tmp_path / "seen" / "lru.npy", np.zeros((3, 4, 5)))
    with pytest.raises(AireError, match=r"reads \(n, L, 12\)"):
        aireprune.prune_file(path, tmp_path / "out.pth", ratio=0.6, layer_inputs=tmp_path / "seen")
