"""How commands end: statuses, one sentence, a log of what nobody foresaw, and terminals that show little."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from aireprune.cli import methods
from aireprune.cli.ending import resumable


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """`aire methods` fails with the given problem inside Typer; the cache is a new folder."""
    monkeypatch.setenv("AIRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRE_DEBUG", "")

    def install(problem):
        def fail(*arguments, **options):
            raise problem

        monkeypatch.setattr(methods, "say", fail)

    return install


@pytest.mark.parametrize(
    ("problem", "status", "sentence"),
    [
        (EOFError("No data left in file"), 70, "This should not have happened (EOFError: No data left in file)."),
        (KeyboardInterrupt(), 130, "interrupted"),
        (KeyboardInterrupt("interrupted; so it goes on."), 130, "interrupted; so it goes on."),
        (PermissionError(13, "Permission denied", "a\x1b[31mb"), 1, r"Permission denied: a\x1b[31mb"),
        (MemoryError("8 GB"), 1, "There is not enough memory for this (8 GB)."),
        (KeyError("lam"), 70, "This should not have happened (KeyError: 'lam')."),
        (SystemExit(143), 143, ""),
    ],
)
def test_a_status_and_one_sentence(aire, broken, problem, status, sentence):
    broken(problem)
    code, out, err = aire("methods")
    assert (code, out) == (status, "")
    assert len(err.splitlines()) == bool(sentence)
    assert err.startswith(f"aire: {sentence}" if sentence else "")
    assert "Traceback" not in err


def test_what_nobody_foresaw_is_logged(aire, broken, tmp_path):
    broken(KeyError("lam"))
    _, _, err = aire("methods")
    (log,) = (tmp_path / "cache" / "logs").iterdir()
    assert err.endswith(f"Please report it with the file {log}.\n")
    assert "KeyError: 'lam'" in log.read_text()
    assert "Traceback (most recent call last)" in log.read_text()


def test_logs_go_to_the_temporary_folder_if_need_be(aire, broken, tmp_path, monkeypatch):
    (tmp_path / "cache").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    broken(KeyError("lam"))
    assert str(tmp_path / "tmp" / "aire-") in aire("methods")[2]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "cache"))
    assert aire("methods")[2].endswith("Please report it with what `aire -v` prints.\n")


def test_verbose_shows_the_traceback(aire, broken):
    broken(KeyError("lam"))
    code, _, err = aire("-v", "methods")
    assert code == 70
    assert err.startswith("Traceback (most recent call last)")
    assert err.splitlines()[-1].startswith("aire: This should not have happened")


def test_usage(aire):
    assert aire("no-such-command")[0] == 2
    assert "70 an unforeseen" in " ".join(aire("--help")[1].split())


def run(*arguments, **environment):
    command = [sys.executable, "-m", "aireprune", *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False)


def test_a_terminal_with_ascii_alone(s5_file):
    for arguments in (("inspect", s5_file), ("methods",), ("--help",), ("inspect", "\u03bb.pt")):
        done = run(*arguments, PYTHONIOENCODING="ascii", LANG="C", LC_ALL="C")
        assert done.returncode == (arguments[-1] == "\u03bb.pt"), done.stderr
        assert (done.stdout + done.stderr).isascii()
        assert b"Traceback" not in done.stderr


def test_a_pipe_that_is_closed(s5_file):
    for json in ([], ["--json"]):
        command = [sys.executable, "-m", "aireprune", "score", str(s5_file), *json]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.stderr.read() == b""


def test_names_do_not_reach_the_terminal_as_control_sequences(aire, tmp_path):
    escape = "\x1b]0;owned\x07"
    prefix = f"layers{escape}.mixer."
    rng = np.random.default_rng(0)
    arrays = {
        "A_log": np.log(np.tile(np.arange(1, 5, dtype=np.float32), (8, 1))),
        "D": np.ones(8),
        "conv1d.weight": rng.standard_normal((8, 1, 4)),
        "conv1d.bias": np.zeros(8),
        "in_proj.weight": rng.standard_normal((16, 4)),
        "x_proj.weight": rng.standard_normal((1 + 8, 8)),
        "dt_proj.weight": rng.standard_normal((8, 1)),
        "dt_proj.bias": np.zeros(8),
        "out_proj.weight": rng.standard_normal((4, 8)),
    }
    save_file({prefix + name: array.astype(np.float32) for name, array in arrays.items()}, tmp_path / "a.safetensors")
    assert any(escape in name for name in load_file(tmp_path / "a.safetensors"))
    code, out, err = aire("inspect", tmp_path / "a.safetensors")
    assert code == 0, err
    assert r"layers\x1b]0;owned\x07" in out
    assert "\x1b" not in out + err


def test_what_the_library_logs_is_a_note(aire, capsys):
    assert aire("methods")[0] == 0
    assert aire("methods")[0] == 0  # the second start adds no second handler
    logging.getLogger("aireprune.files").warning("A run that was killed had begun to write %s.", "out\x07")
    assert capsys.readouterr().err == "note: A run that was killed had begun to write out\\x07.\n"


def test_work_that_is_kept_says_so_when_it_is_interrupted():
    with (
        pytest.raises(KeyboardInterrupt, match=r"^interrupted; the same command goes on where it stopped\.$"),
        resumable(),
    ):
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="other"), resumable():
        raise ValueError("other")


def test_quiet_leaves_notes_and_hints_out(aire, monkeypatch):
    monkeypatch.setenv("AIRE_QUIET", "")
    assert "Next: " in aire("zoo")[1]
    code, out, err = aire("-q", "zoo")
    assert (code, err) == (0, "")
    assert "Next: " not in out


def test_no_colour_where_there_is_no_terminal(s5_file):
    for variables in ({}, {"NO_COLOR": "1"}):
        done = run("inspect", s5_file, **variables)
        assert b"\x1b" not in done.stdout + done.stderr


def test_a_shell_can_complete():
    completed = run(_AIRE_COMPLETE="complete_bash", COMP_WORDS="aire pr", COMP_CWORD="1")
    assert completed.stdout.split() == [b"prune"]
    completed = run(_AIRE_COMPLETE="complete_bash", COMP_WORDS="aire prune --method global-h", COMP_CWORD="3")
    assert completed.stdout.split() == [b"global-hinf"]
    completed = run(_AIRE_COMPLETE="complete_bash", COMP_WORDS="aire inspect zoo:text", COMP_CWORD="2")
    assert completed.stdout.split() == [b"zoo:text-s5"]
