"""Running GGUF files with llama.cpp, where llama-cpp-python is installed."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.errors import AireError

CONTEXT = 1024


def last_logits(path: Path, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """Logits (vocabulary,) after tokens (L,), L at most CONTEXT."""
    import llama_cpp

    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise AireError("llama.cpp cannot load the GGUF file. It was not kept.")
    try:
        return _run(llama_cpp, model, tokens, vocabulary)
    finally:
        llama_cpp.llama_model_free(model)


def _run(llama_cpp: Any, model: Any, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    wanted = llama_cpp.llama_context_default_params()
    wanted.n_ctx = wanted.n_batch = wanted.n_ubatch = CONTEXT
    context = llama_cpp.llama_init_from_model(model, wanted)
    try:
        given = (llama_cpp.llama_token * len(tokens))(*tokens.tolist())
        status = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(given, len(tokens)))
        if status:
            raise AireError(f"llama.cpp cannot run the GGUF file (status {status}). It was not kept.")
        logits = llama_cpp.llama_get_logits_ith(context, -1)
        return np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (vocabulary,)).copy()
    finally:
        llama_cpp.llama_free(context)
