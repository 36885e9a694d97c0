"""The tokenizer of a folder as llama.cpp reads it: byte-pair encodings over bytes, as in tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf

GPT2 = "gpt-2"  # how llama.cpp calls the split into words that a plain ByteLevel makes
UNKNOWN_SPLIT = "default"


def add_tokenizer(writer: gguf.GGUFWriter, folder: Path | None, vocabulary: int) -> list[str]:
    """Write the tokenizer of a folder, filled up to the model's vocabulary; returns what a user should know of it."""
    stored = None if folder is None else folder / "tokenizer.json"
    if stored is None or not stored.is_file():
        return _without(writer, vocabulary, "there is no tokenizer.json")
    read = json.loads(stored.read_text(encoding="utf-8"))
    model, decoder = read.get("model") or {}, read.get("decoder") or {}
    if model.get("type") != "BPE" or decoder.get("type") != "ByteLevel":
        return _without(writer, vocabulary, "its tokenizer is no byte-pair encoding over bytes")
    split, notices = _split(read.get("pre_tokenizer") or {})
    tokens, kinds = _tokens(model["vocab"], read.get("added_tokens") or [], vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    assert folder is not None
    gguf.SpecialVocab(folder, load_merges=True, n_vocab=vocabulary).add_to_gguf(writer, quiet=True)
    return notices


def _without(writer: gguf.GGUFWriter, vocabulary: int, why: str) -> list[str]:
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(vocabulary)
    return [f"the GGUF file has no tokenizer, because {why}: llama.cpp takes tokens as numbers, not text."]


def _split(found: dict[str, Any]) -> tuple[str, list[str]]:
    plain = found.get("type") == "ByteLevel" and found.get("use_regex", True) and not found.get("add_prefix_space")
    if plain:
        return GPT2, []
    notice = (
        "llama.cpp may split text into words otherwise than this tokenizer does; tokens given as numbers are the same."
    )
    return UNKNOWN_SPLIT, [notice]


def _tokens(vocabulary: dict[str, int], added: list[dict[str, Any]], size: int) -> tuple[list[str], list[int]]:
    """Texts and kinds of all tokens; numbers without a text are filled up."""
    texts = {number: text for text, number in vocabulary.items()} | {one["id"]: one["content"] for one in added}
    special = {
        one["id"]: gguf.TokenType.CONTROL if one.get("special") else gguf.TokenType.USER_DEFINED for one in added
    }
    kinds = [special.get(n, gguf.TokenType.NORMAL) if n in texts else gguf.TokenType.UNUSED for n in range(size)]
    return [texts.get(number, f"[PAD{number}]") for number in range(size)], [int(kind) for kind in kinds]
