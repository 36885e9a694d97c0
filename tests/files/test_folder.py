"""Checkpoint directories: shards, what comes along, what does not, and indexes that lie."""

import json
import os

import numpy as np
import pytest
import torch
from file_helpers import failing, half, listing
from safetensors.torch import load_file, save_file

from aireprune.arrays import Added
from aireprune.errors import AireError
from aireprune.files import Raw, open_checkpoint, write_folder

INDEX = "model.safetensors.index.json"


def weights():
    torch.manual_seed(1)
    return {f"layers.{i}.{leaf}": torch.randn(6, 4).half() for i in range(3) for leaf in ("A_log", "out")}


def make(folder, sharded=True, kind="safetensors", config=None):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "mamba"}))
    (folder / "tokenizer.json").write_text("{}")
    stem, save = ("model", save_file) if kind == "safetensors" else ("pytorch_model", torch.save)
    if not sharded:
        save(weights(), folder / f"{stem}.{kind}")
        return folder
    weight_map = {}
    for i in range(3):
        file = f"{stem}-{i + 1:05d}-of-00003.{kind}"
        part = {name: tensor for name, tensor in weights().items() if name.startswith(f"layers.{i}.")}
        save(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1, "total_parameters": 2, "note": "x"}, "weight_map": weight_map}
    (folder / f"{stem}.{kind}.index.json").write_text(json.dumps(index))
    return folder


def read(folder):
    found = {}
    for path in folder.glob("*model*"):
        if path.suffix == ".safetensors":
            found |= load_file(path)
        elif path.suffix == ".bin":
            found |= torch.load(path, weights_only=True)
    return found


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
@pytest.mark.parametrize("sharded", [False, True])
def test_pruned_copy(tmp_path, kind, sharded):
    source = make(tmp_path / "in", sharded, kind)
    checkpoint = open_checkpoint(source)
    assert checkpoint.kind == "huggingface"
    assert checkpoint.config == {"model_type": "mamba"}
    assert not checkpoint.notices
    name = "layers.1.A_log"
    np.testing.assert_array_equal(checkpoint[name], weights()[name].numpy())
    checkpoint.write(tmp_path / "out", {name: half}, {"state_size": 3}, {"plan.json": "{}"})
    assert listing(tmp_path) == ["in", "out"]
    assert set(listing(tmp_path / "out")) == {*listing(source), "plan.json"}
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {"state_size": 3}
    before, after = read(source), read(tmp_path / "out")
    assert set(before) == set(after)
    for key, tensor in before.items():
        assert torch.equal(after[key], tensor[::2] if key == name else tensor)
    if sharded:
        (index,) = (tmp_path / "out").glob("*.index.json")
        metadata = json.loads(index.read_text())["metadata"]
        assert metadata == {"total_size": 2 * (6 * 24 - 12), "total_parameters": 6 * 24 - 12, "note": "x"}


def test_training_leftovers_and_duplicates_stay_behind(tmp_path):
    source = make(tmp_path / "in")
    for name in ("optimizer.pt", "rng_state_0.pth", "trainer_state.json", "pytorch_model.bin", ".hidden", "README.md"):
        (source / name).write_text("x")
    for name in ("checkpoint-5", "templates", ".git"):
        (source / name).mkdir()
        (source / name / "file.txt").write_text("x")
    checkpoint = open_checkpoint(source)
    training, duplicates = checkpoint.notices
    assert all(name in training for name in ("optimizer.pt", "rng_state_0.pth", "trainer_state.json", "checkpoint-5"))
    assert "pytorch_model.bin" in duplicates
    checkpoint.write(tmp_path / "out", {})
    shards = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    expected = sorted([*shards, INDEX, "README.md", "config.json", "templates", "tokenizer.json"])
    assert listing(tmp_path / "out") == expected
    assert (tmp_path / "out" / "templates" / "file.txt").exists()


