"""What a model is judged on: the test split of a task, or a text that it has to predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from aireprune.errors import AireError
from aireprune.models.model_config import ModelConfig
from aireprune.tasks import load_task
from aireprune.tasks.base import BYTES, Split, Task, tokens
from aireprune.tasks.fit import check_fit, is_transformers, known_tokens
from aireprune.tasks.tokens import TokenizerLike, has_tokenizer, open_tokenizer, read_text


@dataclass(frozen=True, kw_only=True)
class Material:
    """A task (or its name), or a text file; for a text, windows of `window` tokens. count: use the first so many
    examples or windows."""

    task: Task | str | None = None
    text: str | Path | None = None
    window: int | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if (self.task is None) == (self.text is None):
            raise AireError("Give either a task (task=NAME) or a text (text=FILE) to judge the model on.")
        if self.window is not None and self.text is None:
            raise AireError("window=N is for a text (text=FILE); the examples of a task have their own length.")
        if self.text is not None and not Path(self.text).is_file():
            raise AireError(f"There is no text file {self.text}.")
        if self.count is not None and self.count < 1:
            raise AireError(f"count={self.count} is no number of examples: give 1 or more.")

    def loaded(self) -> Material:
        """With the task itself in place of its name: what is missing is said before a model is built."""
        return replace(self, task=load_task(self.task)) if isinstance(self.task, str) else self

    def for_model(self, model: nn.Module) -> Task:
        """The task, or the text as a task of this model; whatever does not fit the model is refused."""
        if self.text is not None:
            return text_task(model, Path(self.text), self.window, self.count)
        task = self.loaded().task
        assert isinstance(task, Task)
        check_fit(model, task)
        return replace(task, test=task.test.rows(slice(self.count)))


def text_task(model: nn.Module, path: Path, window: int | None = None, count: int | None = None) -> Task:
    """Predict the next token of a text, in windows: all of them are the test split. The model's own tokenizer is used."""
    known = known_tokens(model)
    if known is None:
        raise AireError(f"{type(model).__name__} does not predict tokens, so it cannot be judged on a text ({path}).")
    tokenizer = None if path.suffix == ".npy" else tokenizer_of(model)
    text = read_text(path, tokenizer, window, count)
    highest = int(text.ids.max())
    if highest >= known:
        raise AireError(
            f"{path} has token {highest:,}, but {type(model).__name__} knows only {known:,}: the "
            f"{'numbers are' if tokenizer is None else 'tokenizer in its folder is'} not this model's."
        )
    test = text.predictions(window, count)
    length, size = test.x.shape[1], text.bytes_of(test)
    nothing = Split(np.empty((0, length), np.int64), np.empty((0, length), np.int64))
    return Task(
        str(path), length, known, known, tokens, nothing, nothing, test,
        bytes_per_token=None if size is None else size / test.y.size,
    )  # fmt: skip


def halved(task: Task) -> Task:
    """The first half of a text's windows to choose something with, the second half to report it on.

    Bytes per token stay those of the whole text.
    """
    half = len(task.test) // 2
    if not half:
        raise AireError(
            f"{task.name} is one window long: a ratio is chosen on the first half of the windows and judged on the "
            "second. Give a longer text."
        )
    first, second = task.test.rows(slice(half)), task.test.rows(slice(half, None))
    return replace(task, name=f"{task.name}, second half", validation=first, test=second)


def tokenizer_of(model: nn.Module) -> TokenizerLike:
    """What makes tokens of a text for this model; None if its tokens are bytes."""
    known = known_tokens(model)
    if isinstance(getattr(model, "config", None), ModelConfig):
        if known == BYTES:
            return None
        raise AireError(f"The model knows {known} tokens, and no tokenizer came with it: give tokens as a .npy file.")
    origin: Any = getattr(model, "name_or_path", "") if is_transformers(model) else ""
    if not origin:
        raise AireError(
            f"Where the tokenizer of this {type(model).__name__} is, is not known: give tokens as a .npy file."
        )
    if known == BYTES and not has_tokenizer(origin):
        return None
    return open_tokenizer(origin)
