"""PyTorch files as others write them: compressed, damaged, of the old layout, and with what is saved along."""

import io
import struct
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch
from file_helpers import half

from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.files.torch import containers as torch_layouts
from aireprune.files.torch.pickle_machine import INSTRUCTIONS


def repacked(path, method=zipfile.ZIP_DEFLATED):
    """The same archive with its records compressed."""
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in records.items():
            archive.writestr(name, content)


@pytest.fixture
def source(tmp_path):
    torch.save({"w": torch.arange(1000.0).reshape(10, 100), "v": torch.ones(3)}, tmp_path / "x.pt")
    return tmp_path / "x.pt"


def test_compressed_records_are_unpacked(source, tmp_path):
    repacked(source)
    assert zipfile.ZipFile(source).infolist()[-1].compress_type == zipfile.ZIP_DEFLATED
    checkpoint = open_checkpoint(source)
    np.testing.assert_array_equal(checkpoint["w"], np.arange(1000, dtype=np.float32).reshape(10, 100))
    checkpoint.write(tmp_path / "y.pt", {"w": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert torch.equal(after["w"], torch.arange(1000.0).reshape(10, 100)[::2])
    assert torch.equal(after["v"], torch.ones(3))


def test_much_that_is_compressed_is_refused(source, monkeypatch):
    repacked(source)
    monkeypatch.setattr(torch_layouts, "MOST_UNPACKED", 100)
    with pytest.raises(AireError, match=r"is compressed, and more than .* save it again"):
        open_checkpoint(source)


def test_a_wrong_checksum_is_found_when_a_tensor_is_read_or_copied(source, tmp_path):
    data = bytearray(source.read_bytes())
    place = data.index(struct.pack("<f", 7.0))
    data[place] ^= 1
    source.write_bytes(data)
    checkpoint = open_checkpoint(source)
    assert checkpoint["v"].tolist() == [1, 1, 1]
    with pytest.raises(AireError, match=r"the checksum of .*data/0 is wrong"):
        checkpoint["w"]
    with pytest.raises(AireError, match=r"the checksum of .*data/0 is wrong"):
        checkpoint.write(tmp_path / "y.pt", {})
    assert not (tmp_path / "y.pt").exists()


def test_a_storage_that_is_called_a_folder_is_refused(source):
    """torch.load takes its bytes from memory that nobody has written to."""
    data = bytearray(source.read_bytes())
    entry = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    data[entry + 38] |= 16
    source.write_bytes(data)
    with pytest.raises(AireError, match="is encrypted, a folder, or compressed"):
        open_checkpoint(source)


def test_checksums_that_were_not_computed_are_not_compared(tmp_path):
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.ones(4)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert open_checkpoint(tmp_path / "x.pt")["w"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("legacy", [False, True])
def test_everything_that_is_saved_along_survives(tmp_path, legacy):
    base = torch.arange(12.0).reshape(3, 4)
    tagged = torch.nn.Parameter(torch.ones(2))
    tagged._no_weight_decay = True
    content = {
        "model": OrderedDict(w=base, t=base.T, part=base[1:], conj=torch.complex(base, base).conj(), p=tagged),
        "epoch": 3,
        "loss": [0.5, float("inf")],
        "big": 2**70,
        "negative": -5,
        "set": {1, 2},
        "bytes": b"\x00\xff",
        "array": bytearray(b"ab"),
        "complex": 1 + 2j,
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "count": Counter({"a": 2}),
        "nested": {"t": (1, (2, None, True)), "text": "ä\n"},
        7: "seven",
    }
    torch.save(content, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    checkpoint = open_checkpoint(tmp_path / "x.pt")
    np.testing.assert_array_equal(checkpoint["conj"], torch.complex(base, -base).numpy())
    checkpoint.write(tmp_path / "y.pt", {"w": half})
    after = torch.load(tmp_path / "y.pt", weights_only=True)
    assert {key: after[key] for key in content if key != "model"} == {k: v for k, v in content.items() if k != "model"}
    model = after["model"]
    assert torch.equal(model["w"], base[::2])
    assert torch.equal(model["t"], base.T)
    assert model["t"].data_ptr() == model["part"].data_ptr() - 16
    assert torch.equal(model["conj"], torch.complex(base, -base))
    assert model["p"]._no_weight_decay is True


def test_both_layouts_read_as_pytorch_reads_them(tmp_path):
    torch.manual_seed(0)
    dtypes = (torch.float64, torch.float16, torch.bfloat16, torch.complex128, torch.int16, torch.uint8, torch.bool)
    content = {str(dtype): (torch.randn(5, 7) * 3).to(dtype)[1::2, 2:] for dtype in dtypes}
    for legacy in (False, True):
        for protocol in (2, 4):
            torch.save(content, tmp_path / "x.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
            checkpoint = open_checkpoint(tmp_path / "x.pt")
            for name, tensor in content.items():
                wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
                np.testing.assert_array_equal(checkpoint[name], wide.numpy())


def zipped(pickle, storage=bytes(16)):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02" + pickle + b".")
        archive.writestr("a/data/0", storage)
    return file.getvalue()


STORAGE = b"(U\7storagectorch\nFloatStorage\nU\1" + b"0U\3cpuK\4tQ"


def tensor(offset=b"K\0", shape=b"K\4\x85", stride=b"K\1\x85", storage=STORAGE):
    """The pickle of a dictionary with one tensor of four numbers."""
    rest = b"\x89ccollections\nOrderedDict\n)Rt"
    return b"}U\1wctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + shape + stride + rest + b"Rs"


@pytest.mark.parametrize(
    ("pickle", "sentence"),
    [
        (tensor(offset=b"K\1"), "lies outside of its storage"),
        (tensor(shape=b"K\5\x85"), "lies outside of its storage"),
        (tensor(stride=b"K\2\x85"), "lies outside of its storage"),
        (tensor(stride=b"J\xff\xff\xff\xff\x85"), "lies outside of its storage"),
        (tensor(shape=b"J\xff\xff\xff\xff\x85"), "lies outside of its storage"),
        (tensor(shape=b")"), "lies outside of its storage"),
        (tensor(storage=STORAGE.replace(b"K\4t", b"K\5t")), "storage 0 of 20 bytes has 16 bytes"),
        (tensor(storage=STORAGE.replace(b"U\0010", b"U\0011")), "storage 1 of 16 bytes is missing"),
        (tensor(storage=STORAGE.replace(b"U\7storage", b"U\6module")), "no storage"),
        (b"cos\nsystem\nU\4true\x85R", r"holds more than tensors \(os.system\), and reading that could run code"),
        (b"c__builtin__\neval\nU\0011\x85R", r"holds more than tensors \(eval\)"),
        (b"}U\1wccollections\nOrderedDict\n)R}U\5itemsK\1sbs", "attributes that a OrderedDict cannot be given"),
    ],
)
def test_pickles_that_lie_or_call(tmp_path, pickle, sentence):
    (tmp_path / "x.pt").write_bytes(zipped(tensor()))
    assert open_checkpoint(tmp_path / "x.pt")["w"].shape == (4,)
    (tmp_path / "x.pt").write_bytes(zipped(pickle))
    with pytest.raises(AireError, match=sentence):
        open_checkpoint(tmp_path / "x.pt")


def test_only_instructions_that_cannot_import_or_call_freely_are_known():
    assert {ord(code) for code in "iope2"} & set(INSTRUCTIONS) == {ord("e")}  # INST, OBJ, PERSID, DUP; e is APPENDS
    assert 0x82 not in INSTRUCTIONS  # EXT1: a registry of callables
    assert 0x92 not in INSTRUCTIONS  # NEWOBJ_EX
