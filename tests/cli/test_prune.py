"""aire prune as a user meets it: what it prints, what it leaves behind, and its sentences for bad input."""

from __future__ import annotations

import json
import pickle

import msgpack
import numpy as np
import pytest
import torch
from helpers import GOLDEN

import aireprune

S5_FILE = GOLDEN / "bidir_bn_half_glu2.msgpack"


@pytest.mark.parametrize("mask", [False, True])
def test_to_a_folder_and_to_flax(aire, s5_file, tmp_path, mask):
    flags = ["--method", "aire", "--reduce", "truncate", "--layout", "adaptive", *["--mask"] * mask]
    assert aire("prune", s5_file, "-o", tmp_path / "pruned", "--ratio", 0.5, *flags)[0] == 0
    code, out, _ = aire("prune", s5_file, "-o", tmp_path / "pruned.msgpack", "--ratio", 0.5, "--json", *flags)
    assert code == 0
    plan = json.loads(out)["plan"]
    assert sum(len(layer["kept"]) for layer in plan["layers"]) == 12
    assert json.loads((tmp_path / "pruned" / "plan.json").read_text()) == plan
    assert json.loads((tmp_path / "pruned.plan.json").read_text()) == plan
    x = torch.from_numpy(np.load(S5_FILE.with_suffix(".npz"))["x"])
    expected = aireprune.prune(s5_file, ratio=0.5, reduce="truncate")
    with torch.no_grad():
        for target in (tmp_path / "pruned", tmp_path / "pruned.msgpack"):
            torch.testing.assert_close(aireprune.load(target)(x), expected(x), rtol=1e-5, atol=1e-6)
    if not mask:
        assert (tmp_path / "pruned.msgpack").stat().st_size < s5_file.stat().st_size
        assert aireprune.load(tmp_path / "pruned").config.modes == tuple(len(layer["kept"]) for layer in plan["layers"])


@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_every_reduction_says_what_it_cost(aire, s5_file, tmp_path, reduce):
    target = tmp_path / "small.msgpack"
    code, out, _ = aire("prune", s5_file, "-o", target, "--ratio", 0.5, "--reduce", reduce)
    assert code == 0
    assert "expected error" in out
    assert out.startswith("aire: kept" if reduce == "truncate" else f"{reduce}: kept")
    plan = json.loads((tmp_path / "small.plan.json").read_text())
    assert (plan["reduce"], plan["source"]) == (reduce, str(s5_file))
    assert len(plan["certificate"]) == 3


def test_a_saved_plan_applies_to_its_checkpoint_only(aire, s5_file, tmp_path):
    aireprune.plan(s5_file, ratio=0.25).save(tmp_path / "plan.json")
    assert aire("prune", s5_file, "-o", tmp_path / "a", "--plan", tmp_path / "plan.json")[0] == 0
    assert json.loads((tmp_path / "a" / "plan.json").read_text())["ratio"] == 0.25
    other = GOLDEN / "padded_half_glu1_rescale2.msgpack"
    code, _, err = aire("prune", other, "-o", tmp_path / "b", "--plan", tmp_path / "plan.json")
    assert code == 1
    assert "made from another checkpoint" in err
    assert not (tmp_path / "b").exists()


def test_recovery_says_what_it_did(aire, s5_file, tmp_path):
    x = np.load(S5_FILE.with_suffix(".npz"))["x"]
    np.save(tmp_path / "x.npy", np.concatenate([x + shift for shift in np.linspace(-1, 1, 24)]))
    how = ("--ratio", 0.75, "--reduce", "truncate", "--calibrate", tmp_path / "x.npy", "--recover-steps", 40)
    code, out, err = aire("prune", s5_file, "-o", tmp_path / "small", *how)
    assert code == 0
    assert "Recovered in 40 steps: on held-out inputs the outputs differ from the full model's by" in out
    assert "recovery: step 40 of 40, divergence" in err
    code, out, _ = aire("prune", s5_file, "-o", tmp_path / "other", "--json", *how)
    document = json.loads(out)
    found = document["recovery"]
    assert (found["steps"], document["plan"]["recovered"]) == (40, 40)
    assert found["after"]["kl"] < found["before"]["kl"]
    assert json.loads((tmp_path / "small" / "plan.json").read_text())["recovered"] == 40


