"""`balanced`: square-root balanced truncation that stays diagonal (docs/method.md section 5; Antoulas 2005, section 7.3).

The leading r balanced states are diagonalised again. Their matrix A_r is real, so its poles are real or come in exact
conjugate pairs: a pair is stored as one mode, a real pole as one mode with half the readout (its own conjugate is the
other half). The discrete-time bound |G - G_r|_inf <= 2 (S_{r+1} + ... ) (Hinrichsen and Pritchard 1990) holds for the
closed-form P and Q without horizon, with the directions stacked.

Stability. W' = S^-1 T'Q, so the projection is orthogonal in the norm of Q, in which A is a contraction: A'QA = Q - C'C.
Hence A_r is stable for every P, measured or not, as long as Q is the closed-form one. Only a horizon-limited Q may
give unstable poles.

Safeguards, each reported in `notes`: states whose S is rounding error are never kept. Poles on or outside the unit
circle are reflected and the readout is refitted. Where modes are nearly dependent the order is lowered. If that does
not help, or the exact error is above what was promised, the modes with the highest [energy] stay, with a refitted
readout.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from aireprune.method.gramians import controllability, energy, energy_under, state_energies
from aireprune.method.reductions.balancing import RANK, balance, chunks, flatten, reshape
from aireprune.method.reductions.base import Reduction
from aireprune.method.reductions.diagonal import MAX_CONDITION, diagonalize, put, silent_like
from aireprune.method.reductions.refit import readout_for, refit_readout
from aireprune.method.system import ModalSystem, difference
from aireprune.method.threads import single_threaded

ATTEMPTS = 32  # how often an order may be lowered
LARGE = 256  # states, from where another attempt costs more than the one state that it may save
ROUNDING = 1e-8
STABLE = -1e-6  # log radius given to a reflected pole when the full layer itself has none that is stable


@single_threaded
def balanced(
    system: ModalSystem,
    modes: int | np.ndarray,
    covariance: np.ndarray | None = None,
    horizon: int | None = None,
) -> Reduction:
    """Reduce every system of the batch to at most `modes` stored modes (one number, or one per system).

    covariance: measured balancing, E of (Re x, Im x) under real inputs, (*batch, 2n, 2n), in place of P.
    horizon: horizon-limited P and Q; errors are then those within the horizon too.
    """
    flat = flatten(system)
    count = len(flat.log_radius)
    wanted = np.minimum(np.broadcast_to(np.asarray(modes, dtype=int), system.batch).reshape(count), system.modes)
    if (wanted < 0).any():
        raise ValueError("A number of modes to keep is negative.")
    out = _Outcome(
        silent_like(flat, int(wanted.max(initial=0))),
        order=np.zeros(count, int),
        hankel=np.zeros((count, 2 * system.modes)),
        tail=np.zeros(count),
        error=np.zeros(count),
    )

    def fill(part: slice) -> None:
        given = None if covariance is None else covariance.reshape(count, *covariance.shape[-2:])[part]
        _Balancing(flat, np.arange(count)[part], wanted, given, horizon, out).run()

    if system.modes:
        with ThreadPoolExecutor() as pool:
            list(pool.map(fill, chunks(flat)))
    small = reshape(out.system, system.batch)
    error = difference(system, small)
    error.c[out.order.reshape(system.batch) == system.modes] = 0  # the same modes, not merely equal ones
    return Reduction(
        method="balanced",
        system=small,
        error=error,
        order=out.order.reshape(system.batch),
        kept=None,
        energy=energy(system, horizon),
        error_energy=out.error.reshape(system.batch),
        hankel=out.hankel.reshape(*system.batch, 2 * system.modes),
        tail=out.tail.reshape(system.batch) if covariance is None and horizon is None else None,
        notes=out.notes(count),
    )


@dataclass
class _Outcome:
    """Filled in chunk by chunk; arrays over all systems."""

    system: ModalSystem
    order: np.ndarray
    hankel: np.ndarray
    tail: np.ndarray
    error: np.ndarray
    events: list[tuple[str, int]] = field(default_factory=list)  # what happened, in how many systems

    def notes(self, count: int) -> tuple[str, ...]:
        totals: Counter[str] = Counter()
        for what, systems in self.events:
            totals[what] += systems
        return tuple(f"{what} ({totals[what]} of {count} systems)" for what in sorted(totals))


@dataclass
class _Balancing:
    """The reduction of some members of a batch."""

    full: ModalSystem
    members: np.ndarray
    wanted: np.ndarray
    covariance: np.ndarray | None
    horizon: int | None
    out: _Outcome

    def __post_init__(self) -> None:
        self.reflected = np.zeros(len(self.members), bool)  # these are no longer what the bound is about
        self.condition = np.ones(len(self.members))  # of the worst pole

    def run(self) -> None:
        members, out = self.members, self.out
        part, wanted = self.full.member(members), self.wanted[members]
        whole = wanted == self.full.modes  # nothing to reduce: the modes stay as they are
        put(out.system, members[whole], part.member(whole))
        out.order[members[whole]] = self.full.modes
        hankel, real = balance(part, 2 * int(wanted.max(initial=0)), self.covariance, self.horizon)
        rank = (hankel > RANK * hankel[:, :1]).sum(-1)
        states = np.minimum(2 * wanted, rank)
        pending = np.flatnonzero(~whole & (states > 0))
        for _ in range(ATTEMPTS):
            refused = []
            for size in np.unique(states[pending]):
                group = pending[states[pending] == size]
                small, stored, condition = diagonalize(real.leading(group, int(size)), self.full.conj)
                excess = stored - wanted[group]
                accepted = (excess <= 0) & (condition <= MAX_CONDITION)
                self._note("modes nearly dependent, order lowered", (excess <= 0) & ~accepted)
                self.condition[group] = condition
                self._accept(group[accepted], small.member(accepted), stored[accepted])
                bad = group[~accepted]
                states[bad] -= np.maximum(excess[~accepted], 1) * (1 if size <= LARGE else 2)
                refused.append(bad[states[bad] > 0])
            pending = np.concatenate(refused) if refused else pending[:0]
            if not len(pending):
                break
        out.hankel[members] = hankel
        dropped = np.arange(hankel.shape[-1]) >= states[:, None]
        out.tail[members] = np.where(whole, 0.0, 2 * (hankel * dropped).sum(-1) + self._rounding(part) * hankel[:, 0])
        out.tail[members[self.reflected]] = np.inf
        self._verify(part, whole, pending)

    def _rounding(self, part: ModalSystem) -> np.ndarray:
        """What rounding may add to the error, in units of S_1.

        Gramians hold half the digits of S; a pole that is off by eps times its condition changes a peak of width
        1 - |lam| by their quotient.
        """
        slowest = part.log_radius.max(-1)
        margin = np.where(slowest < 0, -np.expm1(slowest), 1.0)
        return np.asarray(ROUNDING + 32 * np.finfo(float).eps * self.condition / margin)

    def _accept(self, group: np.ndarray, small: ModalSystem, stored: np.ndarray) -> None:
        unstable: np.ndarray = np.asarray((small.log_radius >= 0).any(-1))
        if unstable.any():
            self._note("unstable poles reflected and the readout refitted", unstable)
            full = self.full.member(self.members[group[unstable]])
            slowest = np.where(full.log_radius < 0, full.log_radius, -np.inf).max(-1, keepdims=True)
            slowest = np.where(np.isfinite(slowest), slowest, STABLE)
            poles = small.log_radius[unstable]
            small.log_radius[unstable] = np.where(poles >= 0, np.minimum(-poles, slowest), poles)
            small.c[unstable] = readout_for(full, small.member(unstable), self.horizon).c
            self.reflected[group[unstable]] = True
        put(self.out.system, self.members[group], small)
        self.out.order[self.members[group]] = stored

    def _verify(self, part: ModalSystem, whole: np.ndarray, failed: np.ndarray) -> None:
        """Exact errors; systems that miss what was promised fall back."""
        error = difference(part, self.out.system.member(self.members))
        p = controllability(error, self.horizon)
        self.out.error[self.members] = np.where(whole, 0.0, energy_under(error, p))
        stacked = energy_under(error, p, stacked=True)
        # without a bound, it must at least not be (much) worse than no layer at all
        allowed = energy(part, self.horizon, stacked=True) * (1 if self.covariance is None else 4)
        if self.covariance is None and self.horizon is None:  # |E|_2^2 <= min(inputs, outputs) |E|_inf^2
            tail = self.out.tail[self.members]
            promised = min(part.inputs, part.directions * part.outputs) * tail**2
            allowed = np.where(np.isfinite(tail), promised, allowed)
        parts = np.sqrt((error.real_c() ** 2).sum((1, 2)) * np.diagonal(p, axis1=1, axis2=2)).sum(-1)
        rounding = 8 * np.finfo(float).eps * parts**2  # of the sum of products that `stacked` is
        broken = ~whole & ~(stacked <= allowed * (1 + 1e-6) + rounding)
        broken[failed] = True
        self._note("balancing failed, strongest modes kept with a refitted readout", broken)
        for i in np.flatnonzero(broken):
            self._fall_back(int(self.members[i]))

    def _fall_back(self, i: int) -> None:
        full = self.full.member(slice(i, i + 1))
        mask = np.zeros(full.log_radius.shape, bool)
        with np.errstate(divide="ignore", invalid="ignore"):  # unstable modes, which go first
            scores = np.where(full.log_radius < 0, state_energies(full, self.horizon), np.inf)
        mask[0, np.argsort(-scores[0], kind="stable")[: self.wanted[i]]] = True
        c = refit_readout(full, mask, horizon=self.horizon)
        put(self.out.system, np.array([i]), silent_like(full, self.out.system.modes))
        put(self.out.system, np.array([i]), full.with_c(c).gather(mask))
        self.out.order[i], self.out.tail[i] = self.wanted[i], np.inf
        self.out.error[i] = energy(full.with_c(full.c - c), self.horizon)[0]

    def _note(self, what: str, which: np.ndarray) -> None:
        if which.any():
            self.out.events.append((what, int(which.sum())))
