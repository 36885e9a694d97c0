"""Small files that were made to do harm are refused quickly, or do none."""

import os

import pytest
from faults import hostile
from faults.measure import exercise, in_child, opened

from aireprune.errors import AireError
from aireprune.files import open_checkpoint

ACCEPTED = {
    "names.safetensors",
    "object.msgpack",
    "record.msgpack",
    "pipe_as_companion",
    "device_as_companion",
    "itself_as_companion",
}


@pytest.mark.parametrize("name", [name for name in hostile.FILES if name not in hostile.SLOW])
def test_file(name, scratch):
    path = scratch / name
    path.write_bytes(hostile.FILES[name]())
    (scratch / "out").mkdir()
    outcome = in_child(path, scratch / "out", opened if name in hostile.OPENED_ONLY else exercise)
    assert outcome.fault is None
    assert outcome.kind == ("accepted" if name in ACCEPTED else "refused"), outcome.message


@pytest.mark.parametrize("name", hostile.FOLDERS)
def test_folder(name, scratch):
    path = hostile.FOLDERS[name](scratch / name)
    (scratch / "out").mkdir()
    outcome = in_child(path, scratch / "out")
    assert outcome.fault is None
    assert outcome.kind == ("accepted" if name in ACCEPTED else "refused"), outcome.message


def test_nothing_from_outside_of_a_folder_ends_up_in_a_copy(scratch):
    (scratch / "secret").mkdir()
    (scratch / "secret" / "config.json").write_text('{"password": 1}')
    folder = hostile.small(scratch / "in")
    (folder / "notes.txt").symlink_to(scratch / "secret" / "config.json")
    (folder / "sub").symlink_to(scratch / "secret")
    open_checkpoint(folder).write(scratch / "out", {})
    assert sorted(os.listdir(scratch / "out")) == ["model.safetensors"]
    (folder / "config.json").symlink_to(scratch / "secret" / "config.json")
    with pytest.raises(AireError, match=r"config.json is a link that leads out of the directory"):
        open_checkpoint(folder)
    with pytest.raises(AireError, match=r"config.json is a link that leads out of the directory"):
        open_checkpoint(folder / "model.safetensors")
