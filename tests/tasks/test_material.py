"""What a model is judged on: a task cut to a count, or a text in the model's own tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import toy_experiments
from foreign_models import transformers_model
from small_tokenizers import LEARNT_FROM, save_tokenizer

from aireprune.errors import AireError
from aireprune.models.create import new_model
from aireprune.tasks.evaluate import per_example
from aireprune.tasks.language import windows
from aireprune.tasks.material import Material, halved, text_task, tokenizer_of
from aireprune.tasks.tokens import read_text

TEXT = f"{LEARNT_FROM}. " * 40


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def byte_model():
    return new_model(replace(toy_experiments.LANGUAGE, d_input=256, d_output=256), 0).eval()


@pytest.fixture
def folder(tmp_path):
    """A transformers model that knows 300 tokens, and its tokenizer."""
    pytest.importorskip("transformers")
    model = transformers_model("Mamba", state_size=6, vocab_size=300)
    model.save_pretrained(tmp_path / "model")
    save_tokenizer(tmp_path / "model")
    return tmp_path / "model"


def loaded(folder):
    import transformers

    return transformers.MambaForCausalLM.from_pretrained(folder)


def test_a_text_is_a_task_of_bytes_for_a_model_of_bytes(text, byte_model):
    task = text_task(byte_model, text, window=64, count=5)
    expected = windows(np.frombuffer(TEXT.encode(), np.uint8), 64).rows(slice(5))
    assert np.array_equal(task.test.x, expected.x)
    assert np.array_equal(task.test.y, expected.y)
    assert (task.metric, task.bytes_per_token, task.length) == ("bits per byte", 1.0, 64)
    assert len(per_example(byte_model, task, task.test)) == 5


def test_a_text_is_read_with_the_tokenizer_of_a_folder(text, folder):
    model = loaded(folder)
    task = text_task(model, text, window=32)
    found = read_text(text, folder)
    asked = found.predictions(32)
    assert np.array_equal(task.test.x, asked.x)
    assert task.bytes_per_token == found.bytes_of(asked) / asked.y.size > 1
    assert task.metric == "bits per byte"
    assert np.isfinite(per_example(model, task, task.test)).all()


def test_numbers_are_tokens_of_any_language_model(tmp_path, folder):
    path = tmp_path / "tokens.npy"
    np.save(path, np.arange(299))
    task = text_task(loaded(folder), path, window=20)
    assert (task.metric, len(task.test)) == ("bits per token", 14)
    np.save(path, np.arange(301))
    with pytest.raises(AireError, match=r"token 300, but MambaForCausalLM knows only 300: the numbers are not"):
        text_task(loaded(folder), path)
    model, _ = toy_experiments.language()
    np.save(path, np.arange(30) % 5)
    assert text_task(model, path).length == 29


def test_a_tokenizer_of_another_model(text, tmp_path):
    pytest.importorskip("transformers")
    transformers_model("Mamba", state_size=6, vocab_size=258).save_pretrained(tmp_path / "model")
    save_tokenizer(tmp_path / "model")
    with pytest.raises(AireError, match="knows only 258: the tokenizer in its folder is not this model's"):
        text_task(loaded(tmp_path / "model"), text)


def test_models_whose_tokens_are_not_known(text, folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(AireError, match="holds no tokenizer"):
        text_task(loaded(folder), text)
    with pytest.raises(AireError, match="tokenizer of this MambaForCausalLM is, is not known"):
        text_task(transformers_model("Mamba", vocab_size=300), text)
    with pytest.raises(AireError, match=r"knows 5 tokens, and no tokenizer came with it: give tokens as a \.npy"):
        text_task(toy_experiments.language()[0], text)
    with pytest.raises(AireError, match=r"S5Model does not predict tokens.*text\.txt"):
        text_task(toy_experiments.classification()[0], text)


def test_a_folder_of_256_tokens_without_a_tokenizer_reads_bytes(tmp_path):
    pytest.importorskip("transformers")
    transformers_model("Mamba", state_size=6, vocab_size=256).save_pretrained(tmp_path / "model")
    assert tokenizer_of(loaded(tmp_path / "model")) is None


def test_halves(text, byte_model):
    task = text_task(byte_model, text, window=64, count=5)
    half = halved(task)
    assert [len(half.validation), len(half.test)] == [2, 3]
    assert np.array_equal(np.concatenate([half.validation.x, half.test.x]), task.test.x)
    with pytest.raises(AireError, match="one window long"):
        halved(text_task(byte_model, text, window=64, count=1))


def test_the_first_examples_of_a_task(byte_model):
    model, task = toy_experiments.classification()
    assert Material(task=task).for_model(model).test.x.shape == task.test.x.shape
    assert np.array_equal(Material(task=task, count=7).for_model(model).test.x, task.test.x[:7])
    with pytest.raises(AireError, match="does not fit task toy"):
        Material(task=task).for_model(byte_model)


def test_what_does_not_go_together(text):
    for given, message in (
        ({}, "either a task .* or a text"),
        ({"task": "lm", "text": text}, "either a task .* or a text"),
        ({"task": "lm", "window": 5}, "window=N is for a text"),
        ({"text": text.parent / "nothing"}, "no text file .*nothing"),
        ({"text": text, "count": 0}, "count=0 is no number"),
    ):
        with pytest.raises(AireError, match=message):
            Material(**given)
    with pytest.raises(AireError, match="no task 'chess'"):
        Material(task="chess").loaded()
