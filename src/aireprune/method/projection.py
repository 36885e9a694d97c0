"""Fewer states for layers whose states share their decay (Mamba-2), from what their gates do on data.

Within a group h_t = a_t h_{t-1} + B_t (Delta_t x_t)' and y_t = C_t' h_t, and a_t is one number for all N coordinates of h.
So for any R and S (N, N') the gates R'B_t and S'C_t give the states R'h_t exactly, and the output C_t' S R' h_t. With
M = E[C_t C_t'] and P = E[h_t h_t'], measured, and C_t and h_t taken as independent, what is lost is

    E|C_t' (I - S R') h_t|^2 = tr( M (I - S R') P (I - S R')' )

which is least for the balanced coordinates of the pair (M, P):

    P = L_P L_P' ,  M = L_M L_M' ,  L_M' L_P = U S V'        R = L_M U S^-1/2 ,  S = L_P V S^-1/2 ,  R'S = I

The loss is then the sum of the squared singular values that are left out, and the new gates and states have the same
covariance S. Moments are arrays (2, G, N, N), M and P of every group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aireprune.method.reductions.balancing import RANK, psd_factor
from aireprune.method.threads import single_threaded


@dataclass(frozen=True)
class Projection:
    """What makes new gates of the old ones: b and c (G, N', N), the rows of R' and S'."""

    b: np.ndarray
    c: np.ndarray


@single_threaded
def projection_scores(moments: np.ndarray) -> np.ndarray:
    """The squared singular values of every group, descending: what each new state carries of E|y|^2. (G, N)"""
    readout, states = map(psd_factor, moments)
    return np.asarray(np.linalg.svd(_transpose(readout) @ states, compute_uv=False) ** 2)


@single_threaded
def project(moments: np.ndarray, size: int) -> Projection:
    """The projection onto `size` states per group that loses least. States without any part in the output are zero."""
    readout, states = map(psd_factor, moments)
    u, s, vh = np.linalg.svd(_transpose(readout) @ states)
    lead = s[:, :size]
    audible = lead > RANK * s[:, :1]
    scale = np.where(audible, 1 / np.sqrt(np.where(audible, lead, 1)), 0)[:, :, None]
    b = _transpose(readout @ u[:, :, :size]) * scale
    return Projection(b, _transpose(states @ _transpose(vh[:, :size])) * scale)


def _transpose(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)
