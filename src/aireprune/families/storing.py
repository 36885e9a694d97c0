"""What the families share when they write a system back into the arrays of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from aireprune.method.system import ModalSystem

TINY_ANGLE = 1e-30  # a real pole is stored with this angle, so that the sign of Im(pole) still says which half it is


def packed(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Complex values in the form of a stored array: complex, or real with a last axis (re, im)."""
    if np.iscomplexobj(like):
        return values.astype(like.dtype)
    return np.stack([values.real, values.imag], axis=-1).astype(like.dtype)


def rounded(values: np.ndarray, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values in the precision of a stored array, and what double precision reads back."""
    stored = values.astype(like.dtype)
    return stored, stored.astype(np.complex128 if np.iscomplexobj(stored) else np.float64)


def with_signs(system: ModalSystem, signs: np.ndarray) -> ModalSystem:
    """The same layer with arg(lam) of the given signs: Re(c x) does not change when a mode becomes its conjugate."""
    angle = np.angle(np.exp(1j * system.angle))
    flip = np.sign(angle) == -signs
    return replace(
        system,
        angle=signs * np.maximum(np.abs(angle), TINY_ANGLE),
        b=np.where(flip[..., None], system.b.conj(), system.b),
        c=np.where(flip[..., None, None, :], system.c.conj(), system.c),
    )


def is_bfloat16(arrays: Iterable[np.ndarray]) -> bool:
    """Whether arrays that were handed out as float32 hold bfloat16 numbers: the lower half of every one is empty."""
    return all(a.dtype == np.float32 and not (np.ascontiguousarray(a).view(np.uint32) & 0xFFFF).any() for a in arrays)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 numbers rounded as bfloat16 will hold them (to nearest, ties to even)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