def test_a_plan_and_other_options_do_not_mix(refused, s5_file, tmp_path):
    aireprune.plan(s5_file, ratio=0.25).save(tmp_path / "plan.json")
    plan = ("--plan", tmp_path / "plan.json")
    refused(s5_file, "decides on layout, min-states", *plan, "--min-states", 7, "--layout", "uniform")
    refused(s5_file, "The plan already decides on reduce", *plan, "--reduce", "refit")


def broken(s5_file, what):
    """A checkpoint that has one thing wrong, and what the sentence must mention."""
    tree = msgpack.unpackb(s5_file.read_bytes(), strict_map_key=False)
    seq = tree["params"]["encoder"]["layers_1"]["seq"]

    def array(name):
        shape, dtype, data = msgpack.unpackb(seq[name].data)
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def put(name, values):
        packed = msgpack.packb((values.shape, values.dtype.name, values.tobytes()))
        seq[name] = msgpack.ExtType(1, packed)

    if what == "missing tensor":
        del seq["B"]
        mention = "layers_1.seq.B is missing"
    elif what == "wrong shape":
        put("B", array("B")[:5])
        mention = "layers_1.seq.B has shape (5, 12, 2), expected (8, *, 2)"
    elif what == "nan":
        values = array("C1")
        values[0, 0, 0] = np.nan
        put("C1", values)
        mention = "layers_1.seq.C1 holds values that are not finite"
    elif what == "unstable":
        values = array("Lambda_re")
        values[3] = 0.5
        put("Lambda_re", values)
        mention = "layers_1.seq state 3"
    s5_file.write_bytes(msgpack.packb(tree))
    return s5_file, mention


@pytest.mark.parametrize("what", ["missing tensor", "wrong shape", "nan", "unstable"])
@pytest.mark.parametrize("suffix", ["", ".msgpack"])
def test_broken_weights(refused, s5_file, what, suffix):
    path, mention = broken(s5_file, what)
    before = path.read_bytes()
    refused(path, mention, suffix=suffix)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (("--ratio", 1.3), "got 1.3"),
        (("--ratio", 0.5, "--method", "magic"), "There is no method 'magic'"),
        (("--ratio", 0.5, "--threshold", 0.1), "not both"),
        (("--min-states", 1), "how much is to go"),
        (("--ratio", 0.5, "--epsilon", "nan"), "0 or more; got nan"),
        (("--ratio", 0.5, "--epsilon", "inf"), "0 or more; got inf"),
        (("--ratio", 0.5, "--method", "last", "--horizon", 10), "belongs to the energy"),
        (("--ratio", 0.5, "--unstable", "ignore"), "'refuse' or 'keep'"),
        (("--ratio", 0.5, "--method", "random", "--seed", -1), "seed is a whole number"),
        (("--ratio", 0.5, "--granularity", "foo"), "granularity is mode or state"),
        (("--ratio", 0.5, "--layout", "foo"), "no layout 'foo'"),
        (("--ratio", 0.5, "--min-states", -1), "0 or more"),
        (("--ratio", 0.5, "--reduce", "nothing"), "There is no reduction 'nothing'"),
        (("--ratio", 0.5, "--reduce", "refit", "--mask"), "A mask leaves every state as it is"),
        (("--ratio", 0.5, "--recover", 5), "give them with --calibrate."),
        (("--ratio", 0.5, "--recover-steps", 5, "--layer-inputs", "layers"), "give them with --calibrate."),
        (("--ratio", 0.5, "--calibrate", "smnist", "--recover", 0), "above 0, in minutes; got --recover 0."),
        (("--ratio", 0.5, "--calibrate", "smnist", "--recover", 1, "--recover-steps", 9), "or a number of steps"),
        (("--ratio", 0.5, "--allocate", "measured"), "give them with --calibrate."),
        (("--ratio", 0.5, "--allocate", "guessed"), "There is no allocation 'guessed'"),
    ],
)
def test_bad_arguments(refused, s5_file, arguments, mention):
    refused(s5_file, mention, *arguments)


