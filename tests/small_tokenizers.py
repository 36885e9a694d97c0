"""Tokenizers that are made in a moment: byte pairs learnt from a sentence, and one that does not say where tokens are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LEARNT_FROM = "the cat sat on the mat, and the größte €uro was thrown there"


def byte_pairs(vocabulary: int = 300) -> Any:
    """A fast tokenizer of transformers with at most so many tokens (256 of them bytes); it can spell any text."""
    import tokenizers
    import transformers

    pieces = tokenizers.Tokenizer(tokenizers.models.BPE())
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    pieces.train_from_iterator([LEARNT_FROM], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token="t")


def save_tokenizer(folder: Path, vocabulary: int = 300) -> Any:
    tokenizer = byte_pairs(vocabulary)
    tokenizer.save_pretrained(folder)
    return tokenizer


class Letters:
    """A slow tokenizer: every character is a token, and it does not say where."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        assert not options["return_offsets_mapping"]
        return {"input_ids": [ord(letter) for letter in text]}
