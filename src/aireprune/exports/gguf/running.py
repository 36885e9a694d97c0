"""Running GGUF files with llama.cpp, where llama-cpp-python is installed."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from aireprune.errors import AireError

CONTEXT = 1024


def last_logits(path: Path, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """Logits (vocabulary,) after tokens (L,), L at most CONTEXT."""
    with LlamaCpp(path, vocabulary) as session:
        return session.begin(tokens)


@cache
def _quiet() -> Any:
    """A function for llama.cpp's log that says nothing; it is kept, because llama.cpp may call it at any time."""
    import llama_cpp

    return llama_cpp.llama_log_callback(lambda level, text, data: None)


class LlamaCpp:
    """A file that llama.cpp has loaded, for one text of at most CONTEXT tokens at a time. threads: None, as it chooses."""

    def __init__(self, path: Path, vocabulary: int, threads: int | None = None):
        import llama_cpp

        self._library, self._vocabulary = llama_cpp, vocabulary
        llama_cpp.llama_log_set(_quiet(), ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        how = llama_cpp.llama_model_default_params()
        how.use_extra_bufts = False  # AMX, which virtual machines may announce and not have: the process would end
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), how)
        if not self._model:
            raise AireError("llama.cpp cannot load the GGUF file. It was not kept.")
        wanted = llama_cpp.llama_context_default_params()
        wanted.n_ctx = wanted.n_batch = wanted.n_ubatch = CONTEXT
        if threads is not None:
            wanted.n_threads = wanted.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(self._model, wanted)

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.llama_free(self._context)
        self._library.llama_model_free(self._model)

    def begin(self, tokens: np.ndarray) -> np.ndarray:
        """Begin a text with tokens (L,): the logits (vocabulary,) of what follows."""
        self._library.llama_memory_clear(self._library.llama_get_memory(self._context), True)
        return self.go_on(tokens)

    def go_on(self, tokens: np.ndarray) -> np.ndarray:
        """Go on with tokens (L,): the logits of what follows."""
        given = (self._library.llama_token * len(tokens))(*tokens.tolist())
        status = self._library.llama_decode(self._context, self._library.llama_batch_get_one(given, len(tokens)))
        if status:
            raise AireError(f"llama.cpp cannot run the GGUF file (status {status}). It was not kept.")
        logits = self._library.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (self._vocabulary,)).copy()