def test_hugging_face_cache_layout(tmp_path):
    plain = make(tmp_path / "plain")
    snapshot = tmp_path / "hub" / "snapshots" / "abc"
    blobs = tmp_path / "hub" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(plain.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    open_checkpoint(snapshot).write(tmp_path / "out", {"layers.0.out": half})
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    assert read(tmp_path / "out")["layers.0.out"].shape == (3, 4)


def change_index(folder, change):
    index = json.loads((folder / INDEX).read_text())
    change(index)
    (folder / INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/etc/passwd", "..", "", "sub/x.safetensors", "a\\b"])
def test_index_that_names_a_path_outside(tmp_path, name):
    source = make(tmp_path / "in")
    change_index(source, lambda index: index["weight_map"].update({"layers.0.out": name}))
    with pytest.raises(AireError, match="only files of the directory itself"):
        open_checkpoint(source)


def test_link_that_leads_out(tmp_path):
    source = make(tmp_path / "in")
    shard = source / "model-00001-of-00003.safetensors"
    shard.rename(tmp_path / "elsewhere.safetensors")
    shard.symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(AireError, match="leads out of the directory"):
        open_checkpoint(source)
    shard.unlink()
    shard.symlink_to(tmp_path / "nowhere")
    with pytest.raises(AireError, match="does not exist"):
        open_checkpoint(source)


def test_companion_link_that_leads_out_is_not_copied(tmp_path):
    source = make(tmp_path / "in")
    (tmp_path / "secret").write_text("s")
    (source / "README.md").symlink_to(tmp_path / "secret")
    checkpoint = open_checkpoint(source)
    assert "README.md" in checkpoint.notices[0]
    checkpoint.write(tmp_path / "out", {})
    assert "README.md" not in listing(tmp_path / "out")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda f: (f / "model-00002-of-00003.safetensors").unlink(),
            "lacks the file model-00002-of-00003.safetensors",
        ),
        (
            lambda f: change_index(f, lambda i: i["weight_map"].update(x="model-00001-of-00003.safetensors")),
            "has no tensor x",
        ),
        (lambda f: change_index(f, lambda i: i.pop("weight_map")), "has no weight_map"),
        (lambda f: (f / INDEX).write_text("{"), "not readable as JSON"),
        (lambda f: (f / "config.json").write_text("[1]"), "holds a JSON list"),
        (
            lambda f: os.truncate(f / "model-00003-of-00003.safetensors", 150),
            "model-00003-of-00003.safetensors is truncated",
        ),
    ],
)
def test_damaged_directories_get_one_sentence(tmp_path, damage, sentence):
    source = make(tmp_path / "in")
    damage(source)
    with pytest.raises(AireError, match=sentence) as caught:
        open_checkpoint(source)
    assert "\n" not in str(caught.value)


def test_directory_without_a_checkpoint(tmp_path):
    with pytest.raises(AireError, match=r"holds no checkpoint: expected one of model.safetensors"):
        open_checkpoint(tmp_path)
    (tmp_path / "best.pth").write_text("x")
    with pytest.raises(AireError, match="name that file"):
        open_checkpoint(tmp_path)


def test_failing_edit_leaves_nothing_behind(tmp_path):
    source = make(tmp_path / "in")
    with pytest.raises(RuntimeError):
        open_checkpoint(source).write(tmp_path / "deep" / "out", {"layers.0.out": half, "layers.2.out": failing})
    assert listing(tmp_path) == ["in"]


def test_targets_that_are_refused(tmp_path):
    source = make(tmp_path / "in")
    checkpoint = open_checkpoint(source)
    for target in (source, source / "sub", tmp_path):
        with pytest.raises(AireError, match="in or around it"):
            checkpoint.write(target, {}, overwrite=True)
    with pytest.raises(AireError, match="looks like a file"):
        checkpoint.write(tmp_path / "out.safetensors", {})
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("x")
    with pytest.raises(AireError, match="exists already"):
        checkpoint.write(precious, {})
    with pytest.raises(AireError, match="not a checkpoint"):
        checkpoint.write(precious, {}, overwrite=True)
    assert listing(precious) == ["thesis.txt"]