def test_unstable_poles_can_be_kept(aire, tmp_path, s5_file):
    path, _ = broken(s5_file, "unstable")
    _, _, err = aire("prune", path, "-o", tmp_path / "p", "--ratio", 0.9)
    assert "--unstable keep" in err
    code, out, _ = aire("prune", path, "-o", tmp_path / "p", "--ratio", 0.9, "--unstable", "keep", "--json")
    assert code == 0
    assert 3 in json.loads(out)["plan"]["layers"][1]["kept"]
    code, out, _ = aire("inspect", path)
    assert code == 0
    assert "unstable poles (|λ| >= 1) in params.encoder.layers_1.seq: states 3" in out


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("name", ["weights.pth", "weights.bin", "weights.ckpt"])
def test_a_pickle_that_would_run_code_does_not(refused, tmp_path, name):
    mark = tmp_path / "ran"
    (tmp_path / name).write_bytes(pickle.dumps({"model": Bomb(mark)}))
    refused(tmp_path / name, name, suffix=".pth")
    assert not mark.exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file(refused, s5_file, share):
    whole = s5_file.read_bytes()
    s5_file.write_bytes(whole[: int(share * len(whole))])
    refused(s5_file, s5_file.name)


def test_an_output_is_never_overwritten_unasked(aire, tmp_path, s5_file):
    target = tmp_path / "pruned"
    assert aire("prune", s5_file, "-o", target, "--ratio", 0.5)[0] == 0
    before = (target / "model.safetensors").read_bytes()
    code, _, err = aire("prune", s5_file, "-o", target, "--ratio", 0.75)
    assert code == 1
    assert "--overwrite" in err
    assert (target / "model.safetensors").read_bytes() == before
    assert aire("prune", s5_file, "-o", target, "--ratio", 0.75, "--overwrite")[0] == 0
    assert (target / "model.safetensors").read_bytes() != before


def test_missing_configuration_is_named(aire, refused, tmp_path, s5_file):
    s5_file.with_suffix(".json").unlink()
    refused(s5_file, "do not reveal activation")
    (tmp_path / "c.json").write_text(
        json.dumps({"activation": "half_glu2", "discretization": "zoh", "prenorm": True, "mode": "pool"})
    )
    code, _, err = aire("prune", s5_file, "-o", tmp_path / "p", "--ratio", 0.5, "--config", tmp_path / "c.json")
    assert code == 0, err
    with torch.no_grad():
        x = torch.from_numpy(np.load(S5_FILE.with_suffix(".npz"))["x"])
        torch.testing.assert_close(aireprune.load(tmp_path / "p")(x), aireprune.prune(S5_FILE, ratio=0.5)(x))


def test_a_configuration_that_contradicts_the_tensors(refused, s5_file):
    config = json.loads(s5_file.with_suffix(".json").read_text())
    s5_file.with_suffix(".json").write_text(json.dumps({**config, "h": 13}))
    refused(s5_file, "the configuration says h = 13, but the tensors show 12")


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        (
            ("-o", "zoo:smnist-s5", "--ratio", 0.5),
            "cannot be an output: zoo: stands for models that come with aireprune",
        ),
        (("-o", "small.onnx", "--ratio", 0.5), "leave .onnx out of its name. `aire export` makes such files"),
        (("-o", "small.onnx", "--ratio", 0.5, "--dry-run"), "leave .onnx out of its name."),
        (("-o", "small.pth", "--max-drop", 1, "--task", "digits"), "leave .pth out of its name."),
        (("-o", "small"), "--ratio, --threshold, --plan, or --max-drop with --task or --text"),
        (("-o", "small", "--ratio", 0.5, "--min-states", 1000), "the largest has 32"),
        (("-o", "small", "--ratio", 0.5, "--method", "balanced"), "'balanced' is no method"),
        (("-o", "small", "--max-drop", -1, "--task", "digits"), "0 or more; got --max-drop -1"),
        (("-o", "small", "--ratio", 0.5, "--calibrate", "digit"), "Did you mean digits?"),
        (("-o", "small", "--ratio", 0.5, "--task", "mine.npz"), "There is no file mine.npz."),
    ],
)
def test_slips_are_answered_in_the_words_that_were_typed(aire, tmp_path, monkeypatch, options, mention):
    monkeypatch.chdir(tmp_path)
    code, _, err = aire("prune", "zoo:smnist-s5", *options)
    assert code == 1
    assert mention in err
    assert list(tmp_path.iterdir()) == []


def test_a_quiet_search_says_nothing_on_the_way(aire, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRE_QUIET", "")  # so that it is put back
    code, _, err = aire("-q", "prune", "zoo:smnist-s5", "-o", tmp_path / "small", "--max-drop", 100, "--task", "digits")
    assert code == 0
    assert err == ""
