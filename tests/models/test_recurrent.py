"""The recurrent mode: equal to the whole forward pass, step by step and in chunks of any size, for every family."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numba.core.runtime import _nrt_python, rtsys
from small_models import mamba, mamba2, s4d, s5
from torch import Tensor
from torch_checks import draw

import aireprune
from aireprune.errors import AireError
from aireprune.models.editing import resize_module
from aireprune.models.lru import LRUModel
from aireprune.models.lru import initialize as initialize_lru
from aireprune.models.lru_config import LRUConfig
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.recurrence.engine import NumbaEngine, TorchEngine, engine_of, make_engine
from aireprune.models.recurrence.state import State
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s4d_config import S4DConfig

ARRAYS = 11  # that a kernel is given; numba makes a handle for each
LENGTH = 101  # more than the kernels take at a time, twice


def lru(**changes: object) -> LRUModel:
    config = {"d_input": 2, "d_output": 3, "h": 6, "n": 16, "layers": 2, **changes}
    return initialize_lru(LRUModel(LRUConfig.from_dict(config))).eval()


def trained(model: Any) -> Any:
    """Norms that do something: random factors, shifts and statistics."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if "norm" in name and tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)
    return model


def ragged() -> S4DModel:
    """Channels that keep different numbers of modes, more channels than a vector has lanes."""
    model = initialize_s4d(S4DModel(S4DConfig(2, 3, 37, 20, 2, prenorm=True, mode="tokens"))).eval()
    with torch.no_grad():
        model.s4_layers[0].kernel.C[draw(37, 10) > 0] = 0
    return model


def language() -> MambaModel:
    config = MambaConfig(5, 7, 20, 2, mode="tokens", norm="layer", final_norm="rms", bias=True, states=(3, 0))
    return initialize_mamba(MambaModel(config)).eval()


def plain() -> MambaModel:
    """As the public sMNIST checkpoint: neither norms nor residual connections."""
    config = MambaConfig(
        2, 3, 8, 2, norm="none", final_norm="none", residual=False, conv_bias=False, d_conv=1, mode="last"
    )
    return initialize_mamba(MambaModel(config)).eval()


MODELS: dict[str, Callable[[], Any]] = {
    "s5 batch norm": s5,
    "s5 post-norm": lambda: s5(prenorm=False, batchnorm=False, activation="full_glu", mode="last"),
    "s5 wide": lambda: s5(h=70, n=50, activation="gelu", conj_sym=False, clip_eigs=True, discretization="bilinear"),
    "s5 half": lambda: s5(activation="half_glu1", mode="tokens", batchnorm=False),
    "s5 sizes": lambda: resize_module(s5(), [5, 0]),
    "s5 pruned": lambda: aireprune.prune(s5(), ratio=0.5),
    "lru": lru,
    "lru pruned": lambda: aireprune.prune(lru(), ratio=0.5, method="aire", reduce="truncate"),
    "s4d": s4d,
    "s4d ragged": ragged,
    "s4d pruned": lambda: aireprune.prune(s4d(), ratio=0.5),
    "mamba": mamba,
    "mamba language": language,
    "mamba plain": plain,
    "mamba pruned": lambda: aireprune.prune(mamba(), ratio=0.6),
    "mamba2": mamba2,
    "mamba2 odd": lambda: mamba2(d_model=20, head_dim=10, states=[11, 3], mode="tokens", bias=True, conv_bias=False),
    "mamba2 projected": lambda: mamba2(states=[4, 12], projected_from=[12, 12]),
}
every = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
families = pytest.mark.parametrize("make", [s5, s4d, mamba, mamba2])


def whole(model: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        answer: Tensor = model(x)
    return answer


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * float(expected.abs().max()))


def joined(model: Any, answers: list[Tensor]) -> Tensor:
    """What the forward pass says: the last running answer, or all of them."""
    return torch.cat(answers, 1) if model.config.mode == "tokens" else answers[-1]


def numbers(model: Any, batch: int = 2, length: int = LENGTH) -> Tensor:
    return draw(batch, length, model.config.d_input)


@every
def test_chunks_are_the_forward_pass(make):
    model = trained(make())
    assert isinstance(engine_of(model), NumbaEngine)
    x = numbers(model, batch=3)
    expected = whole(model, x)
    for size in (1, 7, LENGTH):
        close(joined(model, list(model.stream(x.split(size, 1)))), expected)


