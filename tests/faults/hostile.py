"""Small files that were made to be slow, to fill the memory, to hang or to lead elsewhere."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import torch

MEGABYTE = 10**6


def safetensors(header: str | bytes, data: bytes = b"") -> bytes:
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: str = "[1]", place: str = "[0,4]", dtype: str = '"F32"') -> str:
    return f'{{"dtype":{dtype},"shape":{shape},"data_offsets":{place}}}'


def torch_zip(data: bytes, records: dict[str, bytes] | None = None, method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive laid out as torch.save does, around any pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/byteorder", "little")
        for key, content in (records or {}).items():
            archive.writestr(f"archive/data/{key}", content)
    return file.getvalue()


def torch_bytes(content: object, legacy: bool = False) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def program(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


def array(shape: object, dtype: str, data: bytes) -> msgpack.ExtType:
    return msgpack.ExtType(1, msgpack.packb((shape, dtype, data)))


def nested_wrappers() -> bytes:
    """Dictionaries that hold each other under every usual key: 8**20 ways through them."""
    keys = ("model_state_dict", "state_dict", "model", "module", "net", "network", "weights", "params")
    node: dict[str, object] = {}
    for _ in range(20):
        node = dict.fromkeys(keys, node)
    return torch_bytes(node)


def ways_to_a_tensor() -> bytes:
    node: dict[str, object] = {"w": torch.ones(1)}
    for _ in range(18):
        node = {key: node for key in "abcdefgh"}
    return torch_bytes(node)


def holds_itself() -> bytes:
    node: dict[str, object] = {"w": torch.ones(1)}
    node["x"] = node
    return torch_bytes(node)


def many_names(count: int = 100_000) -> bytes:
    items = [f'"layers.{i}.weight":{entry(place=f"[{4 * i},{4 * i + 4}]")}' for i in range(count)]
    return safetensors("{" + ",".join(items) + "}", bytes(4 * count))


def colliding_keys(count: int = 30_000) -> bytes:
    modulus = 2**61 - 1
    body = b"".join(pickle.dumps(i * modulus, 2)[2:-1] + b"K\1" for i in range(1, count))
    return torch_zip(program(b"}(" + body + b"u"))


def repeated_sets(count: int = 20_000) -> bytes:
    """One list made into a set over and over."""
    items = b"".join(struct.pack("<cI", b"J", i) for i in range(count))
    return torch_zip(program(b"](" + items + b"eq\0c__builtin__\nset\nq\1" + b"h\1h\0\x85R0" * 20_000))


def overlapping_zip() -> bytes:
    """A hundred storages that are the same bytes of the file."""
    data = torch_zip(program(b"}"), {"0": bytes(1000)})
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    directory = data[start:end]
    last = directory.rindex(b"PK\1\2")
    copies = b"".join(directory[last:].replace(b"/data/0", b"/data/" + bytes([65 + i])) for i in range(26))
    tail = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 29, 29, len(directory) + len(copies), start, 0)
    return data[:start] + directory + copies + tail


def deflated_gigabytes(count: int = 4_000_000_000) -> bytes:
    """A pickle of four gigabytes in four megabytes of zip, made without making it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = b"K\1" * (1 << 19)
    rounds = count // len(block)
    crc = 0
    packed = b""
    for _ in range(64):
        packed += packer.compress(block)
        crc = zlib.crc32(block, crc)
    packed += packer.flush()
    name = b"archive/data.pkl"
    size = min(rounds * len(block), 0xFFFFFFFE)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, crc, len(packed), size, len(name), 0) + name
    directory = struct.pack(
        "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 0, crc, len(packed), size, len(name), 0, 0, 0, 0, 0, 0
    ) + name  # fmt: skip
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(local) + len(packed), 0)
    return local + packed + directory + end


def deep_names() -> bytes:
    """A hundred levels of long keys over many arrays, whose dotted names would take gigabytes."""
    node: object = {f"{i}": array((1,), "float32", bytes(4)) for i in range(5000)}
    for _ in range(90):
        node = {"k" * 4000: node}
    return bytes(msgpack.packb(node))


