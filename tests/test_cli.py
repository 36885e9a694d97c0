"""The command as a whole: its help is quick, and problems are one sentence on standard error."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from aireprune import cli
from aireprune.errors import AireError

COMMANDS = (
    *(
        "inspect",
        "score",
        "methods",
        "targets",
        "tasks",
        "zoo",
        "prune",
        "eval",
        "certify",
        "convert",
        "export",
        "report",
    ),
    *("explore", "demo", "train", "sweep", "sweep", "reproduce", "bench"),
)
HELP = """
import sys
import aireprune.cli
early = {"torch", "numba", "numpy", "rich"} & set(sys.modules)
assert not early, early
sys.argv = ["aire", "--help"]
try:
    aireprune.cli.main()
except SystemExit:
    pass
late = {"torch", "numba", "numpy"} & set(sys.modules)
assert not late, late
"""


def test_help_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│ ") and line[2].isalpha()]
    assert tuple(listed) == COMMANDS  # "sweep merge" has two words


PRUNE = """
import sys
from aireprune.cli import main
sys.argv = ["aire", "prune", sys.argv[1], "-o", sys.argv[2], "--ratio", "0.5"]
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = {"torch", "numba", "transformers"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_safetensors_file_is_pruned_without_torch(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"A_log": (8, 4), "x_proj.weight": (10, 8), "dt_proj.weight": (8, 2), "dt_proj.bias": (8,)}
    tensors = {f"l.{name}": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, tmp_path / "in.safetensors")
    paths = [str(tmp_path / "in.safetensors"), str(tmp_path / "out.safetensors")]
    done = subprocess.run([sys.executable, "-c", PRUNE, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize(
    "command", [*([name] for name in COMMANDS), *(["bench", c.__name__] for c in cli.bench.COMMANDS)]
)
def test_every_command_has_help(aire, command):
    code, out, _ = aire(*command, "--help")
    assert code == 0
    assert " ".join(("aire", *command)) in " ".join(out.split())


@pytest.mark.parametrize(
    ("problem", "status", "sentence"),
    [
        (AireError("Give unstable='keep'."), 1, "aire: Give --unstable keep.\n"),
        (FileNotFoundError(2, "No such file or directory", "x.pt"), 1, "aire: No such file or directory: x.pt\n"),
        (OSError("the disk is full"), 1, "aire: the disk is full\n"),
        (KeyboardInterrupt(), 130, "aire: interrupted\n"),
    ],
)
def test_problems_are_one_sentence(aire, monkeypatch, problem, status, sentence):
    def fail(prog_name):
        raise problem

    monkeypatch.setattr(cli, "app", fail)
    assert aire() == (status, "", sentence)
