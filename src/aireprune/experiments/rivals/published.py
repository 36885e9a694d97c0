"""What the rivals' papers report, as printed there. None of it was run here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A published method. citation: who, where, which figures. setting: their model, in words.

    sizes: states of each of their layers, if the comparison is about a model of that size. rows: accuracies in %, one for
    every share of the comparison. full: that of their model as it was, where it is known.
    """

    title: str
    citation: str
    setting: str
    sizes: tuple[int, ...] = ()
    rows: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    full: float | None = None


HSVR = Rival(
    title="Hankel singular values regularised in training (HSVR)",
    citation="P. Schwerdtner, J. Berman, B. Peherstorfer: Hankel Singular Value Regularization for Highly Compressible "
    "State Space Models, NeurIPS 2025, arXiv:2510.22951",
    setting="sequential MNIST, 4 layers of 128 states (64 rotations of the plane each), balanced truncation after training",
    sizes=(64, 64, 64, 64),
    rows={
        "with the regulariser in training": (99.50, 99.47, 92.73),
        "without the regulariser": (66.68, 44.57, 20.75),
    },
)

COMPRESSM = Rival(
    title="States removed while training (CompreSSM)",
    citation="M. Chahine, P. Nazari, D. Rus, T. K. Rusch: The Curious Case of In-Training Compression of State Space "
    "Models, ICLR 2026, arXiv:2510.02823",
    setting="sequential MNIST, an LRU of 256 states, reduced by balanced truncation in the course of training "
    "(97.3 % without reduction)",
    rows={"reduced in training": (96.9, 96.9, 95.9)},
    full=97.3,
)

GHOST = Rival(
    title="Mamba-2: states dropped by measured energy (GHOST)",
    citation="M. Menezes, A. Kyrillidis: GHOST: Unmasking Phantom States in Mamba2 via Grouped Hidden-state Output-aware "
    "Selection & Truncation, arXiv:2602.11408",
    setting="language models of 130M to 2.7B parameters, half of the states for about one point of perplexity on "
    "WikiText-2: no figure that could stand beside digits, so the idea is run here instead",
)
