"""NumPy archives: read without unpickling, copied with edits, refused where they are broken or hostile."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import GOLDEN, Golden

import aireprune
from aireprune.errors import AireError
from aireprune.files import open_checkpoint

NAME = "uni_ln_full_glu_last"


def flattened(**more: Any) -> dict[str, Any]:
    """The arrays of a golden Flax file under the names that flatten_dict(sep='/') gives."""
    checkpoint = open_checkpoint(GOLDEN / f"{NAME}.msgpack")
    return {name.replace(".", "/"): checkpoint[name] for name in checkpoint.shapes} | more


@pytest.fixture(params=[np.savez, np.savez_compressed], ids=["stored", "compressed"])
def archive(request: Any, tmp_path: Path) -> Path:
    request.param(tmp_path / "model.npz", **flattened())
    (tmp_path / "model.json").write_text(json.dumps(Golden(NAME).config))
    return tmp_path / "model.npz"


def test_it_is_the_flax_file(archive: Path, tmp_path: Path) -> None:
    flax, read = open_checkpoint(GOLDEN / f"{NAME}.msgpack"), open_checkpoint(archive)
    assert read.kind == "npz"
    assert dict(read.shapes) == dict(flax.shapes)
    assert all(np.array_equal(read[name], flax[name]) for name in read.shapes)


def test_pruned_as_the_flax_file_is(archive: Path, tmp_path: Path) -> None:
    choices: Any = {"ratio": 0.5, "layout": "uniform", "method": "aire", "reduce": "truncate"}
    aireprune.prune_file(archive, tmp_path / "small.npz", **choices)
    aireprune.prune_file(GOLDEN / f"{NAME}.msgpack", tmp_path / "flax.msgpack", **choices)
    small, expected = np.load(tmp_path / "small.npz"), open_checkpoint(tmp_path / "flax.msgpack")
    assert {name.replace("/", ".") for name in small.files} == set(expected.shapes)
    assert all(np.array_equal(small[name], expected[name.replace("/", ".")]) for name in small.files)
    compressed = [entry.compress_type for entry in zipfile.ZipFile(tmp_path / "small.npz").infolist()]
    assert compressed == [entry.compress_type for entry in zipfile.ZipFile(archive).infolist()]


def test_the_optimiser_is_left_out_and_odd_orders_and_types_come_along(tmp_path: Path) -> None:
    odd = {"a/fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "opt_state/mu": np.ones(3)}
    np.savez(tmp_path / "x.npz", **odd, raw=np.zeros(2, "V2"), half=np.ones(2, np.float16))
    checkpoint = open_checkpoint(tmp_path / "x.npz")
    assert set(checkpoint.shapes) == {"a.fortran", "raw", "half"}
    assert "optimiser state (opt_state) is left out" in checkpoint.notices[0]
    np.testing.assert_array_equal(checkpoint["a.fortran"], odd["a/fortran"])
    checkpoint.write(tmp_path / "y.npz", {"half": lambda values: values[:1], "a.fortran": lambda values: values[:, 1:]})
    copy = np.load(tmp_path / "y.npz")
    np.testing.assert_array_equal(copy["a/fortran"], odd["a/fortran"][:, 1:])
    assert (copy["half"].dtype, copy["raw"].dtype) == (np.dtype(np.float16), np.dtype("V2"))
    with pytest.raises(AireError, match=r"stored as \|V2"):
        checkpoint["raw"]


def test_by_its_content_whatever_it_is_called(archive: Path, tmp_path: Path) -> None:
    for name in ("params.pt", "params"):
        (tmp_path / name).write_bytes(archive.read_bytes())
        assert open_checkpoint(tmp_path / name).kind == "npz"


def test_what_compression_makes_larger(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)
    np.savez_compressed(tmp_path / "x.npz", w=values)
    (entry,) = zipfile.ZipFile(tmp_path / "x.npz").infolist()
    assert entry.compress_size >= values.nbytes
    np.testing.assert_array_equal(open_checkpoint(tmp_path / "x.npz")["w"], values)


def broken_stream() -> bytes:
    """A compressed array whose first bytes are no stream of zlib."""
    written = io.BytesIO()
    np.savez_compressed(written, w=np.ones(50))
    data = bytearray(written.getvalue())
    start = data.index(b"w.npy") + len(b"w.npy") + int.from_bytes(data[28:30], "little")
    data[start : start + 8] = b"\xff" * 8
    return bytes(data)


def bomb() -> bytes:
    """An archive of a megabyte that unpacks to a gigabyte of zeros."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)})
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as out, out.open("w.npy", "w") as entry:
        entry.write(header.getvalue())
        for _ in range(1 << 6):
            entry.write(bytes(1 << 24))
    return written.getvalue()


def test_what_is_broken_or_hostile(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.savez(whole, w=np.ones((4, 4)), v=np.ones(100))
    data = whole.getvalue()
    pickled = io.BytesIO()
    np.savez(pickled, params=np.array({"B": np.ones(2)}, dtype=object))
    short = io.BytesIO()
    with zipfile.ZipFile(short, "w") as out:
        out.writestr("w.npy", data[data.index(b"\x93NUMPY") :][:200])
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as out:
        out.writestr("w.npy", data[data.index(b"\x93NUMPY") :][:256])
        out.writestr("readme.txt", b"x")
    for content, sentence in (
        (data[: len(data) // 2], "damaged or truncated"),
        (pickled.getvalue(), "holds Python objects .* could run code; .*flatten_dict"),
        (short.getvalue(), "array w of shape .* is not whole"),
        (data.replace(b"'fortran_order'", b"('ortran_order'"), "array . cannot be read"),
        (broken_stream(), "array w cannot be read"),
        (other.getvalue(), "arrays and readme.txt; expected arrays"),
        (b"PK\5\6" + bytes(18), "holds no arrays"),
        (bomb(), r"claims to hold 1,073,741,952 once it is unpacked"),
    ):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(AireError, match=sentence):
            aireprune.prune_file(tmp_path / "x.npz", tmp_path / "out.npz", ratio=0.5)
        assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
