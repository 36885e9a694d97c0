"""Which states of a Mamba-2 layer can go as they are: the others stand in for them as far as they can.

Where B and C must stay what they are (a stock layout), states are dropped. With M = E[C_t C_t'] and P = E[h_t h_t'] of
a group, measured, and C_t and h_t taken as independent, the part of the output that the kept states K cannot give is

    loss(K) = tr( M (P - P[:,K] P[K,K]^-1 P[K,:]) )

States are taken out one by one, each time the one that adds least, and a state scores the loss at which it went. With
Q = P[K,K]^-1 and A = P[:,K] Q, taking out j adds A_j' M A_j / Q_jj, and leaves

    Q <- Q - Q_j Q_j' / Q_jj ,   A <- A - A_j Q_j' / Q_jj        without row and column j

so a group of N states takes N^3 operations in all.
"""

from __future__ import annotations

import numpy as np

from aireprune.method.threads import single_threaded

RIDGE = 1e-6  # of every variance: states that follow from others to more digits than that are the same


def energies(moments: np.ndarray) -> np.ndarray:
    """What each state puts out by itself, M_jj P_jj; moments (2, G, N, N) -> (G, N)."""
    m, p = np.diagonal(moments, axis1=-2, axis2=-1)
    return np.asarray(m * p)


@single_threaded
def elimination_losses(moments: np.ndarray) -> np.ndarray:
    """The loss at which each state is taken out; moments (2, G, N, N), M and P of every group -> (G, N)."""
    return np.stack([_losses(m, p) for m, p in zip(*moments, strict=True)])


def _losses(m: np.ndarray, p: np.ndarray) -> np.ndarray:
    losses = np.zeros(len(p))
    deviation = np.sqrt(np.maximum(np.diagonal(p), 0))
    there = list(np.flatnonzero(deviation > 0))  # states that are always 0 go first, at no loss
    scale = deviation[there]
    unit = p[np.ix_(there, there)] / np.outer(scale, scale)
    readout = m[np.ix_(there, there)] * np.outer(scale, scale)
    q, a = np.linalg.inv(unit + RIDGE * np.eye(len(there))), np.eye(len(there))
    heard = readout  # M A
    kept, loss = np.arange(len(there)), 0.0
    while len(kept):
        added = (a * heard).sum(0) / np.diagonal(q)
        j = int(np.argmin(added))
        loss += max(float(added[j]), 0.0)
        losses[there[kept[j]]] = loss
        stay = np.arange(len(kept)) != j
        row = q[j, stay] / q[j, j]
        a, heard = a[:, stay] - np.outer(a[:, j], row), heard[:, stay] - np.outer(heard[:, j], row)
        q = q[np.ix_(stay, stay)] - np.outer(q[stay, j], row)
        kept = kept[stay]
    return losses
