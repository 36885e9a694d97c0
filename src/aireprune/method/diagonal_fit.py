"""A diagonal layer in place of one that has no usable eigenbasis (docs/method.md section 1.6).

x_k = A x_{k-1} + B u_k, y_k = C x_k with a real matrix A that is defective, or so nearly that its modes would cancel each
other by more digits than a checkpoint has. A diagonal layer of the same size then is not this layer, but it can be
very close to it. Candidates for its poles are the eigenvalues of

    A_r + eta (1 - rho) E

where A_r are the leading r balanced states, from which what single precision could not hold anyway is cut off, rho the
spectral radius of A, and E a fixed random matrix: a perturbation that parts poles which coincide, a k-fold one by about
the k-th root of eta. Each candidate gets the readout that is closest to the layer's impulse response K,

    minimise  |K - K~|^2 + 4 eps^2 sum_j |c_j|^2 |x_j|^2          x_j = the impulse response of mode j

in which the second term is what rounding the readout to the precision eps of the checkpoint adds. The candidate whose
stored numbers are closest to K wins. Its poles are not moved any further: other candidates gained more than that did.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aireprune.method.gramians import controllability
from aireprune.method.reductions.balancing import psd_factor
from aireprune.method.reductions.diagonal import Realization, diagonalize, put, silent_like
from aireprune.method.system import ModalSystem
from aireprune.method.threads import single_threaded

Stored = Callable[
    [ModalSystem, np.ndarray], ModalSystem
]  # systems, of which members -> what a checkpoint holds of them

CUTS = (0, 1, 2, 3, 4, 6, 8)  # balanced states that are left out, counted from the numerical rank
SPREADS = (1e-6, 1e-5, 1e-4, 1e-3)  # eta
GOOD = 1e-4  # relative error with which a system is done
RANK = 1e-9  # Hankel singular values below this part of the largest are beyond single precision
FADED = 1e-9  # of its beginning: from where on an impulse response need not be looked at
LONGEST = 2**15  # time steps that are looked at one by one; what follows is summed in closed form
BLOCK = 128
CHUNK = 32  # systems at a time
DOUBLINGS = 60
FASTEST, SLOWEST = -20.0, -1e-9  # log radius of the poles that are used


@dataclass(frozen=True)
class DiagonalFit:
    """Diagonal systems, as they are stored, in place of m given ones, and their squared H2 error."""

    system: ModalSystem  # (m, modes)
    energy: np.ndarray  # (m,) of the given systems
    error_energy: np.ndarray  # (m,)

    @property
    def relative_errors(self) -> np.ndarray:
        """Of every system by itself. (m,)"""
        return np.sqrt(self.error_energy / np.where(self.energy > 0, self.energy, 1))


@single_threaded
def fit_diagonal(real: Realization, modes: int, stored: Stored, eps: float) -> DiagonalFit:
    """Diagonal systems with at most `modes` stored conjugate pairs. real: m stable systems with one input.

    stored: what the checkpoint would hold of given systems (m', n), which belong to the members (m',); eps: its
    precision. Two directions are fitted as if they were further outputs.
    """
    count, _, size = real.b.shape[0], *real.a.shape[-2:]
    directions, outputs = real.c.shape[1:3]
    out = DiagonalFit(
        silent_like(ModalSystem(*_empty(count, directions, outputs)), min(modes, size)),
        np.zeros(count),
        np.zeros(count),
    )

    def fill(start: int) -> None:
        members = np.arange(start, min(start + CHUNK, count))
        part = _Fitting(real.leading(members, size), modes, lambda system, of: stored(system, members[of]), eps)
        part.run()
        put(out.system, members, part.best)
        out.energy[members], out.error_energy[members] = part.response.energy, part.error

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, count, CHUNK)))
    return out


def _empty(count: int, directions: int, outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    poles = np.zeros((count, 0))
    return poles, poles, np.zeros((count, 0, 1)), np.zeros((count, directions, outputs, 0))


class _Response:
    """The impulse response K (m, q, T) of systems, q = directions x outputs, and the system that goes on after T steps."""

    def __init__(self, real: Realization):
        self.a, self.c = real.a, real.c.reshape(len(real.a), -1, real.a.shape[-1])
        self.observability = _gramian(_transpose(self.a), _transpose(self.c))
        self.radius = np.abs(np.linalg.eigvals(self.a)).max(-1, initial=0.0)
        slowest = min(float(self.radius.max(initial=0.0)), 1 - 1e-12)
        wanted = 1 if slowest <= 0 else np.log(FADED) / np.log(slowest)
        self.blocks = int(min(max(1, np.ceil(wanted / BLOCK)), LONGEST // BLOCK))
        inside = [real.b]
        for _ in range(BLOCK - 1):
            inside.append(self.a @ inside[-1])
        states = np.concatenate(inside, -1)  # (m, n, BLOCK)
        leap, rows, parts = np.linalg.matrix_power(self.a, BLOCK), self.c, []
        for _ in range(self.blocks):
            parts.append(rows @ states)
            rows = rows @ leap
        self.values = np.stack(parts, 2)  # (m, q, blocks, BLOCK)
        self.last = self.a @ states[..., -1:]
        for _ in range(self.blocks - 1):
            self.last = leap @ self.last
        self.rest = np.maximum((_transpose(self.last) @ self.observability @ self.last)[:, 0, 0], 0)
        self.energy = (self.values**2).sum((1, 2, 3)) + self.rest
        self.goes_on = bool((self.rest > FADED**2 * self.energy).any())

    def onto(self, lam: np.ndarray, members: np.ndarray) -> np.ndarray:
        """sum_k K_k lam^k over all k, for poles (m', n). (m', q, n) complex"""
        inside, leaps = self._powers(lam)
        total = ((self.values[members] @ _transpose(inside)[:, None]) * leaps[:, None]).sum(2)
        if self.goes_on:
            total = total + (lam**BLOCK)[:, None] ** self.blocks * self._later(lam, members)
        return np.asarray(total)

    def error(self, system: ModalSystem, members: np.ndarray) -> np.ndarray:
        """Squared H2 distance to diagonal systems. (m',)"""
        gains = system.share * system.c * system.b[:, None, None, :, 0]
        gains = gains.reshape(len(members), -1, 1, system.modes)
        inside, leaps = self._powers(system.lam)
        kernel = ((gains * leaps[:, None]) @ inside[:, None]).real
        return np.asarray(((self.values[members] - kernel) ** 2).sum((1, 2, 3)) + self._later_error(system, members))

    def _powers(self, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """lam^k within a block (m', n, BLOCK), and at the beginning of every block (m', blocks, n)."""
        return lam[..., None] ** np.arange(BLOCK), (lam**BLOCK)[:, None] ** np.arange(self.blocks)[:, None]

    def _later_error(self, system: ModalSystem, members: np.ndarray) -> np.ndarray:
        """The same of what comes after T steps: the energies of both, minus twice their product."""
        later = system.with_c(
            system.c * np.exp(self.blocks * BLOCK * (system.log_radius + 1j * system.angle))[:, None, None]
        )
        readout = later.real_c().reshape(len(members), -1, 2 * system.modes)
        total = self.rest[members] + np.einsum("mqi,mij,mqj->m", readout, controllability(later), readout)
        if self.goes_on:
            gains = (system.share * later.c * system.b[:, None, None, :, 0]).reshape(len(members), -1, system.modes)
            total = total - 2 * (gains * self._later(system.lam, members)).real.sum((1, 2))
        return np.asarray(np.maximum(total, 0))

    def _later(self, lam: np.ndarray, members: np.ndarray) -> np.ndarray:
        """sum_k K_(T + k) lam^k, by doubling the number of terms. (m', q, n) complex"""
        a, power = self.a[members], lam
        total = np.broadcast_to(self.last[members], (*a.shape[:2], lam.shape[-1])) + 0j
        for _ in range(DOUBLINGS):
            more = (a @ total.real + 1j * (a @ total.imag)) * power[:, None]
            total = total + more
            if np.abs(more).max(initial=0) <= 1e-17 * np.abs(total).max(initial=0):
                break
            a, power = a @ a, power * power
        return np.asarray(self.c[members] @ total)


@dataclass
class _Fitting:
    """The search for one chunk of systems."""

    real: Realization
    modes: int
    stored: Stored
    eps: float

    def __post_init__(self) -> None:
        count, size = len(self.real.a), self.real.a.shape[-1]
        self.response = _Response(self.real)
        self.best = silent_like(ModalSystem(*_empty(count, *self.real.c.shape[1:3])), min(self.modes, size))
        self.error = self.response.energy.copy()  # of a layer that puts out nothing
        self.order = np.zeros(count, int)

    @cached_property
    def balanced(self) -> tuple[Realization, np.ndarray]:
        """The systems in balanced states, and how many of these are there numerically."""
        left, right = psd_factor(_gramian(self.real.a, self.real.b)), psd_factor(self.response.observability)
        u, s, vh = np.linalg.svd(_transpose(right) @ left)
        there = s > RANK * s[:, :1]
        scale = np.where(there, 1 / np.sqrt(np.where(there, s, 1)), 0)[:, None, :]
        t, w = left @ _transpose(vh) * scale, _transpose(right @ u * scale)
        return Realization(w @ self.real.a @ t, w @ self.real.b, self.real.c @ t[:, None]), there.sum(-1)

    def run(self) -> None:
        rank = self.balanced[1]
        for cut in CUTS:
            self._try(rank - cut, 0.0)
        for order in (rank, self.order.copy()):
            for spread in SPREADS:
                self._try(order, spread)

    def _try(self, orders: np.ndarray, spread: float) -> None:
        """Candidates with so many balanced states (m,); those of systems that are good already are left out."""
        open_ones = (orders > 0) & (self.error > GOOD**2 * self.response.energy)
        for order in np.unique(orders[open_ones]):
            members = np.flatnonzero(open_ones & (orders == order))
            small = self.balanced[0].leading(members, int(order))
            noise = np.random.default_rng(0).standard_normal((order, order)) / np.sqrt(order)
            gap = spread * (1 - np.minimum(self.response.radius[members], 1))
            parted, count, _ = diagonalize(Realization(small.a + gap[:, None, None] * noise, small.b, small.c), True)
            fits = count <= self.modes
            self._judge(parted.member(fits), members[fits], int(order))

    def _judge(self, system: ModalSystem, members: np.ndarray, order: int) -> None:
        """Give the poles their readout, and keep what is closer than what was found before."""
        if not len(members):
            return
        candidate = self.stored(self._readout(system, members), members)
        sound = (candidate.log_radius < 0).all(-1) & np.isfinite(candidate.c).all((1, 2, 3))
        candidate, members = candidate.member(sound), members[sound]
        error = self.response.error(candidate, members)
        better = error < self.error[members]
        won = members[better]
        put(self.best, won, silent_like(candidate.member(better), self.best.modes))
        put(self.best, won, candidate.member(better))
        self.error[won], self.order[won] = error[better], order

    def _readout(self, system: ModalSystem, members: np.ndarray) -> ModalSystem:
        """The poles of a system, reflected where they do not decay, with B = 1 and the closest readout."""
        there = system.audible()
        radius = np.where(there, np.clip(-np.abs(system.log_radius), FASTEST, SLOWEST), system.log_radius)
        plain = ModalSystem(radius, system.angle, there[..., None].astype(complex), np.zeros_like(system.c), True)
        onto = self.response.onto(plain.lam, members) * there[:, None]
        side, gram = np.concatenate([onto.real, onto.imag], -1), controllability(plain)
        norm = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
        inverse = np.where(norm > 0, 1 / np.where(norm > 0, norm, 1), 0)
        values, vectors = np.linalg.eigh(gram * inverse[:, :, None] * inverse[:, None, :])
        weights = 1 / (np.maximum(values, 0) + 4 * self.eps**2)
        solved = (((side * inverse[:, None]) @ vectors) * weights[:, None]) @ _transpose(vectors) * inverse[:, None]
        return plain.with_c(plain.from_real_c(solved).reshape(system.c.shape))


def _gramian(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sum_k A^k B B' A'^k by doubling the number of terms. (m, n, n)"""
    total = b @ _transpose(b)
    for _ in range(DOUBLINGS):
        more = a @ total @ _transpose(a)
        total = total + more
        if np.abs(more).max(initial=0) <= 1e-17 * np.abs(total).max(initial=0):
            break
        a = a @ a
    return np.asarray((total + _transpose(total)) / 2)


def _transpose(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)