@every
def test_plain_torch_is_the_forward_pass(make):
    model = trained(make())
    engine, x = make_engine(model, by_modules=True), numbers(model, length=30)
    assert isinstance(engine, TorchEngine)
    state = State(engine.layout, 2)
    with torch.no_grad():
        answers = [engine.run(model, chunk, state, None) for chunk in x.split(7, 1)]
    close(joined(model, answers), whole(model, x))


@every
def test_one_stream_step_by_step(make):
    model = trained(make())
    x = numbers(model, batch=1, length=20)
    state = model.initial_state()
    answers = []
    for t in range(20):
        y, state = model.step(x[:, t], state)
        answers.append(y[:, None] if model.config.mode == "tokens" else y)
        if model.config.mode != "tokens":
            close(y, whole(model, x[:, : t + 1]))
    close(joined(model, answers), whole(model, x))


@families
def test_streams_are_independent(make):
    model = make()
    x = numbers(model, batch=5, length=9)
    first, second = model.initial_state(5), model.initial_state(1)
    for t in range(9):
        together, first = model.step(x[:, t], first)
        alone, second = model.step(x[3:4, t], second)
        close(together[3:4], alone)


def test_many_streams_take_all_threads():
    """As many as it takes to start threads; the answers are those of a few."""
    model = s5(h=64, n=64)
    x = numbers(model, batch=70, length=3)
    few = torch.cat([next(model.stream([part])) for part in x.split(2)])
    assert engine_of(model).program.workers(70, 3) == torch.get_num_threads()
    close(next(model.stream([x])), few)


@pytest.mark.parametrize("make", [language, lambda: s5(d_input=9)])
def test_tokens_stand_for_their_vectors(make):
    model = make()
    tokens = torch.arange(34).reshape(2, 17) % model.config.d_input
    vectors = torch.nn.functional.one_hot(tokens).float()
    close(joined(model, list(model.stream(tokens.split(4, 1)))), whole(model, vectors))
    close(
        model.step(tokens[:, 0].int(), model.initial_state(2))[0], model.step(vectors[:, 0], model.initial_state(2))[0]
    )


@every
def test_a_saved_state_goes_on(make, tmp_path: Path):
    """Through a file, and from one engine to the other."""
    model = trained(make())
    x = numbers(model)
    stream = model.stream(x[:, :40].split(8, 1))
    answers = list(stream)
    np.savez(tmp_path / "state.npz", **stream.state.arrays())
    with np.load(tmp_path / "state.npz") as arrays:
        state = model.restore_state(arrays)
    assert (stream.state.seen == 40).all()
    answers += model.stream(x[:, 40:].split(30, 1), state)
    close(joined(model, answers), whole(model, x))
    slow = make_engine(model, by_modules=True)
    with torch.no_grad():
        answer = slow.run(model, x[:, 40:], state.laid_out(slow.layout), None)
    close(answer, joined(model, list(model.stream([x[:, 40:]], state))))


@families
def test_a_step_leaves_the_given_state_alone(make):
    model = make()
    x, state = numbers(model, length=2), model.initial_state(2)
    first, after = model.step(x[:, 0], state)
    again, _ = model.step(x[:, 0], state)
    assert torch.equal(first, again)
    assert not any(array.any() for array in state.arrays().values())
    assert after.nbytes == state.nbytes == sum(array.nbytes for array in state.arrays().values())


@families
def test_nothing_is_allocated_by_a_step(make):
    model = make()
    stepper, x = model.stepper(batch=2), numbers(model, length=1)[:, 0]
    first = stepper.step(x)
    gc.collect()
    _nrt_python.memsys_enable_stats()
    tracemalloc.start()
    for _ in range(20):
        stepper.step(x)
    tracemalloc.reset_peak()
    before, by_kernels = tracemalloc.get_traced_memory()[0], rtsys.get_allocation_stats().alloc
    for _ in range(50):
        last = stepper.step(x)
    peak = tracemalloc.get_traced_memory()[1]
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert rtsys.get_allocation_stats().alloc == by_kernels + 50 * ARRAYS
    assert last.data_ptr() == first.data_ptr()
    assert grown - before < 1000
    assert peak - before < 16_000  # Python's own objects; the arrays of a call are larger


