"""A diagonal plus low-rank layer of S4: its matrices, its modes, its transfer function.

The S4 repository's DPLR kernel has, per copy, A = diag(a) - P P* on the states and their conjugates together. In the
real coordinates (Re z, Im z) of the stored half z that is the real matrix

    M = [[Re a, -Im a], [Im a, Re a]] - 2 [Re P; Im P] [Re P, Im P]      (rank r: summed over r)

whose eigenvalues are the modes: conjugate pairs, stored by one of the two, and real poles, stored with half their C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aireprune.arrays import NamedArrays
from aireprune.families.base import Layer
from aireprune.families.s4d_parameters import SILENT_POLE, S4DOptions, as_complex, continuous_poles, steps
from aireprune.method.reductions.diagonal import Realization, eigen


@dataclass(frozen=True)
class DPLR:
    """S copies of (A, B) for H channels, of which channel v S + t uses copy t; o readouts, of d directions."""

    a: np.ndarray  # (S, N)
    p: np.ndarray  # (r, S, N)
    b: np.ndarray  # (S, N)
    c: np.ndarray  # (o, v, S, N), tuned to kernels of `length` steps if that is not 0: C (I - A^L)
    step: np.ndarray  # (v, S)
    length: int = 0
    directions: int = 1

    @classmethod
    def read(cls, layer: Layer[S4DOptions], arrays: NamedArrays) -> DPLR:
        read = {role: layer.read(arrays, role) for role in layer.arrays}
        a = continuous_poles(read["A_real"], read["A_imag"], layer.options)
        p, b, c = (as_complex(read[role]) for role in ("P", "B", "C"))
        step = steps(read["inv_dt"][:, 0], layer.options).reshape(-1, len(a))
        length = int(read.get("l_kernel", np.zeros(())))
        return cls(a, p, b[0], c.reshape(len(c), -1, *a.shape), step, length, layer.options.directions)

    @property
    def channels(self) -> int:
        return int(self.step.size)

    def matrices(self) -> np.ndarray:
        """M of every copy. (S, 2N, 2N)"""
        low = np.concatenate([self.p.real, self.p.imag], axis=-1)  # (r, S, 2N)
        re, im = _diagonal(self.a.real), _diagonal(self.a.imag)
        full = np.concatenate([np.concatenate([re, -im], -1), np.concatenate([im, re], -1)], -2)
        return np.asarray(full - 2 * np.einsum("rsi,rsj->sij", low, low))

    def realization(self, channels: np.ndarray) -> Realization:
        """Discretised channels (m,) in real coordinates, with the readout that is not tuned to a length."""
        copy = channels % len(self.a)
        half = self.step.reshape(-1)[channels][:, None, None] / 2
        m, b = self.matrices()[copy], np.concatenate([self.b.real, self.b.imag], axis=-1)[copy][..., None]
        unit = np.eye(m.shape[-1])
        back = np.linalg.inv(unit - half * m)
        a = back @ (unit + half * m)
        c = 2 * np.concatenate([self.c.real, -self.c.imag], axis=-1).reshape(len(self.c), self.channels, -1)
        c = np.moveaxis(c[:, channels], 0, 1)  # (m, o, 2N)
        if self.length:
            tuned = unit - np.linalg.matrix_power(a, self.length)
            c = np.swapaxes(np.linalg.solve(np.swapaxes(tuned, -1, -2), np.swapaxes(c, -1, -2)), -1, -2)
        return Realization(a, 2 * half * (back @ b), c.reshape(len(channels), self.directions, -1, c.shape[-1]))

    def modes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Poles (S, M) with Im <= 0, residues (o, v, S, M), and how badly conditioned the worst pole of a copy is (S,).

        y = 2 Re sum_j residue_j x_j with x driven by u itself (B = 1). Short rows are filled with silent modes.
        """
        value, vector, inverse, condition = eigen(self.matrices())
        drive = (inverse @ np.concatenate([self.b.real, self.b.imag], axis=-1)[..., None])[..., 0]
        gain = np.einsum("ovsn,snm->ovsm", 2 * np.concatenate([self.c.real, -self.c.imag], axis=-1), vector) * drive
        keep = value.imag <= 0
        width = int(keep.sum(axis=1).max())
        front = np.argsort(~keep, axis=1, kind="stable")[:, :width]
        there = np.take_along_axis(keep, front, axis=1)
        pole = np.where(there, np.take_along_axis(value, front, axis=1), -SILENT_POLE)
        share = np.where(pole.imag < 0, 1.0, 0.5) * there  # a real pole is stored with half its readout
        return pole, np.take_along_axis(gain, front[None, None], axis=-1) * share, condition

    def transfer(self, s: np.ndarray) -> np.ndarray:
        """C (s - A)^{-1} B with both halves, by Woodbury, at s (v, S, F). (o, v, S, F)"""
        q = self.p.conj()[:, None]
        cb, cp = self._resolvent(self.c, self.b[None], s)[:, 0], self._resolvent(self.c, self.p, s)
        pb, pp = self._resolvent(q, self.b[None], s)[:, 0], self._resolvent(q, self.p, s)
        middle = np.moveaxis(pp, (0, 1), (-2, -1)) + np.eye(len(self.p))
        inner = np.linalg.solve(middle, np.moveaxis(pb, 0, -1)[..., None])[..., 0]
        return np.asarray(cb - np.einsum("orvsf,vsfr->ovsf", cp, inner))

    def _resolvent(self, left: np.ndarray, right: np.ndarray, s: np.ndarray) -> np.ndarray:
        """left (i, v or 1, S, N), right (j, S, N) -> (i, j, v, S, F): sum over both halves of left right / (s - a)."""
        out = np.zeros((len(left), len(right), *s.shape), complex)
        for n in range(self.a.shape[-1]):
            one, two = 1 / (s - self.a[:, n, None]), 1 / (s - self.a[:, n, None].conj())
            weight = left[:, None, :, :, n] * right[None, :, None, :, n]
            out += weight[..., None] * one + weight.conj()[..., None] * two
        return out


def _diagonal(rows: np.ndarray) -> np.ndarray:
    return rows[..., None] * np.eye(rows.shape[-1])
