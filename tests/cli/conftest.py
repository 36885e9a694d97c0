"""A checkpoint to work on, and what every refusal of `aire prune` has in common."""

from __future__ import annotations

import shutil

import pytest
from helpers import GOLDEN

NAME = "bidir_bn_half_glu2"


@pytest.fixture
def s5_file(tmp_path):
    """A copy of an official checkpoint with its configuration beside it, alone in a folder."""
    folder = tmp_path / "in"
    folder.mkdir()
    for suffix in (".msgpack", ".json"):
        shutil.copy(GOLDEN / f"{NAME}{suffix}", folder)
    return folder / f"{NAME}.msgpack"


@pytest.fixture
def refused(aire, tmp_path):
    """aire prune PATH with these arguments must end in one sentence that has `mention`, and leave nothing behind."""

    def check(path, mention, *arguments, suffix=""):
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        code, printed, err = aire("prune", path, "-o", out / f"pruned{suffix}", *(arguments or ("--ratio", 0.5)))
        assert code == 1
        assert mention in err
        assert err.startswith("aire: ")
        assert len(err.strip().splitlines()) == 1
        assert "Traceback" not in err + printed
        assert list(out.iterdir()) == []

    return check
