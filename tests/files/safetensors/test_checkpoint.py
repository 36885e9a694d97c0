"""safetensors files: stock readers agree, untouched bytes stay, and no header is believed unchecked."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from file_helpers import failing, half, listing, safetensors_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.files.safetensors import header as safetensors_header
from aireprune.files.safetensors.header import read_header
from aireprune.files.writing import copying

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn,
]  # fmt: skip


def tensors_of_every_dtype():
    torch.manual_seed(0)
    return {f"layer.{str(dtype)[6:]}": (torch.randn(6, 5) * 4).to(dtype) for dtype in DTYPES}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(tensors_of_every_dtype(), path, {"format": "pt", "note": "ä"})
    return path


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def test_values_are_what_torch_reads(source):
    checkpoint = open_checkpoint(source)
    assert checkpoint.kind == "safetensors"
    for name, tensor in load_file(source).items():
        assert checkpoint.shapes[name] == (6, 5)
        if tensor.dtype == torch.float8_e4m3fn:
            with pytest.raises(AireError, match=r"float8.* is stored as F8_E4M3"):
                checkpoint[name]
        else:
            wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
            np.testing.assert_array_equal(checkpoint[name], wide.numpy())


def test_copy_without_edits_is_bit_identical(source, tmp_path):
    open_checkpoint(source).write(tmp_path / "out.safetensors", {})
    before, after = load_file(source), load_file(tmp_path / "out.safetensors")
    assert list(before) == list(after)
    assert all(torch.equal(bits(before[name]), bits(after[name])) for name in before)
    with safe_open(tmp_path / "out.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "note": "ä"}


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_edit_keeps_dtype_and_leaves_the_rest_alone(source, tmp_path, dtype):
    edited = f"layer.{str(dtype)[6:]}"
    open_checkpoint(source).write(tmp_path / "out.safetensors", {edited: half})
    before, after = load_file(source), load_file(tmp_path / "out.safetensors")
    for name in before:
        expected = before[name][::2] if name == edited else before[name]
        assert torch.equal(bits(after[name]), bits(expected))


def test_data_of_a_large_file_begins_on_a_page_and_a_small_file_stays_small(source, tmp_path, monkeypatch):
    open_checkpoint(source).write(tmp_path / "small.safetensors", {"layer.float32": half})
    assert (tmp_path / "small.safetensors").stat().st_size < source.stat().st_size + 2048
    monkeypatch.setattr(safetensors_header, "SMALL_FILE", 0)
    open_checkpoint(source).write(tmp_path / "out.safetensors", {"layer.float32": half})
    assert read_header(tmp_path / "out.safetensors").data % 4096 == 0


def test_tensors_stay_aligned_when_a_narrow_one_before_shrinks(tmp_path):
    entry = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    header = {"bytes": entry, "wide": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}
    data = bytes(4) + np.array([1, 2], np.float32).tobytes()
    (tmp_path / "a.safetensors").write_bytes(safetensors_bytes(header, data))
    open_checkpoint(tmp_path / "a.safetensors").write(tmp_path / "b.safetensors", {"bytes": lambda v: v[:1]})
    assert load_file(tmp_path / "b.safetensors")["wide"].tolist() == [1, 2]
    assert read_header(tmp_path / "b.safetensors").entries["wide"].start % 4 == 0


def test_empty_result_and_scalar(tmp_path):
    save_file({"a": torch.ones(2, 3), "s": torch.tensor(4.0)}, tmp_path / "a.safetensors")
    open_checkpoint(tmp_path / "a.safetensors").write(
        tmp_path / "b.safetensors", {"a": lambda v: v[:0], "s": lambda v: v}
    )
    found = load_file(tmp_path / "b.safetensors")
    assert found["a"].shape == (0, 3)
    assert found["s"] == 4


@pytest.mark.parametrize("error", [18, 22, 38])
def test_copy_where_the_kernel_cannot(source, tmp_path, monkeypatch, error):
    def refuse(*_):
        raise OSError(error, "no")

    monkeypatch.setattr(copying.os, "copy_file_range", refuse, raising=False)
    test_copy_without_edits_is_bit_identical(source, tmp_path)


def test_full_disk_leaves_nothing_behind(source, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying.os, "copy_file_range", full, raising=False)
    before = listing(tmp_path)
    with pytest.raises(AireError, match="No space left on device"):
        open_checkpoint(source).write(tmp_path / "new" / "out.safetensors", {})
    assert listing(tmp_path) == before


def test_failing_edit_leaves_nothing_behind(source, tmp_path):
    with pytest.raises(RuntimeError):
        open_checkpoint(source).write(
            tmp_path / "out.safetensors", {"layer.int8": failing}, {"a": 1}, {"plan.json": "{}"}
        )
    assert listing(tmp_path) == ["model.safetensors"]


def test_failing_edit_keeps_what_was_there(source, tmp_path):
    (tmp_path / "out.safetensors").write_text("old")
    with pytest.raises(RuntimeError):
        open_checkpoint(source).write(tmp_path / "out.safetensors", {"layer.int8": failing}, overwrite=True)
    assert (tmp_path / "out.safetensors").read_text() == "old"


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"abc", "only 3 bytes"),
        (b"this is a text file, not a checkpoint", "not a safetensors file"),
        ((10**9).to_bytes(8, "little") + b"{}", "not a safetensors file"),
        ((10**6).to_bytes(8, "little") + b"{}", "truncated: its header needs"),
        (safetensors_bytes(b"{nonsense", b""), "unreadable safetensors header"),
        (safetensors_bytes({"a": GOOD}, bytes(7)), "truncated: tensor a ends at byte 8"),
        (safetensors_bytes({"a": GOOD}, bytes(9)), "1 bytes after tensor a belong to no tensor"),
        (
            safetensors_bytes({"a": {**GOOD, "data_offsets": [4, 12]}}, bytes(12)),
            "4 bytes between the header and tensor a",
        ),
        (safetensors_bytes({"a": GOOD, "b": GOOD}, bytes(8)), "tensor b overlaps with tensor a"),
        (
            safetensors_bytes({"a": {**GOOD, "shape": [3]}}, bytes(8)),
            r"tensor a has 8 bytes, but shape \[3\] as F32 needs 12",
        ),
        (safetensors_bytes({"a": {**GOOD, "shape": [-2]}}, bytes(8)), "tensor a has an impossible shape"),
        (safetensors_bytes({"a": {**GOOD, "data_offsets": [8, 0]}}, bytes(8)), "tensor a has an impossible shape"),
        (safetensors_bytes({"a": {"dtype": "F32"}}, bytes(8)), "tensor a has a malformed entry"),
        (safetensors_bytes({"a": 3}, b""), "tensor a has a malformed entry"),
        (safetensors_bytes({"a": GOOD, "__metadata__": {"x": 1}}, bytes(8)), "__metadata__"),
        (safetensors_bytes(json.dumps({"a": GOOD})[:-1].encode() + b',"a":3}', bytes(8)), "a occurs twice"),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(AireError, match=sentence) as caught:
        open_checkpoint(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


sizes = st.integers(-1, 20)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U8", "X9", 3]),
        "shape": st.lists(sizes, max_size=3),
        "data_offsets": st.lists(sizes, max_size=3),
    }
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=3), entries, max_size=3) | st.binary(max_size=20), st.binary(max_size=40))
def test_any_header_is_read_or_refused(tmp_path_factory, header, data):
    path: Path = tmp_path_factory.mktemp("fuzz") / "x.safetensors"
    path.write_bytes(safetensors_bytes(header, data))
    try:
        found = open_checkpoint(path)
    except AireError:
        return
    found.write(path.with_name("y.safetensors"), {})
    assert dict(open_checkpoint(path.with_name("y.safetensors")).shapes) == dict(found.shapes)


def test_a_tensor_that_does_not_fit_into_memory(source, monkeypatch):
    def full(*_):
        raise MemoryError

    checkpoint = open_checkpoint(source)
    monkeypatch.setattr(copying.np, "empty", full)
    with pytest.raises(AireError, match="a tensor of 120 bytes, for which there is not enough memory"):
        checkpoint["layer.float32"]


def test_files_of_many_gigabytes_are_opened(tmp_path):
    """A hole of 40 GB and a tensor behind it: places in a file are no shapes, whose product is bounded."""
    last = np.arange(6, dtype=np.float32)
    hole = 40 << 30
    header = json.dumps(
        {
            "hole": {"dtype": "U8", "shape": [hole], "data_offsets": [0, hole]},
            "last": {"dtype": "F32", "shape": [2, 3], "data_offsets": [hole, hole + last.nbytes]},
        }
    ).encode()
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.seek(hole, 1)
        file.write(last.tobytes())
    opened = open_checkpoint(path)
    assert opened.shapes == {"hole": (hole,), "last": (2, 3)}
    np.testing.assert_array_equal(opened["last"].ravel(), last)
