"""A task that does not fit a model is refused by one sentence that says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import toy_experiments
from foreign_models import ATTENTION, transformers_model
from torch import nn

from aireprune.errors import AireError
from aireprune.tasks.base import Split, Task, tokens
from aireprune.tasks.evaluate import per_example
from aireprune.tasks.fit import check_fit, known_tokens


def language(vocabulary, **options):
    """Random tokens below `vocabulary`."""
    x = np.random.default_rng(0).integers(0, vocabulary, (3, 9))
    split = Split(x[:, :-1], x[:, 1:])
    return Task("toy", 8, vocabulary, vocabulary, tokens, split, split, split, **options)


def classes(count, vocabulary=40):
    task = language(vocabulary, at_least=True)
    split = Split(task.test.x, np.arange(3) % count)
    return replace(task, train=split, validation=split, test=split, classes=count)


@pytest.fixture
def mamba():
    pytest.importorskip("transformers")
    return transformers_model("FalconMamba", state_size=6)  # knows 40 tokens


def test_bytes_are_no_tokens_of_a_model_with_a_tokenizer():
    pytest.importorskip("transformers")
    model = transformers_model("FalconMamba", state_size=6, vocab_size=300)
    with pytest.raises(AireError, match=r"consists of bytes, and the model has 300 tokens of its own.*text=FILE"):
        check_fit(model, language(256))
    check_fit(model, language(255, at_least=True))
    check_fit(transformers_model("FalconMamba", state_size=6, vocab_size=256), language(256))


def test_a_transformers_model(mamba):
    check_fit(mamba, language(40))
    check_fit(mamba, language(30, at_least=True))
    _, values = toy_experiments.classification()
    padded = language(40)
    padded = replace(padded, test=replace(padded.test, lengths=np.full(3, 8)))
    for task, message in (
        (language(41, at_least=True), r"FalconMambaForCausalLM.* 41 different tokens, and the model knows 40"),
        (values, "takes tokens, and the task has values"),
        (classes(2), "predicts tokens, and the task asks for classes"),
        (padded, "padded sequences are for our own models"),
    ):
        with pytest.raises(AireError, match=message):
            check_fit(mamba, task)


def test_a_transformers_model_without_a_head(mamba):
    with pytest.raises(AireError, match="no head that predicts tokens"):
        check_fit(mamba.backbone if hasattr(mamba, "backbone") else mamba.model, language(40))


def test_a_transformers_classifier():
    transformers = pytest.importorskip("transformers")
    config = transformers.JambaConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, mamba_d_state=6, mamba_dt_rank=4, num_experts=1,
        attn_layer_period=2, attn_layer_offset=1, num_labels=3, pad_token_id=0, **ATTENTION,
    )  # fmt: skip
    model = transformers.JambaForSequenceClassification(config).eval()
    assert known_tokens(model) is None
    assert set(per_example(model, classes(3), classes(3).test)) <= {0.0, 1.0}
    with pytest.raises(AireError, match="knows 3 classes, and the task has 4"):
        check_fit(model, replace(classes(2), classes=4))


def test_our_models_may_know_more_than_occurs_in_data_of_ones_own():
    model, task = toy_experiments.language()
    assert known_tokens(model) == 5
    check_fit(model, language(4, at_least=True))
    for wrong in (language(4), language(6, at_least=True)):
        with pytest.raises(AireError, match="does not fit task toy"):
            check_fit(model, wrong)
    model, task = toy_experiments.classification()
    assert known_tokens(model) is None
    check_fit(model, replace(task, classes=2, at_least=True))
    with pytest.raises(AireError, match="takes 1 values per step"):
        check_fit(model, replace(task, d_input=2, at_least=True))


def test_outputs_of_a_model_of_which_nothing_is_known():
    task = replace(toy_experiments.classification()[1], decode=lambda x: x[:, :4].astype(np.float32))
    assert known_tokens(nn.Linear(4, 3)) is None
    assert len(per_example(nn.Linear(4, 3), task, task.test)) == 70
    with pytest.raises(AireError, match=r"outputs have shape \(70, 2\), and the task's answers need \(70, 3\)"):
        per_example(nn.Linear(4, 2), task, task.test)