def test_overwriting_a_checkpoint(tmp_path):
    checkpoint = open_checkpoint(make(tmp_path / "in"))
    make(tmp_path / "out", sharded=False)
    checkpoint.write(tmp_path / "out", {}, overwrite=True)
    assert "model.safetensors" not in listing(tmp_path / "out")
    assert listing(tmp_path) == ["in", "out"]


def test_own_format(tmp_path):
    arrays = {
        "b": np.arange(3, dtype=np.int8),
        "z": np.array([1 + 2j], np.complex64),
        "w": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "h": Raw("BF16", (2,), bytes([0x80, 0x3F, 0x49, 0x40])),
    }
    write_folder(tmp_path / "m", arrays, {"family": "s5"}, {"plan.json": "{}"})
    checkpoint = open_checkpoint(tmp_path / "m")
    assert checkpoint.kind == "aire"
    assert checkpoint.config == {"format": "aireprune", "family": "s5"}
    for name in ("b", "z", "w"):
        np.testing.assert_array_equal(checkpoint[name], arrays[name])
    assert checkpoint["h"].tolist() == [1, 3.140625]
    assert load_file(tmp_path / "m" / "model.safetensors")["h"].dtype == torch.bfloat16
    checkpoint.write(tmp_path / "again", {"w": half})
    assert "plan.json" not in listing(tmp_path / "again")
    with pytest.raises(AireError, match="exists already"):
        write_folder(tmp_path / "m", arrays, {})


def test_targets_that_hold_what_is_read(tmp_path):
    given = make(tmp_path / "other", sharded=False) / "config.json"
    checkpoint = open_checkpoint(make(tmp_path / "in"), given)
    with pytest.raises(AireError, match=r"other holds .*config.json, which is being read"):
        checkpoint.write(tmp_path / "other", {}, overwrite=True)
    assert given.exists()


@pytest.mark.parametrize("sharded", [False, True])
def test_new_tensors_stand_beside_old_ones(tmp_path, sharded):
    source = make(tmp_path / "in", sharded)
    new, wide = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((6, 2), np.float32)
    edits = {"layers.1.proj": Added(new, "layers.1.out"), "layers.0.out": lambda old: wide}
    open_checkpoint(source).write(tmp_path / "out", edits)
    found, before = read(tmp_path / "out"), weights()
    assert found.keys() == {*before, "layers.1.proj"}
    assert found["layers.1.proj"].dtype == torch.float16
    np.testing.assert_array_equal(found["layers.1.proj"].float().numpy(), new)
    assert all(torch.equal(found[name], before[name]) for name in before if name != "layers.0.out")
    assert open_checkpoint(tmp_path / "out").shapes["layers.1.proj"] == (2, 3)
    if sharded:
        index = json.loads((tmp_path / "out" / INDEX).read_text())
        assert index["weight_map"]["layers.1.proj"] == index["weight_map"]["layers.1.out"]
        assert index["metadata"]["total_parameters"] == sum(tensor.numel() for tensor in found.values())


def test_new_tensors_are_refused_where_they_cannot_be_stored(tmp_path):
    new = Added(np.ones((2, 3), np.float32), "layers.1.out")
    folder = open_checkpoint(make(tmp_path / "bin", sharded=False, kind="bin"))
    with pytest.raises(AireError, match="would get a new tensor layers"):
        folder.write(tmp_path / "out", {"layers.1.proj": new})
    folder = open_checkpoint(make(tmp_path / "in", sharded=False))
    with pytest.raises(AireError, match=r"no tensor layers\.1\.proj to edit"):
        folder.write(tmp_path / "out", {"layers.1.proj": Added(new.values, "layers.9.out")})
    with pytest.raises(AireError, match="not finite"):
        folder.write(tmp_path / "out", {"layers.1.proj": Added(new.values * np.nan, "layers.1.out")})
    with pytest.raises(AireError, match="a target without a suffix"):
        open_checkpoint(tmp_path / "in" / "model.safetensors").write(tmp_path / "o.safetensors", {"layers.1.proj": new})
    assert not (tmp_path / "out").exists()
