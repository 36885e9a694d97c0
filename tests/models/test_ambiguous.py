"""Pre-norm or post-norm: found out with data, asked for without, never assumed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from shared_data import shared
from torch.nn import functional as F

import aireprune
from aireprune.errors import AireError
from aireprune.models.ambiguous import information
from aireprune.models.s4d import S4DConfig, S4DModel, initialize
from aireprune.pruning.settling import settled_by_batches, settled_by_task
from aireprune.pruning.source import open_file
from aireprune.tasks.base import Split, Task

CLASSES, LENGTH = 4, 48


def examples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy waves (n, L, 1) of four frequencies, and which they are."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, count)
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    wave = np.sin((0.15 + 0.25 * y[:, None]) * np.arange(LENGTH) + phase)
    return (wave + 0.3 * rng.standard_normal(wave.shape))[..., None].astype(np.float32), y


def trained(prenorm: bool) -> S4DModel:
    config = S4DConfig(d_input=1, d_output=CLASSES, h=12, n=8, layers=3, prenorm=prenorm, dt_min=0.05, dt_max=0.5)
    torch.manual_seed(0)
    model = initialize(S4DModel(config), 1).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(60):
        x, y = (torch.from_numpy(part) for part in examples(48, step))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def file(request, tmp_path_factory) -> tuple[Path, S4DModel]:
    """A trained network as a bare file of weights, and the network itself."""
    model = trained(request.param)
    x, y = (torch.from_numpy(part) for part in examples(200, 1000))
    with torch.no_grad():
        assert (model(x).argmax(-1) == y).float().mean() > 0.8
    path = tmp_path_factory.mktemp("bare") / "s4d.safetensors"
    save_file(model.state_dict(), path)
    return path, model


def task(count: int = 100) -> Task:
    parts = [Split(*examples(count, seed)) for seed in (2000, 2001, 2002)]
    return Task("waves", LENGTH, 1, CLASSES, lambda x: x, *parts)


def test_unlabelled_inputs_tell(file: tuple[Path, S4DModel]) -> None:
    path, model = file
    source = settled_by_batches(open_file(path), [torch.from_numpy(examples(100, 3000)[0])])
    assert source.settled == {"prenorm": model.config.prenorm}
    assert f"prenorm {str(model.config.prenorm).lower()} is used" in source.notices[-1]
    assert source.build().config.prenorm is model.config.prenorm


def test_labels_tell(file: tuple[Path, S4DModel]) -> None:
    path, model = file
    source = settled_by_task(open_file(path), lambda built: task())
    assert source.settled == {"prenorm": model.config.prenorm}


def test_calibration_inputs_settle_it_and_the_output_says_so(file: tuple[Path, S4DModel], tmp_path: Path) -> None:
    path, model = file
    x = examples(40, 4000)[0]
    with pytest.warns(aireprune.Notice, match="both were tried"):
        aireprune.prune_file(path, tmp_path / "small.safetensors", ratio=0.3, calibrate=x)
    assert json.loads((tmp_path / "small.json").read_text())["prenorm"] is model.config.prenorm
    small = aireprune.load(tmp_path / "small.safetensors")
    with torch.no_grad():
        given = torch.from_numpy(x)
        assert (small(given).argmax(-1) == model(given).argmax(-1)).float().mean() > 0.9
    certificate = aireprune.certify(tmp_path / "small.safetensors", path, data=x)
    assert certificate.end_to_end is not None
    assert certificate.end_to_end.changed_answers < 0.1


def test_without_data_the_answer_is_asked_for(file: tuple[Path, S4DModel], tmp_path: Path) -> None:
    path, _ = file
    for build in (
        lambda: aireprune.load(path),
        lambda: aireprune.prune(path, ratio=0.5),
        lambda: aireprune.prune_file(path, tmp_path / "own", ratio=0.5),
    ):
        with pytest.raises(AireError, match="does not say whether its layers are normalised before"):
            build()
    aireprune.prune_file(path, tmp_path / "small.safetensors", ratio=0.5)  # nothing has to be built
    for prenorm in (False, True):
        assert aireprune.load(path, {"prenorm": prenorm}).config.prenorm is prenorm


def test_inputs_that_do_not_tell_are_no_answer(file: tuple[Path, S4DModel]) -> None:
    """All alike, they are answered alike."""
    with pytest.raises(AireError, match="neither is ahead"):
        settled_by_batches(open_file(file[0]), [torch.zeros(20, LENGTH, 1)])


def test_a_configuration_is_believed(file: tuple[Path, S4DModel]) -> None:
    source = open_file(file[0], {"prenorm": not file[1].config.prenorm})
    assert settled_by_batches(source, [torch.from_numpy(examples(50, 0)[0])]) is source


def test_the_command_says_it_in_flags(file: tuple[Path, S4DModel], aire, tmp_path: Path) -> None:
    code, _, err = aire("prune", file[0], "-o", tmp_path / "own", "--ratio", 0.5)
    assert code == 1
    assert "--config" in err
    assert "--calibrate" in err
    parts = {part: examples(90, 5000 + seed) for seed, part in enumerate(("train", "validation", "test"))}
    np.savez(
        tmp_path / "waves.npz",
        **{f"{part}_{k}": v for part, given in parts.items() for k, v in zip("xy", given, strict=True)},
    )
    code, _, err = aire("prune", file[0], "-o", tmp_path / "own", "--ratio", 0.5, "--task", tmp_path / "waves.npz")
    assert (code, "both were tried" in err) == (0, True)
    assert aireprune.load(tmp_path / "own").config.prenorm is file[1].config.prenorm


def test_information() -> None:
    """Sure and varied answers carry log(classes); sure but equal ones, and unsure ones, carry nothing."""
    eye = 50 * torch.eye(CLASSES)
    given = {"varied": eye, "equal": eye[[0, 0, 0]], "unsure": torch.zeros(5, CLASSES)}
    found = {name: information(torch.nn.Identity(), [logits]) for name, logits in given.items()}
    assert found == pytest.approx({"varied": np.log(CLASSES), "equal": 0, "unsure": 0}, abs=1e-6)
    assert information(torch.nn.Identity(), [eye[:2], eye[2:]]) == pytest.approx(np.log(CLASSES))
    assert information(torch.nn.Identity(), [eye / 0]) == -np.inf


def test_the_public_checkpoint_is_post_norm() -> None:
    """It is surer of its answers as the pre-norm model that it is not, but these say less."""
    data = np.load(shared("cifar10_rgb_test2000.npz"))
    x = data["x"][:64].reshape(64, 1024, 3) / 255
    x = (x - [0.4914, 0.4822, 0.4465]) / [0.2023, 0.1994, 0.2010]
    source = open_file(shared("checkpoints/s4d_scifar_rgb.pth"))
    assert settled_by_batches(source, [torch.from_numpy(x.astype(np.float32))]).settled == {"prenorm": False}
