"""The tokenizer of byte-level models as files that transformers loads: every UTF-8 byte is the token of its value.

The tokenizers library works on text, so its byte-level parts write each byte as a printable character. The vocabulary
holds the 256 characters in the order of the bytes they stand for; there is nothing to merge and no special token.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

BYTES = 256


def byte_characters() -> list[str]:
    """The character that the tokenizers library writes for each byte: itself if it shows, else the next from U+0100 on."""
    shows = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = count(0x100)
    return [chr(byte if byte in shows else next(spare)) for byte in range(BYTES)]


def byte_tokenizer_files() -> dict[str, str]:
    """tokenizer.json and tokenizer_config.json by name."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {character: byte for byte, character in enumerate(byte_characters())},
            "merges": [],
        },
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return {
        "tokenizer.json": json.dumps(tokenizer, ensure_ascii=False, indent=1),
        "tokenizer_config.json": json.dumps(config, indent=1),
    }
