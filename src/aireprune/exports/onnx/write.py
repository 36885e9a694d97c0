"""From a model to an ONNX file that was run and found to agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
from torch import nn

from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.own import own_graph
from aireprune.exports.onnx.quantize import quantized
from aireprune.exports.onnx.running import OnnxModel, Stream, open_session
from aireprune.exports.onnx.states import States
from aireprune.exports.onnx.transformers import transformers_graph
from aireprune.exports.outcome import Judged, require_agreement
from aireprune.exports.request import ExportRequest
from aireprune.exports.trials import STEPS, Trial, answers, make_trials, reference, relative, takes_tokens
from aireprune.models.arrays import is_own
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import per_example


def write_onnx(
    model: nn.Module, path: Path, request: ExportRequest, about: dict[str, str], task: Task | None
) -> tuple[float, Judged | None]:
    """Write the file, run it, and raise if it differs: the difference, and of an 8-bit file its metric on the task."""
    tokens = takes_tokens(model, request.inputs, task)
    with reference(model) as single:
        graph, states = build_graph(single, request, tokens)
        made = graph.model({**about, **({} if states is None else _states(states))})
        onnx.save(made, path)
        trials = make_trials(single, tokens, task)
        session = open_session(path, request.opset)
        if states is None:
            difference = _whole(single, session, trials)
        else:
            difference = max(_streamed(single, session, states, trial) for trial in trials)
        require_agreement(difference, "onnxruntime")
    if not request.int8:
        return difference, None
    onnx.save(quantized(made), path)
    session = open_session(path, request.opset)  # that it loads is part of the check
    return difference, None if task is None or states is not None else _judged(model, session, task)


def build_graph(model: nn.Module, request: ExportRequest, tokens: bool) -> tuple[Graph, States | None]:
    """The graph of a model, and its states if it takes one step at a time."""
    graph = Graph(request.opset)
    states = States(graph) if request.step else None
    if is_own(model):
        own_graph(graph, model, tokens, states)
    else:
        transformers_graph(graph, model, states)
    if states is not None:
        states.give_out()
    return graph, states


def _states(states: States) -> dict[str, str]:
    return {"aireprune.step_states": json.dumps({name: list(shape) for name, shape in states.shapes.items()})}


def _whole(model: nn.Module, session: Any, trials: list[Trial]) -> float:
    run = OnnxModel(session, model.config)
    return max(relative(answers(run, trial), answers(model, trial)) for trial in trials)


def _streamed(model: nn.Module, session: Any, states: States, trial: Trial) -> float:
    """Step by step, beside the model on the sequence so far."""
    stream, steps, found = Stream(session, states, len(trial.x)), min(STEPS, trial.x.shape[1]), 0.0
    config: Any = model.config
    every_step = not is_own(model) or config.mode == "tokens"
    whole = answers(model, Trial(x=trial.x[:, :steps])) if every_step else None
    for t in range(steps):
        logits = stream.step(trial.x[:, t])
        wanted = whole[:, t] if whole is not None else answers(model, Trial(x=trial.x[:, : t + 1]))
        found = max(found, relative(logits, wanted))
    return found


def _judged(model: nn.Module, session: Any, task: Task) -> Judged:
    before = per_example(model, task, task.test)
    after = per_example(OnnxModel(session, model.config), task, task.test)
    return Judged(metric=task.metric, model=float(before.mean()), file=float(after.mean()), examples=len(task.test))
