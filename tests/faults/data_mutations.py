"""Damage for small files of data: of their bytes, of JSON values, of NumPy headers and of zip members. By seed alone."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, True, "", "x", "\x1b[2J\u202e", "\ud800", -1, 0, 1.5, 10**40, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], ["x"], {"x": 1}, [0] * 50, "A" * 5000),
)
DEEP = "[" * 100_000
HEADER = (
    *((b"<f4", b"|O"), (b"<f4", b"<f9"), (b"<f4", b"<M8"), (b"<f4", b"<U9"), (b"<f4", b"<i8"), (b"<i8", b"<u8")),
    *((b"False", b"True"), (b"'shape'", b"'shap'"), (b"{", b"("), (b"(", b"(-"), (b"(", b"(99999999999,")),
    *((b"(", b"(0,"), (b", )", b")"), (b"descr", b"\xff\xfe"), (b"'<f4'", b"[('a','<f4')]"), (b"(", b"(" * 300)),
)

Mutation = Callable[[bytes, random.Random], bytes]


def mutants(valid: bytes, mutations: tuple[Mutation, ...], count: int) -> Iterator[bytes]:
    """So many damaged copies, by every mutation in turn; the same ones every time."""
    for number in range(count):
        rng = random.Random(f"{number}")
        yield mutations[number % len(mutations)](valid, rng)


def of_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut off, flipped, repeated, removed or inserted bytes."""
    place, size = rng.randrange(len(data) + 1), rng.choice((1, 2, 8, 64))
    kind = rng.randrange(6)
    if kind == 0:
        return data[:place]
    if kind == 1:
        flipped = bytearray(data)
        for _ in range(size):
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 2:
        return data[:place] + data[place + size :]
    if kind == 3:
        return data[:place] + data[place : place + size] * 5 + data[place:]
    noise = rng.randbytes(size) if kind == 4 else rng.choice((b"\0", b"\n", b"\t", b"{", b'"', b"\xff"))
    return data[:place] + noise + data[place + (size if kind == 4 else 0) :]


def of_value(value: Any, rng: random.Random, odd: tuple[Any, ...] = ODD) -> Any:
    """A copy in which one entry, somewhere, is another value or gone."""
    value = copy.deepcopy(value)
    node, key = _somewhere(value, rng)
    if node is None:
        return copy.deepcopy(rng.choice(odd))
    if rng.random() < 0.25:
        del node[key]
    else:
        node[key] = copy.deepcopy(rng.choice(odd))
    return value


def _somewhere(value: Any, rng: random.Random) -> tuple[Any, Any]:
    """A container in the value and one of its keys; now and then none, which is the value itself."""
    places: list[tuple[Any, Any]] = [(None, None)]
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict | list):
            places += [(node, key) for key in (node if isinstance(node, dict) else range(len(node)))]
            waiting += node.values() if isinstance(node, dict) else node
    return rng.choice(places)


def of_json(data: bytes, rng: random.Random) -> bytes:
    """One entry of the document changed."""
    return DEEP.encode() if rng.random() < 0.02 else json.dumps(of_value(json.loads(data), rng)).encode()


def of_lines(data: bytes, rng: random.Random) -> bytes:
    """One entry of one of the lines of JSON changed."""
    lines = data.splitlines()
    number = rng.randrange(len(lines))
    lines[number] = of_json(lines[number], rng)
    return b"\n".join(lines) + b"\n"


def of_npy(data: bytes, rng: random.Random) -> bytes:
    """The header says something else, with or without a length that fits it; or it claims to be very long."""
    old, new = rng.choice([pair for pair in HEADER if pair[0] in data[:128]])
    changed = data.replace(old, new, 1)
    if rng.random() < 0.5:
        end = changed.index(b"\n")
        changed = changed[:8] + (end + 1 - 10).to_bytes(2, "little") + changed[10:]
    if rng.random() < 0.1:
        changed = changed[:6] + rng.choice((b"\x02\0\xff\xff\xff\xff", b"\x09\0", b"\x03\0\x10\0\0\0")) + changed[10:]
    return changed


def of_npz(data: bytes, rng: random.Random) -> bytes:
    """One member damaged, gone, twice there or under another name, and the archive written again."""
    source = zipfile.ZipFile(io.BytesIO(data))
    members = [(name, source.read(name)) for name in source.namelist()]
    number, kind = rng.randrange(len(members)), rng.randrange(6)
    name, content = members[number]
    if kind < 3:
        members[number] = (name, (of_npy if kind else of_bytes)(content, rng))
    elif kind == 3:
        del members[number]
    else:
        members[number] = (rng.choice(members)[0] if kind == 4 else "\x1b.npy", content)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for index, (name, content) in enumerate(members):
            if name not in archive.namelist():
                archive.writestr(name, content)
            else:
                archive.writestr(f"{index}.npy", content)
    return target.getvalue()


def of_tsv(data: bytes, rng: random.Random) -> bytes:
    """A cell of a line replaced."""
    lines = [line.split(b"\t") for line in data.splitlines()]
    line = rng.choice(lines)
    line[rng.randrange(len(line))] = rng.choice(
        (b"", b"\0", b"\xff", b"12", b"( [MAX", b"9" * 5000, b"\t", b"-1", b"a\tb")
    )
    return b"\n".join(b"\t".join(line) for line in lines)
