"""The command line as a user meets it: what it prints, what it leaves behind, and its sentences for bad input."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys

import msgpack
import numpy as np
import pytest
import torch
from helpers import GOLDEN

import aireprune
from aireprune import embedded

S5_FILE = GOLDEN / "bidir_bn_half_glu2.msgpack"


@pytest.fixture
def s5_file(tmp_path):
    """A copy of an official checkpoint with its configuration beside it, alone in a folder."""
    folder = tmp_path / "in"
    folder.mkdir()
    for suffix in (".msgpack", ".json"):
        shutil.copy(S5_FILE.with_suffix(suffix), folder)
    return folder / S5_FILE.name


def test_inspect(aire, s5_file):
    code, out, _ = aire("inspect", s5_file)
    assert code == 0
    assert "s5 (flax), 3 layers, 24 states" in " ".join(out.split())
    code, out, _ = aire("inspect", s5_file, "--json")
    document = json.loads(out)
    assert [layer["states"] for layer in document["layers"]] == [8, 8, 8]
    assert sum(layer["energy_share"] for layer in document["layers"]) == pytest.approx(1)
    assert all(0 < layer["stability_margin"] < 1 for layer in document["layers"])


def test_score(aire, s5_file):
    published = np.load(GOLDEN / "bidir_bn_half_glu2.published_aire.npz")["scores"]
    code, out, _ = aire("score", s5_file, "--method", "aire-published", "--json")
    assert code == 0
    rows = json.loads(out)["states"]
    found = {(row["layer"], row["state"]): row["compared"] for row in rows}
    expected = {(f"params.encoder.layers_{i // 8}.seq", i % 8): float(s) for i, s in enumerate(published)}
    assert found == pytest.approx(expected, rel=1e-3)
    assert [row["rank"] for row in rows[:8]] == list(range(1, 9))
    _, out, _ = aire("score", s5_file, "--top", "2")
    assert len([line for line in out.splitlines() if "layers_" in line]) == 6


def test_methods(aire):
    code, out, _ = aire("methods", "--json")
    assert code == 0
    assert {method["name"] for method in json.loads(out)} == set(aireprune.methods())


@pytest.mark.parametrize("mask", [False, True])
def test_prune_to_a_folder_and_to_flax(aire, s5_file, tmp_path, mask):
    flags = ["--mask"] if mask else []
    assert aire("prune", s5_file, "-o", tmp_path / "pruned", "--ratio", 0.5, *flags)[0] == 0
    code, out, _ = aire("prune", s5_file, "-o", tmp_path / "pruned.msgpack", "--ratio", 0.5, "--json", *flags)
    assert code == 0
    plan = json.loads(out)["plan"]
    assert sum(len(layer["kept"]) for layer in plan["layers"]) == 12
    assert json.loads((tmp_path / "pruned" / "plan.json").read_text()) == plan
    assert json.loads((tmp_path / "pruned.plan.json").read_text()) == plan
    x = torch.from_numpy(np.load(S5_FILE.with_suffix(".npz"))["x"])
    expected = aireprune.prune(s5_file, ratio=0.5)
    with torch.no_grad():
        for target in (tmp_path / "pruned", tmp_path / "pruned.msgpack"):
            torch.testing.assert_close(aireprune.load(target)(x), expected(x), rtol=1e-5, atol=1e-6)
    if not mask:
        assert (tmp_path / "pruned.msgpack").stat().st_size < s5_file.stat().st_size
        assert aireprune.load(tmp_path / "pruned").config.modes == tuple(len(layer["kept"]) for layer in plan["layers"])


def test_a_saved_plan_applies_to_its_checkpoint_only(aire, s5_file, tmp_path):
    aireprune.plan(s5_file, ratio=0.25).save(tmp_path / "plan.json")
    assert aire("prune", s5_file, "-o", tmp_path / "a", "--plan", tmp_path / "plan.json")[0] == 0
    assert json.loads((tmp_path / "a" / "plan.json").read_text())["ratio"] == 0.25
    other = GOLDEN / "padded_half_glu1_rescale2.msgpack"
    code, _, err = aire("prune", other, "-o", tmp_path / "b", "--plan", tmp_path / "plan.json")
    assert code == 1
    assert "made from another checkpoint" in err
    assert not (tmp_path / "b").exists()


def test_a_plan_and_other_options_do_not_mix(aire, s5_file, tmp_path):
    aireprune.plan(s5_file, ratio=0.25).save(tmp_path / "plan.json")
    plan = ("--plan", tmp_path / "plan.json")
    assert_refused(
        aire, s5_file, tmp_path, "", "decides on layout, min-states", *plan, "--min-states", 7, "--layout", "uniform"
    )


def test_a_pruned_full_spectrum_reloads_whatever_its_poles_look_like(tmp_path):
    """The signs of the poles that stay do not tell whether conjugates were stored; the configuration does."""
    source = GOLDEN / "bilinear_fullspectrum_gelu_postnorm.msgpack"
    for seed in range(6):
        aireprune.prune_file(source, tmp_path / f"{seed}.msgpack", ratio=0.8, method="random", seed=seed)
        assert aireprune.load(tmp_path / f"{seed}.msgpack").config.conj_sym is False


def test_arguments_of_the_wrong_kind_in_python(s5_file):
    for call, message in (
        (lambda: aireprune.prune(s5_file, 0.5), "plan is a Plan"),
        (lambda: aireprune.plan(5, ratio=0.5), "Expected a model or the path"),
        (lambda: aireprune.plan(s5_file, ratio="0.5"), "are numbers"),
    ):
        with pytest.raises(aireprune.AireError, match=message):
            call()


def test_own_format_round_trip_and_second_pruning(tmp_path):
    model = aireprune.load(embedded.MODEL)
    once = aireprune.prune(model, ratio=0.5)
    aireprune.save(once, tmp_path / "once")
    again = aireprune.load(tmp_path / "once")
    x = torch.randn(2, 784, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(again(x), once(x))
    twice = aireprune.prune(tmp_path / "once", ratio=0.5)
    assert sum(twice.config.modes) == 32
    assert sorted(path.name for path in (tmp_path / "once").iterdir()) == [
        "config.json",
        "model.safetensors",
        "plan.json",
    ]


def broken(tmp_path, s5_file, what):
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
def test_broken_weights(aire, tmp_path, s5_file, what, suffix):
    path, mention = broken(tmp_path, s5_file, what)
    before = path.read_bytes()
    assert_refused(aire, path, tmp_path, suffix, mention)
    assert path.read_bytes() == before


def assert_refused(aire, path, tmp_path, suffix, mention, *arguments):
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    code, printed, err = aire("prune", path, "-o", out / f"pruned{suffix}", *(arguments or ("--ratio", 0.5)))
    assert code == 1
    assert mention in err
    assert err.startswith("aire: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err + printed
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (("--ratio", 1.3), "got 1.3"),
        (("--ratio", 0.5, "--method", "magic"), "There is no method 'magic'"),
        (("--ratio", 0.5, "--threshold", 0.1), "not both"),
        ((), "a ratio, a threshold or a plan"),
        (("--ratio", 0.5, "--epsilon", "nan"), "0 or more; got nan"),
        (("--ratio", 0.5, "--epsilon", "inf"), "0 or more; got inf"),
        (("--ratio", 0.5, "--method", "last", "--horizon", 10), "belongs to the energy"),
        (("--ratio", 0.5, "--unstable", "ignore"), "'refuse' or 'keep'"),
        (("--ratio", 0.5, "--method", "random", "--seed", -1), "seed is a whole number"),
        (("--ratio", 0.5, "--granularity", "foo"), "granularity is mode or state"),
        (("--ratio", 0.5, "--layout", "foo"), "no layout 'foo'"),
        (("--ratio", 0.5, "--min-states", -1), "0 or more"),
    ],
)
def test_bad_arguments(aire, tmp_path, s5_file, arguments, mention):
    assert_refused(aire, s5_file, tmp_path, "", mention, *(arguments or ("--min-states", 1)))


def test_unstable_poles_can_be_kept(aire, tmp_path, s5_file):
    path, _ = broken(tmp_path, s5_file, "unstable")
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
def test_a_pickle_that_would_run_code_does_not(aire, tmp_path, name):
    mark = tmp_path / "ran"
    (tmp_path / name).write_bytes(pickle.dumps({"model": Bomb(mark)}))
    assert_refused(aire, tmp_path / name, tmp_path, ".pth", name)
    assert not mark.exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file(aire, tmp_path, s5_file, share):
    whole = s5_file.read_bytes()
    s5_file.write_bytes(whole[: int(share * len(whole))])
    assert_refused(aire, s5_file, tmp_path, "", s5_file.name)


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


def test_missing_configuration_is_named(aire, tmp_path, s5_file):
    s5_file.with_suffix(".json").unlink()
    assert aire("inspect", s5_file)[0] == 0  # scores need no configuration
    assert_refused(aire, s5_file, tmp_path, "", "do not reveal activation")
    (tmp_path / "c.json").write_text(
        json.dumps({"activation": "half_glu2", "discretization": "zoh", "prenorm": True, "mode": "pool"})
    )
    code, _, err = aire("prune", s5_file, "-o", tmp_path / "p", "--ratio", 0.5, "--config", tmp_path / "c.json")
    assert code == 0, err
    with torch.no_grad():
        x = torch.from_numpy(np.load(S5_FILE.with_suffix(".npz"))["x"])
        torch.testing.assert_close(aireprune.load(tmp_path / "p")(x), aireprune.prune(S5_FILE, ratio=0.5)(x))


def test_a_configuration_that_contradicts_the_tensors(aire, tmp_path, s5_file):
    config = json.loads(s5_file.with_suffix(".json").read_text())
    s5_file.with_suffix(".json").write_text(json.dumps({**config, "h": 13}))
    assert_refused(aire, s5_file, tmp_path, "", "the configuration says h = 13, but the tensors show 12")


HELP = """
import sys
sys.argv = ["aire", "--help"]
from aireprune.cli import main
try:
    main()
except SystemExit:
    pass
assert not {"torch", "numba", "numpy"} & set(sys.modules)
"""


def test_help_does_not_import_torch():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in ("inspect", "score", "prune", "methods", "demo", "train"):
        assert command in done.stdout
