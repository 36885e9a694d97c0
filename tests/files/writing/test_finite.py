"""No copy gets values that are not finite and that its source does not have."""

import msgpack
import numpy as np
import pytest
import torch
from file_helpers import half, listing
from safetensors.torch import save_file

from aireprune.errors import AireError
from aireprune.files import Raw, open_checkpoint, write_folder
from aireprune.files.dtypes import encode

HOLED = np.array([[1.0, np.nan], [np.inf, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


@pytest.fixture(params=["safetensors", "pt", "msgpack"])
def source(request, tmp_path):
    path = tmp_path / f"x.{request.param}"
    tensors = {"good": torch.ones(4, 2), "holed": torch.from_numpy(HOLED)}
    if request.param == "safetensors":
        save_file(tensors, path)
    elif request.param == "pt":
        torch.save(tensors, path)
    else:
        packed = {
            k: msgpack.ExtType(1, msgpack.packb(((4, 2), "float32", v.numpy().tobytes()))) for k, v in tensors.items()
        }
        path.write_bytes(msgpack.packb(packed))
    return path


def put(value, place=(0, 0)):
    def edit(values):
        values[place] = value
        return values

    return edit


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_new_ones_are_refused_by_name(source, value):
    checkpoint = open_checkpoint(source)
    before = listing(source.parent)
    for name, edit in (("good", put(value)), ("holed", put(value)), ("good", lambda v: half(v) * value)):
        with pytest.raises(AireError, match=f"tensor {name} would get .* not finite"):
            checkpoint.write(source.with_name(f"y{source.suffix}"), {name: edit})
    assert listing(source.parent) == before


def test_those_of_the_source_are_carried(source):
    checkpoint = open_checkpoint(source)
    edits = {"holed": put(np.nan, (1, 0))}
    checkpoint.write(source.with_name(f"y{source.suffix}"), edits)
    checkpoint.write(source.with_name(f"z{source.suffix}"), {"holed": half})
    np.testing.assert_array_equal(open_checkpoint(source.with_name(f"z{source.suffix}"))["holed"], HOLED[::2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_overflow_in_the_stored_type(tmp_path, dtype, suffix):
    path = tmp_path / f"x.{suffix}"
    tensors = {"w": torch.ones(4, dtype=dtype)}
    save_file(tensors, path) if suffix == "safetensors" else torch.save(tensors, path)
    with pytest.raises(AireError, match=r"tensor w is stored as b?float16, in which its edited values overflow"):
        open_checkpoint(path).write(tmp_path / f"y.{suffix}", {"w": lambda v: v * np.float32(3.4e38)})


def test_the_largest_bfloat16_is_no_overflow():
    largest = np.array([3.3895314e38], np.float32)
    assert encode(largest, "BF16", "t").view("<u2").tolist() == [0x7F7F]
    with pytest.raises(AireError, match="overflow"):
        encode(np.array([3.3961776e38], np.float32), "BF16", "t")


@pytest.mark.parametrize(
    "value", [np.array([1.0, np.inf]), np.array([complex(0, np.nan)]), Raw("BF16", (1,), bytes([0x80, 0x7F]))]
)
def test_new_folders_hold_finite_values_only(tmp_path, value):
    with pytest.raises(AireError, match="Tensor w has 1 values that are not finite"):
        write_folder(tmp_path / "out", {"v": np.ones(2), "w": value}, {})
    assert listing(tmp_path) == []
