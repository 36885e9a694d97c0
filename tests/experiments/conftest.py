"""Small models, tasks and a zoo."""

from __future__ import annotations

import pytest
import toy_experiments


@pytest.fixture
def toy():
    """An untrained S5 and a classification task of 60 validation and 70 test examples."""
    return toy_experiments.classification()


@pytest.fixture
def toy_language():
    """An untrained causal S5 and a task of next bytes."""
    return toy_experiments.language()


@pytest.fixture
def small_zoo(tmp_path, monkeypatch):
    """The folder of two tiny models, image-s5 and text-s5."""
    return toy_experiments.make_zoo(tmp_path, monkeypatch)
