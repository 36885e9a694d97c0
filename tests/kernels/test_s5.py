"""The S5 block as one operator: the same numbers as its parts, whatever the sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from s5_blocks import block, both, inputs

import aireprune.kernels.s5  # noqa: F401  defines the operators
from aireprune.kernels.numba.s5_codes import FULL_GLU, PRE_LAYER, ZOH

ACTIVATIONS = ("full_glu", "half_glu1", "half_glu2", "gelu")


@pytest.mark.parametrize(("prenorm", "batchnorm", "bidirectional"), list(itertools.product((True, False), repeat=3)))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_fused_block_is_its_parts(activation, prenorm, batchnorm, bidirectional):
    variant = {"activation": activation, "prenorm": prenorm, "batchnorm": batchnorm, "bidirectional": bidirectional}
    torch.testing.assert_close(*both(block(**variant), inputs()), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(
        *both(block(**variant, dtype=torch.float32), inputs(dtype=torch.float32)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("modes", [0, 1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 33, 70])
@pytest.mark.parametrize("part", ["layer", "block"])
def test_any_number_of_states(part, modes):
    module = block(modes=modes)
    torch.testing.assert_close(*both(module.seq if part == "layer" else module, inputs(1)), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("length", [1, 2, 95, 96, 97, 200, 389])
@pytest.mark.parametrize("batch", [1, 3])
def test_any_length_and_batch(batch, length):
    torch.testing.assert_close(*both(block(), inputs(batch, length)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("h", [1, 15, 33, 130])
def test_any_width(h):
    torch.testing.assert_close(*both(block(h=h, activation="full_glu"), inputs(h=h)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
@pytest.mark.parametrize("clip", [True, False])
def test_any_pole(method, clip):
    module = block(discretization=method, clip_eigs=clip, step_rescale=2.0)
    with torch.no_grad():
        module.seq.log_step.zero_()  # steps of 2
        for number, pole in enumerate([-1.0, -1e-5, 0.0, 1e-3, -30.0]):  # -1: the bilinear map gives 0
            module.seq.Lambda_re[number], module.seq.Lambda_im[number] = pole, 0.0
    torch.testing.assert_close(*both(module, inputs(length=200)), rtol=1e-9, atol=1e-9)


def test_more_threads_than_sequences_and_the_other_way_round(monkeypatch):
    module, z = block(), inputs(3, 300)
    expected = module(z).detach()
    for threads in (1, 2, 5):
        monkeypatch.setattr("aireprune.kernels.numba.compile.threads", lambda threads=threads: threads)
        with torch.no_grad():
            torch.testing.assert_close(module(z), expected, rtol=1e-10, atol=1e-10)


def test_a_padded_sequence_ends_in_zeros_not_denormals():
    module = block(dtype=torch.float32).seq
    z = inputs(2, 3000, dtype=torch.float32)
    z[:, 10:] = 0
    with torch.no_grad():
        module.log_step.fill_(0.0)
        y = module(z)
    assert (y[:, 2000:2500] == 0).all()
    assert np.float32(1e-39) * np.float32(1.0) != 0


def test_nan_in_the_input_is_not_hidden():
    module, z = block(), inputs()
    z[0, 20] = float("nan")
    with torch.no_grad():
        out = module(z)
    assert out[0].isnan().all(dim=-1).any()
    assert not out[1].isnan().any()


def test_half_precision_and_autocast():
    module, z = block(dtype=torch.float32), inputs(dtype=torch.float32)
    expected = both(module, z)[1]
    with torch.no_grad():
        assert module.seq(z.bfloat16()).dtype == torch.bfloat16
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(module(z), expected)
    for parameter in module.parameters():
        assert parameter.dtype == torch.float32


@pytest.mark.parametrize("name", ["s5_block", "s5_block_"])
def test_operator_contract(name):
    h, p, random = 4, 2, torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=random)

    poles, readouts = [-draw(p).abs(), draw(p), draw(p)], [draw(h, p, 2), draw(h, p, 2)]
    gates = [draw(h, h), draw(h, h)], [draw(h), draw(h)]
    layer = (*poles, 1.0, float("inf"), ZOH, draw(p, h, 2), readouts, 2.0, draw(h))
    arguments = (draw(2, 5, h), *layer, FULL_GLU, *gates, PRE_LAYER, [draw(h), draw(h)], 1e-5)
    torch.library.opcheck(getattr(torch.ops.aireprune, name).default, arguments)


@pytest.mark.parametrize("h", [8, 35])  # with and without whole vectors
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_in_a_weight_is_not_hidden(activation, dtype, h):
    for name, _ in block(h=h, activation=activation).named_parameters():
        module = block(h=h, activation=activation, dtype=dtype)
        with torch.no_grad():
            module.get_parameter(name).view(-1)[-1] = float("nan")
            assert module(inputs(1, 4, h, dtype)).isnan().any(), name


@pytest.mark.parametrize("shape", [(0, 5, 10), (2, 0, 10)])
@pytest.mark.parametrize("part", ["block", "layer"])
def test_nothing_stays_nothing(shape, part):
    module = block(dtype=torch.float32) if part == "block" else block(dtype=torch.float32).seq
    assert all(out.shape == shape for out in both(module, torch.zeros(shape)))


@pytest.mark.parametrize("shape", [(2, 5, 11), (2, 5, 9), (5, 10)])
@pytest.mark.parametrize("part", ["block", "layer"])
def test_shapes_that_do_not_fit(shape, part):
    module = block() if part == "block" else block().seq
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        module(torch.zeros(shape, dtype=torch.float64))
