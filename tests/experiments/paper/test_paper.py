"""The paper's figures, as printed."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.experiments.paper import paper


def test_paper_figures():
    assert paper.reported("s5", "aire", "text") == (80, 88.24)
    assert paper.reported("s4d", "aire", "retrieval") is None
    assert paper.reported("mamba", "last", "image") == (45, 69.13)
    ratios = [ratio for ratio, _ in paper.TABLE1["aire"].values()]
    assert np.mean(ratios[:6]) == pytest.approx(60.8, abs=0.05)  # the average over the six LRA tasks
