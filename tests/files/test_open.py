"""What holds for every kind of single file: where its configuration is, and which targets are refused."""

import json
import os
import subprocess
import sys

import pytest
import torch
from file_helpers import half, listing
from safetensors.torch import save_file

from aireprune.errors import AireError
from aireprune.files import open_checkpoint


@pytest.fixture
def source(tmp_path):
    save_file({"w": torch.ones(4)}, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def test_configuration_beside_given_or_none(source, tmp_path):
    assert open_checkpoint(source).config == {}
    (tmp_path / "m.json").write_text('{"a": 1}')
    (tmp_path / "other.json").write_text('{"a": 2}')
    assert open_checkpoint(str(source)).config == {"a": 1}
    assert open_checkpoint(source, tmp_path / "other.json").config == {"a": 2}
    assert open_checkpoint(source, {"a": 3}).config == {"a": 3}
    with pytest.raises(AireError, match=r"nothing.json cannot be read"):
        open_checkpoint(source, "nothing.json")


def test_configuration_and_extras_are_written_beside(source, tmp_path):
    open_checkpoint(source).write(tmp_path / "o" / "out.safetensors", {"w": half}, {"a": 4}, {"plan.json": "{}"})
    assert listing(tmp_path / "o") == ["out.json", "out.plan.json", "out.safetensors"]
    assert json.loads((tmp_path / "o" / "out.json").read_text()) == {"a": 4}


def test_refused_targets(source, tmp_path):
    checkpoint = open_checkpoint(source)
    (tmp_path / "m.json").write_text("{}")
    (tmp_path / "link.safetensors").symlink_to(source)
    (tmp_path / "dir.safetensors").mkdir()
    for name in ("m.safetensors", "link.safetensors"):
        with pytest.raises(AireError, match="would replace part of the checkpoint"):
            checkpoint.write(tmp_path / name, {}, overwrite=True)
    with pytest.raises(AireError, match="would replace part of the checkpoint"):
        checkpoint.write(tmp_path / "m", {}, {"a": 1}, overwrite=True)
    with pytest.raises(AireError, match="is a directory"):
        checkpoint.write(tmp_path / "dir.safetensors", {}, overwrite=True)
    with pytest.raises(AireError, match="names another kind"):
        checkpoint.write(tmp_path / "out.pt", {})
    (tmp_path / "out.plan.json").write_text("old")
    with pytest.raises(AireError, match=r"out.plan.json exists already"):
        checkpoint.write(tmp_path / "out.safetensors", {}, extras={"plan.json": "{}"})
    with pytest.raises(AireError, match="no tensor v to edit"):
        checkpoint.write(tmp_path / "out.safetensors", {"v": half})
    assert not (tmp_path / "out.safetensors").exists()
    checkpoint.write(tmp_path / "out.safetensors", {}, extras={"plan.json": "{}"}, overwrite=True)
    assert (tmp_path / "out.plan.json").read_text() == "{}"


def test_kinds_without_a_suffix(source, tmp_path):
    source.rename(tmp_path / "plain")
    assert open_checkpoint(tmp_path / "plain").kind == "safetensors"


def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(AireError, match="does not exist"):
        open_checkpoint(tmp_path / "nothing.pt")
    (tmp_path / "text").write_text("some text here")
    with pytest.raises(AireError, match="begins with b'some text'"):
        open_checkpoint(tmp_path / "text")
    (tmp_path / "empty").write_text("")
    with pytest.raises(AireError, match="is empty; expected"):
        open_checkpoint(tmp_path / "empty")
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(AireError, match="neither a file nor a directory"):
        open_checkpoint(tmp_path / "pipe.pt")


def test_safetensors_are_pruned_without_torch(source, tmp_path):
    program = (
        "import sys; from pathlib import Path; from aireprune.files.open import open_checkpoint\n"
        "open_checkpoint(sys.argv[1]).write(Path(sys.argv[2]), {'w': lambda v: v[:1]})\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(source), str(tmp_path / "o.safetensors")], check=True)
