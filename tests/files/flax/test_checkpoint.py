"""Flax msgpack: the official files byte for byte, and what a train state becomes."""

from pathlib import Path

import msgpack
import numpy as np
import pytest
from file_helpers import failing, half, listing

from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.files.flax import codec as flax_codec

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "s5").glob("*.msgpack"))


def array(values, dtype=None):
    values = np.asarray(values)
    return msgpack.ExtType(1, msgpack.packb((values.shape, dtype or values.dtype.name, values.tobytes())))


def save(path, tree):
    path.write_bytes(msgpack.packb(tree))
    return path


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_files_roundtrip_byte_for_byte(path, tmp_path):
    checkpoint = open_checkpoint(path)
    assert checkpoint.kind == "flax"
    assert checkpoint.config["name"] == path.stem
    checkpoint.write(tmp_path / "out.msgpack", {})
    assert (tmp_path / "out.msgpack").read_bytes() == path.read_bytes()
    assert open_checkpoint(tmp_path / "out.msgpack").config == checkpoint.config


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "int32", "uint8", "bool"])
def test_edit_keeps_dtype_and_the_rest(tmp_path, dtype):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    tree = {"params": {"a": {"w": array(values), "v": array(values)}}}
    checkpoint = open_checkpoint(save(tmp_path / "x.msgpack", tree))
    np.testing.assert_array_equal(checkpoint["params.a.w"], values)
    checkpoint.write(tmp_path / "y.msgpack", {"params.a.w": lambda v: half(v).astype(np.result_type(v, np.float64))
                                              if dtype in ("float32", "float16") else half(v)})  # fmt: skip
    expected = {"params": {"a": {"w": array(values[::2]), "v": array(values)}}}
    assert (tmp_path / "y.msgpack").read_bytes() == msgpack.packb(expected)


def test_bfloat16_is_float32_in_between(tmp_path):
    bits = np.array([0x3F80, 0x4049], np.uint16)
    checkpoint = open_checkpoint(save(tmp_path / "x.msgpack", {"w": array(bits, "bfloat16")}))
    assert checkpoint["w"].tolist() == [1.0, 3.140625]
    checkpoint.write(tmp_path / "y.msgpack", {"w": lambda v: v})
    assert (tmp_path / "y.msgpack").read_bytes() == (tmp_path / "x.msgpack").read_bytes()


def test_unknown_types_are_carried(tmp_path):
    raw = np.arange(4, dtype=np.uint8)
    checkpoint = open_checkpoint(save(tmp_path / "x.msgpack", {"w": array(raw, "float8_e4m3fn")}))
    checkpoint.write(tmp_path / "y.msgpack", {})
    assert (tmp_path / "y.msgpack").read_bytes() == (tmp_path / "x.msgpack").read_bytes()
    with pytest.raises(AireError, match="w is stored as float8_e4m3fn"):
        checkpoint["w"]


def test_chunked_arrays(tmp_path):
    values = np.arange(10.0, dtype=np.float32).reshape(5, 2)
    node = flax_codec.pack_array(values, "float32", "w", chunk_bytes=16)
    assert list(node["chunks"]) == ["0", "1", "2"]
    checkpoint = open_checkpoint(save(tmp_path / "x.msgpack", {"params": {"w": node}}))
    assert checkpoint.shapes == {"params.w": (5, 2)}
    np.testing.assert_array_equal(checkpoint["params.w"], values)
    checkpoint.write(tmp_path / "y.msgpack", {"params.w": half})
    np.testing.assert_array_equal(open_checkpoint(tmp_path / "y.msgpack")["params.w"], values[::2])


@pytest.mark.parametrize("wrapped", [False, True])
def test_train_state_loses_its_optimiser_with_a_notice(tmp_path, wrapped):
    w = array(np.ones(2, np.float32))
    state = {"step": 7, "params": {"w": w}, "opt_state": {"0": {"mu": {"w": w}}}, "batch_stats": {"m": w}}
    checkpoint = open_checkpoint(save(tmp_path / "checkpoint_7", {"model": state, "epoch": 1} if wrapped else state))
    prefix = "model." if wrapped else ""
    assert set(checkpoint.shapes) == {prefix + "params.w", prefix + "batch_stats.m"}
    assert "opt_state" in checkpoint.notices[0]
    checkpoint.write(tmp_path / "out", {prefix + "params.w": half})
    tree = msgpack.unpackb((tmp_path / "out").read_bytes())
    state = tree["model"] if wrapped else tree
    assert list(state) == ["step", "params", "batch_stats"]
    assert state["step"] == 7


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"hello world", "is not a Flax checkpoint"),
        (msgpack.packb({"w": array(np.ones(50))})[:-9], "truncated"),
        (msgpack.packb([1, 2]), "expected a map"),
        (msgpack.packb({"step": 3}), "holds no arrays"),
        (msgpack.packb({"a": {"w": msgpack.ExtType(1, b"\xff\xff")}}), "array a.w is damaged"),
        (
            msgpack.packb({"w": msgpack.ExtType(1, msgpack.packb(((3,), "float32", bytes(8))))}),
            "array w is damaged.*12 bytes",
        ),
        (msgpack.packb({"w": {"__msgpack_chunked_array__": True}}), "array w is damaged"),
        (msgpack.packb({"a": {"b": array([1.0])}, "a.b": array([1.0])}), "two arrays whose dotted name is a.b"),
        (b"\x81\xa1a" * 200 + b"\xc0", "nested more than"),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "bad.msgpack"
    path.write_bytes(content)
    with pytest.raises(AireError, match=sentence) as caught:
        open_checkpoint(path)
    assert str(path) in str(caught.value)


def test_failing_edit_leaves_nothing_behind(tmp_path):
    checkpoint = open_checkpoint(save(tmp_path / "x.msgpack", {"w": array([1.0])}))
    with pytest.raises(RuntimeError):
        checkpoint.write(tmp_path / "y.msgpack", {"w": failing}, {"a": 1})
    assert listing(tmp_path) == ["x.msgpack"]