FILES: dict[str, Callable[[], bytes]] = {
    "names.safetensors": many_names,
    "twice.safetensors": lambda: safetensors("{" + ",".join(f'"{i}":1' for i in [*range(100_000), 99_999]) + "}"),
    "digits.safetensors": lambda: safetensors(
        '{"a":' + entry(shape="[" + ",".join(["9" * 4000] * 5000) + "]") + "}", bytes(4)
    ),
    "digits_place.safetensors": lambda: safetensors('{"a":' + entry(place=f"[0,{'9' * 4000}]") + "}", bytes(4)),
    "long_number.safetensors": lambda: safetensors('{"a":' + entry(shape=f"[{'9' * 200_000}]") + "}", bytes(4)),
    "axes.safetensors": lambda: safetensors('{"a":' + entry(shape="[" + ",".join("1" * 100_000) + "]") + "}", bytes(4)),
    "zero.safetensors": lambda: safetensors('{"a":' + entry(shape=f"[0,{2**62}]", place="[0,0]") + "}"),
    "zeros.safetensors": lambda: safetensors('{"a":' + entry(shape=f"[0,{2**40},{2**40}]", place="[0,0]") + "}"),
    "long_name.safetensors": lambda: safetensors('{"' + "n" * 95 * MEGABYTE + '":' + entry() + "}", bytes(4)),
    "wide_name.safetensors": lambda: safetensors('{"' + "\U0001f600" * MEGABYTE * 9 + '":' + entry() + "}", bytes(4)),
    "lists.safetensors": lambda: safetensors('{"a":[' + "[]," * 20 * MEGABYTE + "[]]}"),
    "objects.safetensors": lambda: safetensors('{"a":[' + '{"":0},' * 10 * MEGABYTE + "{}]}"),
    "depth.safetensors": lambda: safetensors('{"a":' + "[" * MEGABYTE + "]" * MEGABYTE + "}"),
    "depth_some.safetensors": lambda: safetensors('{"a":' + "[" * 500 + "]" * 500 + "}"),
    "half_letter.safetensors": lambda: safetensors('{"\\ud800":' + entry() + "}", bytes(4)),
    "control.safetensors": lambda: safetensors('{"\\u001b[2J\\n":' + entry(shape="[7]") + "}", bytes(4)),
    "unknown_type.safetensors": lambda: safetensors('{"a":' + entry(shape=f"[{2**50}]", dtype='"X1"') + "}", bytes(4)),
    "wrappers.pt": nested_wrappers,
    "ways.pt": ways_to_a_tensor,
    "itself.pt": holds_itself,
    "collisions.pt": colliding_keys,
    "sets.pt": repeated_sets,
    "overlap.pt": overlapping_zip,
    "deflated.pt": deflated_gigabytes,
    "expanded.pt": lambda: torch_bytes({"a": torch.ones(1).expand(10**10), "b": torch.ones(2)}),
    "expanded_old.pt": lambda: torch_bytes({"a": torch.ones(1).expand(10**10)}, legacy=True),
    "marks.pt": lambda: torch_zip(program(b"(" * 20 * MEGABYTE)),
    "dicts.pt": lambda: torch_zip(program(b"]" + b"}a" * 15 * MEGABYTE)),
    "sets_many.pt": lambda: torch_zip(program(b"]" + b"\x8fa" * 15 * MEGABYTE)),
    "numbers.pt": lambda: torch_zip(program(b"](" + b"K\1" * 15 * MEGABYTE + b"e")),
    "old_numbers.pt": lambda: pickle.dumps(0x1950A86A20F9469CFC6C, 2) + program(b"](" + b"K\1" * 40 * MEGABYTE + b"e"),
    "pops.pt": lambda: torch_zip(program(b"K\0010" * 9 * MEGABYTE)),
    "deep_tuple.pt": lambda: torch_zip(program(b")" + b"\x85" * 900_000 + b"}q\0(h\0K\1u")),
    "deep_key.pt": lambda: torch_zip(program(b"})" + b"\x85" * 900_000 + b"K\1s")),
    "deep_rest.pt": lambda: torch_zip(program(b"})" + b"\x85" * 900_000 + b"q\0" + b"0X\1\0\0\0ah\0s")),
    "memo.pt": lambda: torch_zip(program(b"K\1r\xff\xff\xff\xff")),
    "long_text.pt": lambda: torch_zip(program(b"X\xff\xff\xff\x7f" + bytes(1000))),
    "bytearray.pt": lambda: torch_zip(program(b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R")),
    "allocate.pt": lambda: torch_zip(program(b"ctorch\nFloatTensor\nJ\xff\xff\xff\x7f\x85R")),
    "empty_strided.pt": lambda: torch_zip(program(b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n)R")),
    "idna.pt": lambda: torch_zip(program(b"c_codecs\nencode\nX\xa0\x86\1\0" + b"a" * 100_000 + b"X\4\0\0\0idna\x86R")),
    "maps.msgpack": lambda: b"\x81\xa1a\xdd" + struct.pack(">I", 20 * MEGABYTE) + b"\x80" * 20 * MEGABYTE,
    "lists.msgpack": lambda: b"\x81\xa1a" + b"\xdd\0\1\0\0" * 20000,
    "deep.msgpack": lambda: b"\x81\xa1a" * 100_000 + b"\xc0",
    "claims.msgpack": lambda: b"\x81\xa1a\xdf\xff\xff\xff\xff",
    "long_key.msgpack": lambda: b"\x81\xdb" + struct.pack(">I", 50 * MEGABYTE) + b"a" * 50 * MEGABYTE + b"\xc0",
    "deep_names.msgpack": deep_names,
    "huge_shape.msgpack": lambda: bytes(msgpack.packb({"a": array((2**62, 2**62), "float32", b"")})),
    "zero_shape.msgpack": lambda: bytes(msgpack.packb({"a": array((0, 2**62), "float32", b"")})),
    "object.msgpack": lambda: bytes(msgpack.packb({"a": array((1,), "O", bytes(8))})),
    "record.msgpack": lambda: bytes(msgpack.packb({"a": array((1,), "f4,(1000000,1000)f8", bytes(8))})),
    "bomb.npz": lambda: npz(),
    "bomb.pt": lambda: npz(),
}


OPENED_ONLY = {"names.safetensors"}  # valid; only the time to open it is bounded
SLOW = {"dicts.pt", "sets_many.pt", "old_numbers.pt", "pops.pt", "deep_tuple.pt", "deep_key.pt"}  # for run.py


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.zeros(10**7))
    return file.getvalue()


def small(folder: Path, name: str = "model.safetensors") -> Path:
    folder.mkdir()
    (folder / name).write_bytes(safetensors('{"a":' + entry() + "}", bytes(4)))
    return folder


def pipe_as(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        small(folder)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        return folder

    return make


def device_as(name: str, device: str = "/dev/zero") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        small(folder)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(device)
        return folder

    return make


def index_of(folder: Path, text: str) -> Path:
    small(folder, "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(text)
    return folder


def pipe_as_shard(folder: Path) -> Path:
    index_of(folder, json.dumps({"weight_map": {"a": "part.safetensors", "b": "pipe"}}))
    os.mkfifo(folder / "pipe")
    return folder


def config_of(folder: Path, text: str) -> Path:
    small(folder)
    (folder / "config.json").write_text(text)
    return folder


FOLDERS: dict[str, Callable[[Path], Path]] = {
    "pipe_as_config": pipe_as("config.json"),
    "pipe_as_weights": pipe_as("model.safetensors"),
    "pipe_as_companion": pipe_as("tokenizer.json"),
    "pipe_as_shard": pipe_as_shard,
    "device_as_config": device_as("config.json"),
    "device_as_weights": device_as("model.safetensors"),
    "device_as_companion": device_as("tokenizer.json"),
    "passwords_as_config": device_as("config.json", "/etc/passwd"),
    "itself_as_companion": device_as("tokenizer.json", "tokenizer.json"),
    "many_in_index": lambda f: index_of(f, json.dumps({"weight_map": {f"{i}": "part.safetensors" for i in range(10**5)}})),
    "many_shards": lambda f: index_of(f, json.dumps({"weight_map": {f"{i}": f"{i}.safetensors" for i in range(10**5)}})),
    "deep_index": lambda f: index_of(f, '{"weight_map": ' + "[" * 10**5 + "}"),
    "list_metadata": lambda f: index_of(f, '{"weight_map": {"a": "part.safetensors"}, "metadata": [1]}'),
    "long_shard": lambda f: index_of(f, json.dumps({"weight_map": {"a": "x" * 10**6}})),
    "half_letter_shard": lambda f: index_of(f, '{"weight_map": {"a": "\\ud800"}}'),
    "zero_shard": lambda f: index_of(f, '{"weight_map": {"a": "a\\u0000b"}}'),
    "deep_config": lambda f: config_of(f, '{"a":' * 400 + "1" + "}" * 400),
    "deeper_config": lambda f: config_of(f, "[" * 10**6),
    "wide_config": lambda f: config_of(f, "[" + "{}," * 5 * MEGABYTE + "{}]"),
    "digits_config": lambda f: config_of(f, '{"a": ' + "9" * 10**6 + "}"),
}  # fmt: skip