@every
def test_changed_weights_are_noticed(make):
    """Written to in place, exchanged, or given other memory, between two steps."""
    model = trained(make())
    x = numbers(model, length=3)
    name, parameter = next((n, p) for n, p in model.named_parameters() if p.numel() > 4 and ("layers" in n))
    owner = model.get_submodule(name.rpartition(".")[0])
    stepper = model.stepper(batch=2)

    def change(number: int) -> None:
        with torch.no_grad():
            if number == 0:
                parameter.mul_(1.3)
            elif number == 1:
                setattr(owner, name.rpartition(".")[2], torch.nn.Parameter(parameter * 0.9))
            else:
                owner.get_parameter(name.rpartition(".")[2]).data = parameter.detach() * 1.1

    for t in range(3):
        state = stepper.state
        change(t)
        fresh = make_engine(model)
        answer = fresh.run(model, x[:, t : t + 1], state.laid_out(fresh.layout), fresh.buffers(2, 1))
        close(stepper.step(x[:, t]), answer[:, 0] if model.config.mode == "tokens" else answer)


def test_replaced_parts_and_hooks_run_themselves():
    model, seen = s5(), []
    x = numbers(model)
    model.layers[0].norm.register_forward_hook(lambda module, inputs, output: seen.append(output) or 2 * output)
    assert isinstance(engine_of(model), TorchEngine)
    close(joined(model, list(model.stream(x.split(20, 1)))), whole(model, x))
    assert seen


@pytest.mark.parametrize(
    ("make", "dtype"), [(s5, torch.float64), (s5, torch.bfloat16), (s4d, torch.float64), (mamba, torch.bfloat16)]
)
def test_other_precisions(make, dtype):
    model = make()
    x = numbers(model, length=20)
    expected, model = whole(model, x), model.to(dtype)
    answer = list(model.stream(x.split(6, 1)))[-1]
    assert answer.dtype == dtype
    close(answer.float(), expected, 1e-5 if dtype == torch.float64 else 0.1)


def test_a_retrieval_model_compares_two_streams():
    model = s5(retrieval=True)
    x = numbers(model, batch=4, length=12)
    close(list(model.stream(x.split(5, 1)))[-1], whole(model, x))


def test_what_has_no_recurrent_mode():
    with pytest.raises(AireError, match="This model is bidirectional: every answer needs the sequence to its end"):
        s5(bidirectional=True).initial_state()
    training = s5().train()
    with pytest.raises(AireError, match=r"Batch norm layers\.0\.norm is in training mode"):
        training.stepper()
    model = s5(dropout=0.1, batchnorm=False)
    stepper = model.stepper()
    model.train()
    with pytest.raises(AireError, match=r"Dropout layers\.0\.drop is in training mode"):
        stepper.step(numbers(model, 1, 1)[:, 0])


def test_inputs_that_do_not_fit():
    model, tokens = s5(), language()
    state = model.initial_state(2)
    with pytest.raises(AireError, match=r"The step has the shape \(3, 2\); 2 streams of numbers take \(2, 2\)"):
        model.step(draw(3, 2), state)
    with pytest.raises(AireError, match=r"The chunk has the shape \(2, 4\); 2 streams of numbers take \(2, L, 2\)"):
        next(model.stream([draw(2, 4)], state))
    with pytest.raises(AireError, match=r"The step has the shape \(2, 1\); 2 streams of tokens take \(2,\)"):
        tokens.step(torch.zeros(2, 1, dtype=torch.int64), tokens.initial_state(2))
    with pytest.raises(AireError, match="The chunk has no steps"):
        next(model.stream([draw(2, 0, 2)], state))
    with pytest.raises(AireError, match="A token is not one of the model's 5: found 4 to 5"):
        next(tokens.stream([torch.tensor([[4, 5]])]))
    with pytest.raises(AireError, match="batch=0 is no number of streams"):
        model.initial_state(0)
    with pytest.raises(AireError, match="no state before its first chunk"):
        _ = model.stream([]).state


def test_a_model_is_freed_copied_and_pickled():
    model = s4d()
    x = numbers(model, length=6)
    list(model.stream([x]))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(next(other.stream([x])), whole(model, x))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
