"""The byte tokenizer, as transformers loads it: tokens are the bytes of the text, and give the text back."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.models.byte_tokenizer import byte_tokenizer_files

transformers = pytest.importorskip("transformers")

TEXTS = (
    "To be, or not to be",
    " two  spaces, a tab\tand lines\r\n\n",
    "zero \0 and delete \x7f",
    "Größe, naïve, 2 € für 狐 und 🦊, e\u0301",
    "<|endoftext|> <s> </s> [CLS]",
    "\u202e\ufeff\u00ad\u0100\u0120",
    "",
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> transformers.PreTrainedTokenizerFast:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    for name, text in byte_tokenizer_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "mamba"}')
    return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_bytes(tokenizer, text):
    tokens = tokenizer(text).input_ids
    assert tokens == list(text.encode())
    assert tokenizer.decode(tokens) == text


def test_there_are_256_tokens_and_no_special_ones(tokenizer):
    assert len(tokenizer) == 256
    assert tokenizer.all_special_ids == []
