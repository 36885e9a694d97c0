"""The two kinds of PyTorch files: zip archives, and the sequence of pickles that came before them.

Both are read the same way: the pickle is run by `Machine`, and the storages it refers to are mapped from the file, so
that values are only read from the disk when they are asked for.
"""

from __future__ import annotations

import mmap
import warnings
from pathlib import Path
from typing import Any, Protocol

import torch

from aireprune.errors import AireError, shown
from aireprune.files.reading import open_plain
from aireprune.files.refusals import PICKLE, refuse_foreign_archive
from aireprune.files.torch.pickle_machine import Machine, UnknownNameError
from aireprune.files.torch.tensors import Storage, TensorTable
from aireprune.files.torch.zip_records import Record, check_stored, read_directory, unpack

LARGEST_PICKLE = 32 << 20
MOST_UNPACKED = 64 << 20  # bytes of compressed storages that are unpacked into memory
MAGIC = 0x1950A86A20F9469CFC6C


class Container(Protocol):
    """A PyTorch file that is open."""

    loaded: Any  # what was saved

    def check(self, tensor: torch.Tensor | None = None) -> None:
        """Compare the checksums of a tensor's storage, or of all that the file refers to; each is compared once."""
        ...


def open_container(path: Path) -> Container:
    """Open a PyTorch file of either kind."""
    with open_plain(path) as file:
        magic = file.read(4)
    if not magic:
        raise AireError(f"{path} is empty; expected a PyTorch file.")
    zipped = magic == b"PK\x03\x04"
    if not zipped and magic[:1] != b"\x80":
        raise AireError(f"{path} is not a PyTorch file: it begins with {magic!r}, neither a zip archive nor a pickle.")
    try:
        return ZipContainer(path) if zipped else OldContainer(path)
    except UnknownNameError as error:
        raise AireError(
            f"{path} holds more than tensors ({shown(error)}), and reading that could run code; "
            "open it in the project it comes from and save only model.state_dict()."
        ) from None
    except (ValueError, RuntimeError) as error:
        reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise AireError(f"{path} is damaged or truncated: its pickle cannot be read ({reason}).") from None


class ZipContainer:
    """A zip archive: NAME/data.pkl with the pickle, NAME/data/KEY with each storage."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._checked: set[str] = set()
        self._unpacked = 0  # bytes so far
        table = TensorTable()
        with open_plain(path) as file:
            self._records = self._read_records(file)
            byte_order = self._records.get("byteorder")
            if byte_order is not None and unpack(path, file, byte_order, 100) != b"little":
                raise AireError(
                    f"{path} was written on a big-endian machine; load it there and save it as safetensors."
                )
            pickle = unpack(path, file, self._records["data.pkl"], LARGEST_PICKLE)
            self.loaded = Machine(pickle, table.names, table.storage).run()
            self._mapped = _map(file.fileno())
            storages = {key: self._bytes(file, storage) for key, storage in table.storages.items()}
        self._keys = table.fill(lambda part: _part(storages[part.key], part))

    def check(self, tensor: torch.Tensor | None = None) -> None:
        """See `Container.check`."""
        keys = set(self._keys.values()) if tensor is None else {self._keys[id(tensor)]}
        with open_plain(self._path) as file:
            for key in keys - self._checked:
                record = self._records[f"data/{key}"]
                if record.stored:
                    check_stored(self._path, file, record)
        self._checked |= keys

    def _read_records(self, file: Any) -> dict[str, Record]:
        """The records by their name inside the one folder that the archive holds."""
        records = read_directory(self._path, file)
        refuse_foreign_archive(self._path, records)
        folder = next(name for name in records if name.partition("/")[2] == "data.pkl")[: -len("data.pkl")]
        return {name.removeprefix(folder): record for name, record in records.items() if name.startswith(folder)}

    def _bytes(self, file: Any, storage: Storage) -> torch.UntypedStorage:
        record = self._records.get(f"data/{storage.key}")
        size = storage.count * storage.itemsize
        if record is None or record.size != size:
            found = "is missing" if record is None else f"has {record.size} bytes"
            raise AireError(
                f"{self._path} is damaged or truncated: storage {shown(storage.key)} of {size} bytes {found}."
            )
        if record.stored:
            return self._mapped[record.start : record.start + record.size]
        self._unpacked += record.size
        if self._unpacked > MOST_UNPACKED:
            raise AireError(
                f"{self._path} is compressed, and more than {MOST_UNPACKED >> 20} MB would have to be unpacked into "
                "memory; load it in PyTorch and save it again, which does not compress."
            )
        return _as_storage(unpack(self._path, file, record, MOST_UNPACKED))


class OldContainer:
    """Pickles one after the other (magic number, protocol, system, the object, the keys), then the storages."""

    def __init__(self, path: Path) -> None:
        table = TensorTable()
        with open_plain(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                magic, place = _run(data, 0)
            except UnknownNameError as error:  # not even the first of its pickles is torch's
                raise AireError(f"{path} is {PICKLE}; it holds {shown(error)}.") from None
            if magic != MAGIC:
                raise AireError(f"{path} is {PICKLE}.")
            _, place = _run(data, place)
            system, place = _run(data, place)
            if not isinstance(system, dict) or system.get("little_endian") is not True:
                raise AireError(
                    f"{path} was written on a big-endian machine; load it there and save it as safetensors."
                )
            machine = Machine(data, table.names, table.storage, place)
            self.loaded = machine.run()
            keys, place = _run(data, machine.place)
            places = _places(table.storages, keys, data, place)
            mapped = _map(file.fileno())
        storages = {key: mapped[start : start + size] for key, (start, size) in places.items()}
        table.fill(lambda part: _part(storages[part.key], part))

    def check(self, tensor: torch.Tensor | None = None) -> None:
        """This kind has no checksums."""


def _run(data: Any, place: int) -> tuple[Any, int]:
    """The value of a pickle without names or tensors, and where the next one begins."""
    machine = Machine(data, {}, _no_reference, place)
    return machine.run(), machine.place


def _places(storages: dict[str, Storage], keys: Any, data: Any, place: int) -> dict[str, tuple[int, int]]:
    """Start and size of each storage: in the order of the keys, each after its count of elements in eight bytes."""
    if not isinstance(keys, list) or {str(key) for key in keys} != set(storages) or len(keys) != len(storages):
        raise ValueError("the list of its storages is not that of its tensors")
    places: dict[str, tuple[int, int]] = {}
    for key in map(str, keys):
        storage = storages[key]
        size = storage.count * storage.itemsize
        if int.from_bytes(data[place : place + 8], "little") != storage.count or place + 8 + size > len(data):
            raise ValueError(f"storage {key} is not whole")
        places[key] = (place + 8, size)
        place += 8 + size
    return places


def _map(descriptor: int) -> torch.UntypedStorage:
    """A file in memory, read from the disk as it is used."""
    return _as_storage(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))


def _as_storage(data: Any) -> torch.UntypedStorage:
    """Bytes as a storage, not copied: nothing may be written to it."""
    if not len(data):
        return torch.UntypedStorage(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that it cannot be written to
        return torch.frombuffer(data, dtype=torch.uint8).untyped_storage()


def _part(whole: torch.UntypedStorage, storage: Storage) -> torch.UntypedStorage:
    if storage.length == storage.count:
        return whole
    return whole[storage.start * storage.itemsize : (storage.start + storage.length) * storage.itemsize]


def _no_reference(_: Any) -> Any:
    raise ValueError("a reference to something outside of it")
