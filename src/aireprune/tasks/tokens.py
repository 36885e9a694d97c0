"""Text files as tokens: read with a model's own tokenizer or byte by byte, and cut into windows.

A file is UTF-8 text (`.xz` is unpacked), or a .npy array of token numbers: one stream (N,), or sequences (n, L).
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.errors import AireError
from aireprune.tasks.base import Split
from aireprune.tasks.language import read_bytes, windows
from aireprune.tasks.numpy_files import read_npy

WINDOW = 1024
CHARACTERS = 8  # per token: how much of a long text is tokenised at first
MARGIN = 64  # tokens before a cut, which may come out differently than in the whole text
FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")

Tokenizer = Any  # one of transformers
TokenizerLike = Tokenizer | str | Path | None  # None: every byte is a token


@dataclass(frozen=True)
class TokenText:
    """The tokens of a file.

    ids: int64 (N,), or (n, L) for sequences of their own. ends: (N,), the bytes of UTF-8 text up to the end of every
    token; None where a file holds numbers in place of text.
    """

    name: str
    ids: np.ndarray
    ends: np.ndarray | None = None

    def windows(self, window: int | None = None, count: int | None = None) -> np.ndarray:
        """The first `count` windows, (n, window). window: at most WINDOW, and what there is, if it is not given."""
        if self.ids.ndim == 2:
            return self._sequences(window)[:count]
        size = self._size(window, len(self.ids))
        rows: np.ndarray = self.ids[: len(self.ids) // size * size].reshape(-1, size)
        return rows[:count]

    def predictions(self, window: int | None = None, count: int | None = None) -> Split:
        """The same windows with the token that follows every step; every token but the first is asked for once.

        Sequences of their own end one step earlier.
        """
        if self.ids.ndim == 2:
            rows = self._sequences(window)[:count]
            return Split(rows[:, :-1], rows[:, 1:])
        return windows(self.ids, self._size(window, len(self.ids) - 1)).rows(slice(count))

    def bytes_of(self, asked: Split) -> int | None:
        """Bytes of the text that the predictions `asked` spell, if that is known."""
        return None if self.ends is None else int(self.ends[asked.y.size] - self.ends[0])

    def _size(self, window: int | None, most: int) -> int:
        size = min(WINDOW, most) if window is None else window
        if size > most or most < 1:
            raise AireError(
                f"{self.name} has {len(self.ids)} tokens, too few for a window of {max(size, 1)}. Give a longer text"
                f"{', or a smaller window=N' if window is not None and most > 0 else ''}."
            )
        return size

    def _sequences(self, window: int | None) -> np.ndarray:
        if window is not None:
            raise AireError(
                f"{self.name} holds sequences {self.ids.shape}, which are windows already: leave out window=."
            )
        return self.ids


def read_tokens(
    path: str | Path, tokenizer: TokenizerLike, window: int | None = None, count: int | None = None
) -> np.ndarray:
    """At most `count` windows of a file's tokens, int64 (n, window).

    tokenizer: one of transformers, the Hugging Face folder it is in, or None for a model of bytes.
    """
    return read_text(path, tokenizer, window, count).windows(window, count)


def read_text(
    path: str | Path, tokenizer: TokenizerLike, window: int | None = None, count: int | None = None
) -> TokenText:
    """The tokens of a file, as far as `count` windows and the token after them need it."""
    for name, value in (("window", window), ("count", count)):
        if value is not None and value < 1:
            raise AireError(
                f"{name}={value} is no number of {'tokens' if name == 'window' else 'windows'}: give 1 or more."
            )
    path = Path(path)
    if path.suffix == ".npy":
        return TokenText(str(path), _numbers(path))
    text = _text(path)
    needed = None if count is None else count * (window or WINDOW) + 1
    if tokenizer is None:
        ids = np.frombuffer(text.encode()[:needed], np.uint8).astype(np.int64)
        return TokenText(str(path), ids, np.arange(1, len(ids) + 1))
    if isinstance(tokenizer, str | Path):
        tokenizer = open_tokenizer(tokenizer)
    return TokenText(str(path), *_tokenised(text, tokenizer, needed, str(path)))


def open_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer of a Hugging Face folder, or of a model's name if it is in transformers' cache.

    Code that it brings along is never run, and nothing is downloaded.
    """
    if importlib.util.find_spec("transformers") is None:
        raise AireError(f"{folder}: its tokenizer needs transformers (pip install aireprune[hf]).")
    if Path(folder).is_dir() and not has_tokenizer(folder):
        raise AireError(
            f"{folder} holds no tokenizer ({', '.join(FILES[:3])}, …): copy its files there, or give tokens as a .npy file."
        )
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as problem:  # transformers raises whatever a damaged file makes of it
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")
        raise AireError(f"{folder}: transformers cannot load its tokenizer: {first[:300]}.") from problem


def has_tokenizer(folder: str | Path) -> bool:
    """Whether a folder has files of a tokenizer; without them, transformers would make an empty one."""
    return any((Path(folder) / name).is_file() for name in FILES)


def _text(path: Path) -> str:
    data = read_bytes(path).tobytes()
    if not data:
        raise AireError(f"{path} is empty.")
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise AireError(
            f"{path} is not UTF-8 text (byte {problem.start}): give text in UTF-8, or tokens as a .npy file."
        ) from None


def _numbers(path: Path) -> np.ndarray:
    try:
        ids = read_npy(path)
    except (OSError, ValueError) as problem:
        raise AireError(f"{path} is not a .npy file of token numbers: {problem}.") from None
    if ids.dtype.kind not in "iu" or ids.ndim not in (1, 2):
        raise AireError(
            f"{path} has shape {ids.shape} and type {ids.dtype}; expected tokens: whole numbers (N,) or (n, L)."
        )
    if not ids.size or ids.shape[-1] < 2:
        raise AireError(f"{path} has shape {ids.shape}: it holds no two tokens in a row.")
    if ids.min() < 0 or ids.max() > np.iinfo(np.int32).max:
        raise AireError(f"{path} holds numbers that are no tokens ({ids.min()} to {ids.max()}).")
    return np.ascontiguousarray(ids, np.int64)


def _tokenised(text: str, tokenizer: Tokenizer, needed: int | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and their ends in bytes. Of a long text only so much is tokenised as the tokens that are needed take."""
    size = len(text) if needed is None else min(len(text), CHARACTERS * (needed + MARGIN))
    while True:
        ids, ends = _encoded(text[:size], tokenizer)
        if size == len(text) or needed is None:
            break
        if len(ids) >= needed + MARGIN:
            ids, ends = ids[:needed], ends[:needed]
            break
        size = min(len(text), 2 * size)
    if not len(ids):
        raise AireError(f"{name}: the model's tokenizer makes no tokens of this text. Are its files complete?")
    return ids, ends


def _encoded(text: str, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """No tokens are added for the beginning or the end. A tokenizer that does not tell where its tokens are in the text:
    all of them get the same share of it."""
    placed = bool(getattr(tokenizer, "is_fast", False))
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=placed, verbose=False)
    ids = np.asarray(found["input_ids"], np.int64)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    lengths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    before = np.concatenate([[0], np.cumsum(lengths)])  # bytes in front of every character, and of the end
    if not placed or not len(ids):
        return ids, np.rint(before[-1] * np.arange(1, len(ids) + 1) / max(len(ids), 1)).astype(np.int64)
    ends = before[np.asarray(found["offset_mapping"])[:, 1]]
    return ids, np.maximum.accumulate(ends)
