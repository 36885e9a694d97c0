"""What a model is trained and judged on: three splits of stored arrays, and how they become a model's inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.folders import data_folder
from aireprune.tasks.augment import Augment

VALIDATION_SEED = 20260
BYTES = 256  # different tokens of a task or model of bytes

Decode = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Split:
    """Examples as they are stored: small integers, decoded only when a batch is asked for.

    x: (N, L) or (N, L, d) values, (N, L) tokens, or (N, 2, L) pairs of documents. y: classes (N,), or for a language
    model the next token at every step (N, L). lengths: valid steps, (N,) or (N, 2) for pairs; None when all are.
    """

    x: np.ndarray
    y: np.ndarray
    lengths: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, chosen: np.ndarray | slice) -> Split:
        """The chosen examples alone."""
        return Split(self.x[chosen], self.y[chosen], None if self.lengths is None else self.lengths[chosen])


@dataclass(frozen=True)
class Batch:
    """What model(x, lengths) takes, and the answers y. Pairs: first documents first, (2n, L)."""

    x: np.ndarray
    y: np.ndarray
    lengths: np.ndarray | None


@dataclass(frozen=True)
class Task:
    """A data set in three splits.

    length: steps (the most, when they vary). d_input: features of a step, or the number of different tokens. classes:
    outputs. decode: stored values to model inputs, float32 (n, L, d_input) or int64 tokens (n, L). step_rescale: how many
    steps of the task that models are trained on one step here lasts; a model runs with its step sizes times that.
    at_least: the numbers of tokens and classes are those that occur in the data, and a model may know more.
    bytes_per_token: of a language task, how much text a token stands for on average; None if that is not known. augment:
    variations of stored training values that keep their class; None if there are none.
    """

    name: str
    length: int
    d_input: int
    classes: int
    decode: Decode
    train: Split
    validation: Split
    test: Split
    step_rescale: float = field(default=1.0, kw_only=True)
    at_least: bool = field(default=False, kw_only=True)
    bytes_per_token: float | None = field(default=1.0, kw_only=True)
    augment: Augment | None = field(default=None, kw_only=True)

    @property
    def language(self) -> bool:
        """Asks for the next token at every step, and is judged by bits instead of accuracy."""
        return self.test.y.ndim == 2

    @property
    def takes_tokens(self) -> bool:
        """Inputs are whole numbers that stand for something, not measured values."""
        return self.decode is tokens

    @property
    def pairs(self) -> bool:
        return self.takes_tokens and self.test.x.ndim == 3

    @property
    def metric(self) -> str:
        if not self.language:
            return "accuracy"
        return "bits per token" if self.bytes_per_token is None else "bits per byte"

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Stored values -> model inputs."""
        return self.decode(np.concatenate([x[:, 0], x[:, 1]]) if self.pairs else x)

    def batch(self, split: Split) -> Batch:
        """The whole split as one batch (take some `rows` of it first)."""
        lengths = split.lengths.T.reshape(-1) if split.lengths is not None else None
        return Batch(self.inputs(split.x), split.y, None if lengths is None else lengths.astype(np.int64))

    def drop(self, full: float, value: float) -> float:
        """How much worse `value` is than `full`: points of accuracy, or per cent of the bits, both / 100."""
        return value / full - 1 if self.language else full - value


def tokens(x: np.ndarray) -> np.ndarray:
    """Token numbers as the models take them."""
    return x.astype(np.int64)


def normalised(length: int, mean: float | tuple[float, ...], std: float | tuple[float, ...]) -> Decode:
    """Grey or colour values (n, ...) of 0 to 255 -> (x / 255 - mean) / std, (n, length, d)."""
    centre, spread = np.atleast_1d(np.asarray(mean, np.float32)), np.atleast_1d(np.asarray(std, np.float32))

    def decode(x: np.ndarray) -> np.ndarray:
        values: np.ndarray = x.reshape(len(x), length, len(centre)).astype(np.float32) / np.float32(255)
        return (values - centre) / spread

    return decode


def lra(name: str) -> tuple[str, ...]:
    """Where a folder of the LRA release may be: people unpack it with or without its outer folders."""
    return (f"lra_release/{name}", f"lra_release/lra_release/{name}", name)


def locate(candidates: tuple[str, ...]) -> Path | None:
    """The first of the candidates (below the data folder) that exists."""
    return next((data_folder() / name for name in candidates if (data_folder() / name).exists()), None)


def find_data(task: str, candidates: tuple[str, ...], how: str) -> Path:
    """The same; when there is none, an error that says how to get one."""
    path = locate(candidates)
    if path is not None:
        return path
    looked = " or ".join(candidates)
    raise AireError(
        f"The {task} task looks in {data_folder()} (environment variable AIRE_DATA) for {looked}, which is not there. {how}"
    )


def hold_out(split: Split, count: int, seed: int = VALIDATION_SEED) -> tuple[Split, Split]:
    """(the rest, `count` examples chosen by the seed)."""
    order = np.random.default_rng(seed).permutation(len(split))
    return split.rows(order[count:]), split.rows(order[:count])


def pad(texts: list[bytes], length: int) -> tuple[np.ndarray, np.ndarray]:
    """(bytes (N, length), lengths (N,)); an empty text becomes one space."""
    x, lengths = np.zeros((len(texts), length), np.uint8), np.empty(len(texts), np.int64)
    for row, data in enumerate(texts):
        part = data[:length] or b" "
        x[row, : len(part)] = np.frombuffer(part, np.uint8)
        lengths[row] = len(part)
    return x, lengths
