"""A diagonal discrete-time layer with its full gains, in every storage convention (docs/method.md section 1).

    x_k = lam x_{k-1} + b u_k ,   y_k = s Re(c x_k) ,   s = 2 for stored conjugate halves, 1 for a full spectrum

n modes, h inputs, o outputs, d directions (2: the same lam and b also run backwards in time, with a readout of their
own, and both outputs are added). Leading batch axes hold independent systems, e.g. the channels of S4D.

Since s Re(c x) = (s/2)(c x + conj(c) conj(x)), both conventions are one real system with 2n real states. It is
written in two bases: with the conjugates written out (`full`), and with the real states (Re x, Im x) (`real_b`,
`real_c`, `advance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aireprune.errors import AireError

SILENT = -1.0  # log radius of the modes that fill up a ragged batch; their gains are zero


class WrittenOut(NamedTuple):
    """Every mode followed by every conjugate: y = C x is real and exact."""

    log_radius: np.ndarray  # (*batch, 2n)
    angle: np.ndarray  # (*batch, 2n)
    b: np.ndarray  # (*batch, 2n, h)
    c: np.ndarray  # (*batch, d, o, 2n)


@dataclass(frozen=True)
class ModalSystem:
    """Poles exp(log_radius + i angle), discretised input rows b, readout columns c per direction."""

    log_radius: np.ndarray  # (*batch, n)
    angle: np.ndarray  # (*batch, n)
    b: np.ndarray  # (*batch, n, h)
    c: np.ndarray  # (*batch, d, o, n)
    conj: bool = True  # one stored mode stands for a conjugate pair, y = 2 Re(c x); otherwise y = Re(c x)

    def __post_init__(self) -> None:
        for name, kind in (
            ("log_radius", np.float64),
            ("angle", np.float64),
            ("b", np.complex128),
            ("c", np.complex128),
        ):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        shape = self.log_radius.shape
        fits = (
            len(shape) >= 1
            and self.angle.shape == shape
            and self.b.ndim == len(shape) + 1
            and self.b.shape[:-1] == shape
            and self.c.ndim == len(shape) + 2
            and self.c.shape[:-3] + self.c.shape[-1:] == shape
            and self.c.shape[-3] in (1, 2)
        )
        if not fits:
            raise ValueError(
                f"Shapes {shape}, {self.angle.shape}, {self.b.shape}, {self.c.shape} do not make a system."
            )

    @property
    def batch(self) -> tuple[int, ...]:
        return self.log_radius.shape[:-1]

    @property
    def modes(self) -> int:
        return int(self.log_radius.shape[-1])

    @property
    def inputs(self) -> int:
        return int(self.b.shape[-1])

    @property
    def outputs(self) -> int:
        return int(self.c.shape[-2])

    @property
    def directions(self) -> int:
        return int(self.c.shape[-3])

    @property
    def lam(self) -> np.ndarray:
        """The discrete poles. (*batch, n)"""
        return np.exp(self.log_radius + 1j * self.angle)

    @property
    def share(self) -> float:
        """s in y = s Re(c x)."""
        return 2.0 if self.conj else 1.0

    @property
    def stable(self) -> bool:
        return bool((self.log_radius < 0).all())

    def require_stable(self) -> None:
        if not self.stable:
            worst = float(np.exp(self.log_radius.max()))
            raise AireError(
                f"A pole with |lambda| = {worst:.12g} does not decay, so the layer has no finite energy. "
                "Take unstable states out first, or give a horizon."
            )

    def full(self) -> WrittenOut:
        """The stored conjugates written out: y = C x, with the columns (s/2) c and (s/2) conj(c)."""
        c = self.c * (self.share / 2)
        return WrittenOut(
            np.concatenate([self.log_radius, self.log_radius], -1),
            np.concatenate([self.angle, -self.angle], -1),
            np.concatenate([self.b, self.b.conj()], -2),
            np.concatenate([c, c.conj()], -1),
        )

    def real_b(self) -> np.ndarray:
        """Input matrix of the real states (Re x, Im x). (*batch, 2n, h)"""
        return np.concatenate([self.b.real, self.b.imag], -2)

    def real_c(self) -> np.ndarray:
        """Readout of the real states: s Re(c x) = s Re(c) Re(x) - s Im(c) Im(x). (*batch, d, o, 2n)"""
        return self.share * np.concatenate([self.c.real, -self.c.imag], -1)

    def from_real_c(self, readout: np.ndarray) -> np.ndarray:
        """The stored c whose `real_c` is the given readout."""
        half = readout.shape[-1] // 2
        c: np.ndarray = (readout[..., :half] - 1j * readout[..., half:]) / self.share
        return c

    def advance(self, states: np.ndarray) -> np.ndarray:
        """One step without input of real states (*batch, 2n, m), in columns: lam = p + iq acts as [[p, -q], [q, p]]."""
        lam = self.lam[..., None]
        re, im = states[..., : self.modes, :], states[..., self.modes :, :]
        return np.concatenate([lam.real * re - lam.imag * im, lam.imag * re + lam.real * im], -2)

    def kernel(self, length: int) -> np.ndarray:
        """Impulse response s Re(c lam^k b) for k = 0..length-1, each direction by itself. (*batch, d, length, o, h)

        A bidirectional layer answers with kernel 0 to the future, kernel 1 to the past, and their sum at lag 0.
        """
        powers = np.exp(
            np.arange(length)[:, None] * (self.log_radius + 1j * self.angle)[..., None, :]
        )  # (*batch, k, n)
        weighted = self.c[..., None, :, :] * powers[..., None, :, None, :]
        response: np.ndarray = self.share * (weighted @ self.b[..., None, None, :, :]).real
        return response

    def frequency_response(self, omega: np.ndarray, stacked: bool = False) -> np.ndarray:
        """G(e^{iw}) = C diag(phi(w)) B of the layer at frequencies (F,) or (*batch, F), as (*batch, F, o, h).

        Two directions add up to the true operator G1(e^{iw}) + G2(e^{-iw}); stacked, they are 2o causal outputs.
        """
        c, b = self.gains(stacked)
        phi = self.resolvents(omega, stacked)
        response: np.ndarray = (c[..., None, :, :] * phi[..., None, :]) @ b[..., None, :, :]
        return response

    def gains(self, stacked: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """C (*batch, o, N) and B (*batch, N, h) of the frequency response; N = 2n, or 4n if two directions add up."""
        full = self.full()
        if stacked or self.directions == 1:
            return full.c.reshape(*self.batch, self.directions * self.outputs, 2 * self.modes), full.b
        return np.concatenate([full.c[..., 0, :, :], full.c[..., 1, :, :]], -1), np.concatenate([full.b, full.b], -2)

    def resolvents(self, omega: np.ndarray, stacked: bool = False) -> np.ndarray:
        """phi(w) of the frequency response. (*batch, F, N)"""
        phi = self.resolvent(omega)
        if stacked or self.directions == 1:
            return phi
        swapped = np.concatenate([phi[..., self.modes :], phi[..., : self.modes]], -1)
        return np.concatenate([phi, swapped.conj()], -1)  # 1/(1 - lam e^{iw}) = conj(1/(1 - conj(lam) e^{-iw}))

    def resolvent(self, omega: np.ndarray) -> np.ndarray:
        """1/(1 - lam e^{-iw}) of the modes and their conjugates, accurate next to the pole. (*batch, F, 2n)"""
        omega = np.asarray(omega, dtype=np.float64)[..., :, None]
        radius, angle = self.log_radius[..., None, :], self.angle[..., None, :]
        gap = np.concatenate([one_minus_exp(radius, angle - omega), one_minus_exp(radius, -angle - omega)], -1)
        return 1 / gap

    def with_c(self, c: np.ndarray) -> ModalSystem:
        return replace(self, c=c)

    def take(self, index: np.ndarray) -> ModalSystem:
        """The modes of an index array or mask, the same for the whole batch."""
        return ModalSystem(
            self.log_radius[..., index], self.angle[..., index], self.b[..., index, :], self.c[..., index], self.conj
        )

    def member(self, index: int | slice | np.ndarray) -> ModalSystem:
        """Part of the first batch axis."""
        return ModalSystem(self.log_radius[index], self.angle[index], self.b[index], self.c[index], self.conj)

    def gather(self, kept: np.ndarray) -> ModalSystem:
        """The modes marked in kept (*batch, n), first ones first; ragged batches are filled up with silent modes."""
        size = int(kept.sum(-1).max(initial=0))
        index = np.argsort(~kept, axis=-1, kind="stable")[..., :size]
        valid = np.take_along_axis(kept, index, -1)
        return ModalSystem(
            np.where(valid, np.take_along_axis(self.log_radius, index, -1), SILENT),
            np.where(valid, np.take_along_axis(self.angle, index, -1), 0.0),
            np.where(valid[..., None], np.take_along_axis(self.b, index[..., None], -2), 0.0),
            np.where(valid[..., None, None, :], np.take_along_axis(self.c, index[..., None, None, :], -1), 0.0),
            self.conj,
        )

    def audible(self) -> np.ndarray:
        """Modes that have an input and a readout. (*batch, n) of bool"""
        there: np.ndarray = (self.b != 0).any(-1) & (self.c != 0).any((-3, -2))
        return there


def one_minus_exp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """1 - exp(x + iy) without cancellation: 1 - e^x cos y = 2 sin^2(y/2) - expm1(x) cos y."""
    half = y / 2
    sine, growth = np.sin(half), np.expm1(x)
    lifted = 2 * sine * sine
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), dtype=np.complex128)
    out.real = lifted - growth * (1 - lifted)
    out.imag = -2 * (1 + growth) * sine * np.cos(half)
    return out


def concatenate(systems: Sequence[ModalSystem]) -> ModalSystem:
    """The systems in parallel, their outputs added. Readouts are rescaled to the first one's storage convention."""
    first = systems[0]
    return ModalSystem(
        np.concatenate([system.log_radius for system in systems], -1),
        np.concatenate([system.angle for system in systems], -1),
        np.concatenate([system.b for system in systems], -2),
        np.concatenate([system.c * (system.share / first.share) for system in systems], -1),
        first.conj,
    )


def difference(full: ModalSystem, reduced: ModalSystem) -> ModalSystem:
    """The error system full - reduced."""
    return concatenate([full, reduced.with_c(-reduced.c)])
