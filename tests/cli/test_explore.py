"""aire explore."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from safetensors.numpy import save_file

from aireprune import embedded

RUN = """
import sys
from aireprune.cli import main
sys.argv = ["aire", "explore", sys.argv[1]]
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = {"torch", "numba", "transformers", "matplotlib", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_page_of_a_checkpoint(aire, tmp_path):
    code, out, err = aire("explore", embedded.MODEL, "-o", tmp_path / "e.html", "--ratio", 0.25, "--seed", 3)
    assert code == 0, err
    assert "128 states in 4 layers." in out
    assert out.splitlines()[-1].startswith(f"Next: aire prune {embedded.MODEL} -o OUT --plan plan.json")
    text = (tmp_path / "e.html").read_text()
    assert '"explore":true' in text
    assert "--ratio 0.25 --seed 3" in text


def test_what_cannot_be_planned_is_refused(aire, tmp_path):
    code, _, err = aire("explore", embedded.MODEL, "-o", tmp_path / "e.html", "--layout", "tall")
    assert code == 1
    assert "no layout 'tall'" in err
    assert not (tmp_path / "e.html").exists()


def test_a_safetensors_file_is_explored_without_torch(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"A_log": (8, 4), "x_proj.weight": (10, 8), "dt_proj.weight": (8, 2), "dt_proj.bias": (8,)}
    save_file(
        {f"l.{name}": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()},
        tmp_path / "in.safetensors",
    )
    command = [sys.executable, "-c", RUN, str(tmp_path / "in.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "in.explore.html").exists()


def test_a_layout_that_no_plan_can_have_is_refused(aire, tmp_path):
    code, _, err = aire("explore", embedded.MODEL, "-o", tmp_path / "e.html", "--layout", "auto")
    assert code == 1
    assert "There is no layout 'auto'. Layouts: adaptive, uniform, padded." in err
