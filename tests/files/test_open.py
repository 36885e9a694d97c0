"""What holds for every kind of single file: where its configuration is, and which targets are refused."""

import json
import os
import subprocess
import sys

import pytest
import torch
from file_helpers import half, killed_child, listing, safetensors_bytes
from safetensors.torch import save_file

from aireprune.errors import AireError
from aireprune.files import open_checkpoint, write_folder


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


def test_a_target_that_the_system_refuses_to_look_at(source, tmp_path):
    with pytest.raises(AireError, match="File name too long"):
        open_checkpoint(source).write(tmp_path / ("n" * 300 + ".safetensors"), {})
    with pytest.raises(AireError, match="File name too long"):
        open_checkpoint(tmp_path / ("n" * 300))
    with pytest.raises(AireError, match="File name too long"):
        write_folder(tmp_path / ("n" * 300), {}, {})


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


def test_the_sources_own_configuration_is_not_replaced_under_another_name(tmp_path):
    save_file({"w": torch.ones(4)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"a": 1}')
    given = tmp_path / "given.json"
    given.write_text('{"a": 2}')
    os.link(given, tmp_path / "linked.json")
    for config, target in ((None, "config.safetensors"), (given, "given.safetensors"), (given, "linked.safetensors")):
        checkpoint = open_checkpoint(tmp_path / "model.safetensors", config)
        with pytest.raises(AireError, match="would replace part of the checkpoint"):
            checkpoint.write(tmp_path / target, {}, {"a": 3}, overwrite=True)
    assert (tmp_path / "config.json").read_text() == '{"a": 1}'
    assert given.read_text() == '{"a": 2}'


def test_a_configuration_that_is_a_link_out_of_its_folder(source, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.json").write_text("{}")
    (tmp_path / "in").mkdir()
    source.rename(tmp_path / "in" / "m.safetensors")
    (tmp_path / "in" / "m.json").symlink_to(tmp_path / "elsewhere" / "c.json")
    with pytest.raises(AireError, match=r"m.json is a link that leads out of the directory"):
        open_checkpoint(tmp_path / "in" / "m.safetensors")


def test_names_are_shown_escaped_and_cut(tmp_path):
    header = {"\x1b[2J" + "n" * 1000: {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}
    (tmp_path / "x\n.safetensors").write_bytes(safetensors_bytes(header, bytes(4)))
    with pytest.raises(AireError) as caught:
        open_checkpoint(tmp_path / "x\n.safetensors")
    message = str(caught.value)
    assert message.isprintable()
    assert r"x\n.safetensors: tensor \x1b[2Jnnn" in message
    assert len(message) < 500


def test_opening_what_a_killed_run_left_half_replaced(source, tmp_path):
    def killed():
        from aireprune.files.writing import journal

        step, done = journal.rename_new, []
        journal.rename_new = lambda *a: os.kill(os.getpid(), 9) if done else (done.append(1), step(*a))
        open_checkpoint(source).write(tmp_path / "o.safetensors", {"w": half}, {"a": 1}, {"plan.json": "{}"})

    assert killed_child(killed) == -9
    assert not (tmp_path / "o.plan.json").exists()
    assert open_checkpoint(tmp_path / "o.safetensors").config == {"a": 1}
    assert listing(tmp_path) == ["m.safetensors", "o.json", "o.plan.json", "o.safetensors"]
