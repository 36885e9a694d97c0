"""PyTorch files: found wherever the weights are, never run, tied tensors tied."""

import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from file_helpers import failing, half, listing

from aireprune.errors import AireError
from aireprune.files import open_checkpoint

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool,
]  # fmt: skip


def weights():
    return OrderedDict({f"layer.{str(dtype)[6:]}": (torch.randn(6, 5) * 4).to(dtype) for dtype in DTYPES})


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".bin", ""])
def test_roundtrip_keeps_dtypes_and_bits(tmp_path, suffix, legacy):
    before = weights()
    source, target = tmp_path / f"model{suffix}", tmp_path / f"out{suffix}"
    torch.save(before, source, _use_new_zipfile_serialization=not legacy)
    checkpoint = open_checkpoint(source)
    assert checkpoint.kind == "torch"
    wide = before["layer.bfloat16"].float().numpy()
    np.testing.assert_array_equal(checkpoint["layer.bfloat16"], wide)
    checkpoint.write(target, {name: half for name in before if "float" in name})
    after = torch.load(target, weights_only=True)
    assert isinstance(after, OrderedDict)
    for name in before:
        assert torch.equal(bits(after[name]), bits(before[name][::2] if "float" in name else before[name]))


@pytest.mark.parametrize(
    "keys", [("model",), ("state_dict",), ("model_state_dict",), ("model", "module"), ("backbone",)]
)
def test_state_dict_is_found_and_the_rest_carried_over(tmp_path, keys):
    wrapped = {"a.w": torch.ones(4, 2)}
    for key in reversed(keys):
        wrapped = {key: wrapped}
    optimiser = torch.optim.Adam([torch.nn.Parameter(torch.ones(4, 2))]).state_dict()
    rest = {"epoch": 3, "args": {"lr": 0.1}}
    torch.save(
        {**wrapped, **rest, "optimizer": optimiser, "sched": optimiser, "ema": {"a.w": torch.ones(4, 2)}},
        tmp_path / "x.pt",
    )
    checkpoint = open_checkpoint(tmp_path / "x.pt")
    assert checkpoint.shapes == {"a.w": (4, 2)}
    assert "optimizer, sched, ema" in checkpoint.notices[0]
    checkpoint.write(tmp_path / "y.pt", {"a.w": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert set(after) == {keys[0], *rest}
    for key in keys:
        after = after[key]
    assert after["a.w"].shape == (2, 2)


def test_an_average_alone_is_read(tmp_path):
    torch.save({"ema": {"w": torch.ones(4)}, "epoch": 3}, tmp_path / "x.pt")
    assert list(open_checkpoint(tmp_path / "x.pt").shapes) == ["w"]


def test_nested_modules_get_dotted_names(tmp_path):
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]).state_dict()
    torch.save({"enc": {"w": torch.ones(4)}, "dec": {"w": torch.zeros(4)}, "optimizer": optimiser}, tmp_path / "x.pt")
    checkpoint = open_checkpoint(tmp_path / "x.pt")
    assert list(checkpoint.shapes) == ["enc.w", "dec.w"]
    checkpoint.write(tmp_path / "y.pt", {"enc.w": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert {key: value["w"].tolist() for key, value in after.items()} == {"enc": [1, 1], "dec": [0, 0, 0, 0]}


def test_tied_tensors_stay_tied_and_versions_stay(tmp_path):
    model = torch.nn.Sequential(
        OrderedDict(a=torch.nn.Linear(4, 4), b=torch.nn.Linear(4, 4), c=torch.nn.BatchNorm1d(4))
    )
    model.b.weight = model.a.weight
    model.b.bias = model.a.bias
    torch.save(model.state_dict(), tmp_path / "x.pt")
    open_checkpoint(tmp_path / "x.pt").write(tmp_path / "y.pt", {"a.weight": half, "b.weight": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert after["a.weight"].data_ptr() == after["b.weight"].data_ptr()
    assert after["a.bias"].data_ptr() == after["b.bias"].data_ptr()
    assert after._metadata["c"] == {"version": 2}


def test_tie_breaks_when_only_one_of_two_is_edited(tmp_path):
    shared = torch.arange(4.0)
    torch.save({"a": shared, "b": shared}, tmp_path / "x.pt")
    open_checkpoint(tmp_path / "x.pt").write(tmp_path / "y.pt", {"a": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert after["a"].tolist() == [0, 2]
    assert after["b"].tolist() == [0, 1, 2, 3]


def test_parameters_and_views(tmp_path):
    torch.save({"p": torch.nn.Parameter(torch.ones(4, 2)), "t": torch.arange(6.0).reshape(2, 3).T}, tmp_path / "x.pt")
    open_checkpoint(tmp_path / "x.pt").write(tmp_path / "y.pt", {"p": half, "t": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert isinstance(after["p"], torch.nn.Parameter)
    assert after["t"].tolist() == [[0, 3], [2, 5]]


def test_types_without_values_are_carried(tmp_path):
    torch.save({"f8": torch.ones(4).to(torch.float8_e4m3fn), "w": torch.ones(4)}, tmp_path / "x.pt")
    checkpoint = open_checkpoint(tmp_path / "x.pt")
    with pytest.raises(AireError, match=r"f8 is stored as torch.float8_e4m3fn"):
        checkpoint["f8"]
    checkpoint.write(tmp_path / "y.pt", {"w": half})
    assert torch.load(tmp_path / "y.pt", weights_only=True)["f8"].dtype == torch.float8_e4m3fn


class Hostile:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("how", ["zip", "legacy", "pickle"])
def test_a_pickle_that_would_run_code_does_not(tmp_path, how):
    trace, path = tmp_path / "trace", tmp_path / "x.pt"
    content = {"model": {"w": torch.ones(2)}, "args": Hostile(trace)}
    if how == "pickle":
        path.write_bytes(pickle.dumps({"args": Hostile(trace)}, protocol=2))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=how == "zip")
    with pytest.raises(AireError, match="could run code") as caught:
        open_checkpoint(path)
    assert "mkdir" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("a text"), "is not a PyTorch file"),
        (lambda path: torch.save({"epoch": 3}, path), "holds no state dict"),
        (lambda path: torch.save([torch.ones(2)], path), "holds no state dict"),
        (lambda path: (torch.save(weights(), path), path.write_bytes(path.read_bytes()[:900])), "damaged or truncated"),
        (lambda path: path.write_bytes(b"\x80\x02garbage"), "damaged or truncated|could run code"),
        (lambda path: torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, path), "two tensors"),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, make, sentence):
    path = tmp_path / "bad.pt"
    make(path)
    with pytest.raises(AireError, match=sentence) as caught:
        open_checkpoint(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_failing_edit_leaves_nothing_behind(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(RuntimeError):
        open_checkpoint(tmp_path / "x.pt").write(tmp_path / "y.pt", {"w": failing}, {"a": 1}, {"plan.json": "{}"})
    assert listing(tmp_path) == ["x.pt"]
