"""Text files as windows of tokens: nothing is lost or counted twice, and what cannot be read is one sentence."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest
from small_tokenizers import LEARNT_FROM, Letters, byte_pairs, save_tokenizer

from aireprune.errors import AireError
from aireprune.tasks import tokens
from aireprune.tasks.tokens import has_tokenizer, open_tokenizer, read_text, read_tokens

TEXT = f"{LEARNT_FROM}! 𝄞 ĳ ¿qué? " * 30


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def tokenizer():
    pytest.importorskip("transformers")
    return byte_pairs()


def test_bytes_are_tokens_where_there_is_no_tokenizer(text, tmp_path):
    data = TEXT.encode()
    rows = read_tokens(text, None, 64)
    assert rows.shape == (len(data) // 64, 64)
    assert bytes(rows.astype(np.uint8).reshape(-1)) == data[: rows.size]
    assert np.array_equal(read_tokens(text, None, 64, 3), rows[:3])
    packed = tmp_path / "text.txt.xz"
    packed.write_bytes(lzma.compress(data))
    assert np.array_equal(read_tokens(packed, None, 64), rows)


def test_windows_spell_the_text(text, tokenizer):
    rows = read_tokens(text, tokenizer, 16)
    assert rows.dtype == np.int64
    assert TEXT.startswith(tokenizer.decode(rows.reshape(-1)[:-8]))
    assert np.array_equal(read_tokens(text, tokenizer, 16, 3), rows[:3])
    assert len(read_tokens(text, tokenizer)) == 1  # as long as the text allows


@pytest.mark.parametrize("characters", [1, 8])
def test_of_a_long_text_only_the_beginning_is_tokenised(text, tokenizer, monkeypatch, characters):
    whole = read_text(text, tokenizer)
    monkeypatch.setattr(tokens, "CHARACTERS", characters)
    part = read_text(text, tokenizer, window=16, count=5)
    assert len(part.ids) == 81 < len(whole.ids)
    assert np.array_equal(part.ids, whole.ids[:81])
    assert np.array_equal(part.ends, whole.ends[:81])


def test_every_token_but_the_first_is_asked_for_once(text, tokenizer):
    found = read_text(text, tokenizer)
    asked = found.predictions(window=16)
    assert np.array_equal(asked.x.reshape(-1), found.ids[: asked.x.size])
    assert np.array_equal(asked.y.reshape(-1), found.ids[1 : asked.y.size + 1])
    assert len(found.predictions(window=16, count=4)) == 4


def test_bytes_are_those_of_the_tokens_asked_for(text, tokenizer):
    found = read_text(text, tokenizer)
    assert found.ends[-1] == len(TEXT.encode())
    asked = found.predictions(window=16)
    spelt = tokenizer.decode(asked.y.reshape(-1)).strip("\ufffd")
    assert abs(found.bytes_of(asked) - len(spelt.encode())) <= 3  # a character may be cut at the end
    plain = read_text(text, None)
    assert plain.bytes_of(plain.predictions(window=16)) == plain.predictions(window=16).y.size


def test_a_tokenizer_that_does_not_say_where_its_tokens_are(text):
    found = read_text(text, Letters())
    assert len(found.ids) == len(TEXT)
    assert found.ends[-1] == len(TEXT.encode())
    assert np.ptp(np.diff(found.ends)) <= 1  # equal shares


def test_numbers(tmp_path):
    stream, path = np.arange(100, dtype=np.uint16), tmp_path / "tokens.npy"
    np.save(path, stream)
    assert np.array_equal(read_tokens(path, None, 30), np.arange(90).reshape(3, 30))
    asked = read_text(path, None).predictions(33)
    assert np.array_equal(asked.y, asked.x + 1)
    assert asked.x.shape == (3, 33)
    assert read_text(path, None).bytes_of(asked) is None
    np.save(path, stream.reshape(10, 10))
    assert np.array_equal(read_tokens(path, None, count=2), stream[:20].reshape(2, 10))
    asked = read_text(path, None).predictions()
    assert asked.x.shape == asked.y.shape == (10, 9)
    assert np.array_equal(asked.y, asked.x + 1)
    with pytest.raises(AireError, match="windows already"):
        read_tokens(path, None, 5)


def test_numbers_that_are_no_tokens(tmp_path):
    path = tmp_path / "tokens.npy"
    for values, message in (
        (np.zeros((2, 2, 2), int), r"shape \(2, 2, 2\)"),
        (np.zeros(5), "type float64; expected tokens"),
        (np.array([3]), "no two tokens in a row"),
        (np.zeros((0, 4), int), "no two tokens in a row"),
        (np.array([3, -1]), r"no tokens \(-1 to 3\)"),
        (np.array([3, 2**40]), "no tokens"),
    ):
        np.save(path, values)
        with pytest.raises(AireError, match=message):
            read_tokens(path, None)
    path.write_bytes(b"nonsense")
    with pytest.raises(AireError, match=r"not a \.npy file of token numbers"):
        read_tokens(path, None)


def test_texts_that_cannot_be_used(tmp_path):
    path = tmp_path / "text.txt"
    with pytest.raises(AireError, match=r"text\.txt cannot be read"):
        read_tokens(path, None)
    for data, message in (
        (b"", "is empty"),
        ("größe".encode("latin-1"), r"not UTF-8 text \(byte 2\)"),
        (b"short", "has 5 tokens, too few for a window of 6. Give a longer text, or a smaller window="),
    ):
        path.write_bytes(data)
        with pytest.raises(AireError, match=message):
            read_tokens(path, None, 6)
    with pytest.raises(AireError, match=r"too few for a window of 5\."):
        read_text(path, None).predictions(5)
    path.write_bytes(b"s")
    with pytest.raises(AireError, match=r"has 1 tokens, too few for a window of 1\. Give a longer text\.$"):
        read_text(path, None).predictions()
    for name in ("window", "count"):
        with pytest.raises(AireError, match=f"{name}=0 is no number"):
            read_tokens(path, None, **{name: 0})


def test_the_tokenizer_of_a_folder(text, tmp_path):
    pytest.importorskip("transformers")
    folder = tmp_path / "model"
    folder.mkdir()
    assert not has_tokenizer(folder)
    with pytest.raises(AireError, match="holds no tokenizer"):
        open_tokenizer(folder)
    tokenizer = save_tokenizer(folder)
    assert has_tokenizer(folder)
    assert np.array_equal(read_tokens(text, folder, 16), read_tokens(text, tokenizer, 16))
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(AireError, match="transformers cannot load its tokenizer"):
        read_tokens(text, folder, 16)


def test_a_tokenizer_without_a_vocabulary(text, tmp_path):
    """transformers makes an empty one where the files with the vocabulary are missing."""
    transformers = pytest.importorskip("transformers")
    transformers.MambaConfig().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(AireError, match="makes no tokens of this text"):
        read_tokens(text, tmp_path, 16)


def test_code_that_a_folder_brings_along_is_never_run(text, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    described = {"auto_map": {"AutoTokenizer": ["tokens.Tokens", None]}, "tokenizer_class": "Tokens"}
    (tmp_path / "config.json").write_text('{"model_type": "stranger"}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(described))
    (tmp_path / "tokens.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *given: "y")
    with pytest.raises(AireError):
        read_tokens(text, tmp_path, 16)
    assert not (tmp_path / "ran").exists()
