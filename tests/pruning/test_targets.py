"""The table of engines: sizes that are rounded to, and sizes that run."""

from __future__ import annotations

import json

import pytest

from aireprune.errors import AireError
from aireprune.families import FAMILIES
from aireprune.pruning.targets import TARGETS, Sizes, find_target


def test_steps_and_what_runs() -> None:
    assert Sizes(step=32).steps(100) == (32, 64, 96)
    assert Sizes(power=16).steps(128) == (16, 32, 64, 128)
    assert Sizes(power=16).steps(8) == (8,)
    assert Sizes(most=256).steps(512) == ()
    assert [size for size in range(1, 130) if Sizes(step=32).runs(size)] == [32, 64, 96, 128]
    assert [size for size in range(1, 130) if Sizes(power=16).runs(size)] == [16, 32, 64, 128]
    assert Sizes(power=16, strict=False).runs(5)
    assert [size for size in (1, 256, 257) if Sizes(most=256).runs(size)] == [1, 256]


def test_every_engine_is_complete() -> None:
    for target in TARGETS.values():
        assert set(target.families) <= set(FAMILIES)
        assert set(target.on_gpu) <= set(target.families)
        assert target.sources
        assert "{out}" in target.load
        assert json.loads(json.dumps(target.to_dict()))["name"] == target.name


def test_names() -> None:
    with pytest.raises(
        AireError, match=r"no target 'lama.cpp'\. Did you mean llama.cpp\? Targets: mamba-ssm, transformers"
    ):
        find_target("lama.cpp")
