"""Which states stay: groups that keep equally many, what is unstable, and what a dead layer is said to hold."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.method.decision import check_stability, decide, energies, energy_share, is_dead
from aireprune.method.selection import Budget, Rule
from aireprune.method.states import LayerStates


def layer(n, scale=1.0, groups=1, seed=0):
    rng = np.random.default_rng(seed)
    return LayerStates(
        "mixer", -rng.uniform(0.1, 1, (n, 2)), np.zeros((n, 2)), scale * rng.random((n, 2)),
        scale * rng.random((1, n, 2)), groups,
    )  # fmt: skip


def test_groups_keep_equally_many():
    states = layer(24, groups=3)
    (scores,) = energies([states])
    (kept,) = decide([states], [scores], Budget(ratio=0.6), Rule()).kept
    assert list(np.bincount(kept // 8)) == [3, 3, 3]
    for group in range(3):
        mine = kept[kept // 8 == group] % 8
        assert set(mine) == set(np.argsort(-scores.reshape(3, 8)[group])[:3])


def test_a_dead_layer_does_not_keep_everything():
    """Energies that underflow to zero used to be reported as 100 % kept."""
    (scores,) = energies([layer(6, scale=1e-170)])
    assert scores.sum() == 0
    assert energy_share(scores, np.array([0, 1])) == 0.0
    assert energy_share(scores, np.arange(6)) == 1.0
    assert is_dead(scores)
    assert is_dead(energies([layer(6, scale=1e-40)])[0])
    assert not is_dead(energies([layer(6)])[0])


def test_unstable_states_are_refused_or_kept():
    states = layer(6)
    states.log_radius[2, 1] = 0.1
    with pytest.raises(Exception, match="mixer state 2"):
        check_stability([states], "refuse")
    check_stability([states], "keep")
    (scores,) = energies([states])
    assert np.isnan(scores[2])
    (kept,) = decide([states], [scores], Budget(ratio=0.8), Rule()).kept
    assert 2 in kept


def test_silent_states_are_not_counted_and_go_first():
    """Fillers of rows, masked states: half of the rest is half of the rest."""
    states = layer(12)
    states.b2[[1, 4, 7, 10]] = 0
    states.c2[:, [2, 5]] = 0
    assert states.silent.sum() == 6
    (scores,) = energies([states])
    (kept,) = decide([states], [scores], Budget(ratio=0.5), Rule()).kept
    assert len(kept) == 3
    assert not states.silent[kept].any()
    for rule in (Rule(prefix=False, scope="uniform"), Rule(same_size=True)):
        assert len(decide([states], [scores], Budget(ratio=0.5), rule).kept[0]) == 3
