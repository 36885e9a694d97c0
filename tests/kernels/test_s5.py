"""The S5 block as one operator: the same numbers as its parts, whatever the sizes, and never stale."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from aireprune.kernels import s5 as operators
from aireprune.models.s5 import S5Block, S5Config, S5Model, initialize

ACTIVATIONS = ("full_glu", "half_glu1", "half_glu2", "gelu")


def block(seed=0, h=10, modes=7, dtype=torch.float64, **changes) -> S5Block:
    config = S5Config(d_input=1, d_output=1, h=h, n=2 * max(modes, 1), layers=1, **{"bidirectional": True, **changes})
    found = initialize(S5Model(config), seed).layers[0]
    if modes == 0:
        found = S5Block(config, 0)
        torch.nn.init.normal_(found.seq.D)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (
            found.norm.weight,
            found.norm.bias,
            *(getattr(found, o).bias for o in ("out1", "out2") if hasattr(found, o)),
        ):
            tensor.add_(torch.randn(tensor.shape, generator=random) * 0.3)
        if config.batchnorm:
            found.norm.running_mean.normal_(generator=random)
            found.norm.running_var.uniform_(0.5, 2, generator=random)
    return found.to(dtype).eval()


def inputs(batch=2, length=50, h=10, dtype=torch.float64):
    return torch.randn(batch, length, h, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def both(module, z):
    """With gradients, so part by part, and without, so as one operator."""
    apart = module(z).detach()
    with torch.no_grad():
        return apart, module(z)


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


def test_weights_that_changed_are_used():
    module, z = block(), inputs()
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                continue
            before = module(z)
            tensor.data.mul_(0.9)  # unseen by version counters
            after = module(z)
            assert not torch.equal(before, after), name
            torch.testing.assert_close(*both(module, z), rtol=1e-11, atol=1e-11)


def test_parts_that_are_listened_to_run_by_themselves():
    module, z, seen = block(), inputs(), []
    expected = module(z).detach()
    with torch.no_grad():
        handle = module.seq.register_forward_hook(lambda *arguments: seen.append(arguments))
        torch.testing.assert_close(module(z), expected)
        assert len(seen) == 1
        handle.remove()
        module(z)
        assert len(seen) == 1


def test_a_model_reuses_memory_only_where_nobody_looks():
    config = S5Config(d_input=10, d_output=2, h=10, n=8, layers=3, C_init="lecun_normal")
    model, x, seen = initialize(S5Model(config)).eval(), inputs(dtype=torch.float32), []
    kept = x.clone()
    expected = model(x).detach()
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
        handles = [
            layer.register_forward_hook(lambda _m, _i, out: seen.append((out, out.clone()))) for layer in model.layers
        ]
        torch.testing.assert_close(model(x), expected)
    assert all(torch.equal(out, then) for out, then in seen)
    assert len(handles) == len(seen) == 3
    assert torch.equal(x, kept)


def test_in_place_is_the_same():
    module, z = block(), inputs(3, 300)
    with torch.no_grad():
        expected = module(z)
        given = z.clone()
        assert module(given, reuse=True).data_ptr() == given.data_ptr()
        torch.testing.assert_close(given, expected, rtol=0, atol=0)
        strided = z.transpose(1, 2).contiguous().transpose(1, 2)
        torch.testing.assert_close(module(strided, reuse=True), expected, rtol=0, atol=0)
        torch.testing.assert_close(strided, z, rtol=0, atol=0)


def test_training_mode_normalises_with_the_batch():
    module, z = block(), inputs()
    expected = both(module, z)[1]
    for part in (module, module.norm):  # the norm alone too, as test-time adaptation does
        part.train()
        with torch.no_grad():
            assert not torch.allclose(module(z), expected)
        module.eval()


@pytest.mark.parametrize("mode", ["pool", "last", "tokens"])
@pytest.mark.parametrize("lengths", [None, torch.tensor([50, 3, 20, 7, 1])])
def test_slices_of_a_batch_are_the_batch(monkeypatch, mode, lengths):
    config = S5Config(d_input=10, d_output=2, h=10, n=8, layers=2, C_init="lecun_normal", mode=mode)
    model, x, seen = initialize(S5Model(config)).eval(), inputs(5, dtype=torch.float32), []
    expected = model(x, lengths).detach()
    features = model._features
    monkeypatch.setattr(model, "_features", lambda x, lengths: (seen.append(len(x)), features(x, lengths))[1])
    monkeypatch.setattr("aireprune.models.s5.SLICE", 2 * 50 * 10 * 4)
    with torch.no_grad():
        torch.testing.assert_close(model(x, lengths), expected)
        assert seen == ([5] if mode == "tokens" else [2, 2, 1])
        model.layers[1].seq.register_forward_hook(lambda *arguments: seen.append("whole"))
        torch.testing.assert_close(model(x, lengths), expected)
    assert seen[-1] == "whole"


def test_a_padded_sequence_ends_in_zeros_not_denormals():
    module = block(dtype=torch.float32).seq
    z = inputs(2, 3000, dtype=torch.float32)
    z[:, 10:] = 0
    with torch.no_grad():
        module.log_step.fill_(0.0)
        y = module(z)
    assert (y[:, 2000:2500] == 0).all()
    assert np.float32(1e-39) * np.float32(1.0) != 0


def test_not_a_number_is_not_hidden():
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
    activation, norm = operators.ACTIVATIONS.index("full_glu"), operators.NORMS.index("pre_layer")
    layer = (*poles, 1.0, float("inf"), operators.METHODS.index("zoh"), draw(p, h, 2), readouts, 2.0, draw(h))
    arguments = (draw(2, 5, h), *layer, activation, *gates, norm, [draw(h), draw(h)], 1e-5)
    torch.library.opcheck(getattr(torch.ops.aireprune, name).default, arguments)


def test_compile_and_export():
    config = S5Config(d_input=3, d_output=2, h=6, n=8, layers=2, bidirectional=True, C_init="lecun_normal")
    model, x = initialize(S5Model(config)).eval(), inputs(2, 20, 3, torch.float32)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected)
        exported = torch.export.export(model, (x,))
    assert sum(str(node.target) == "aireprune.s5_block.default" for node in exported.graph.nodes) == 2
    torch.testing.assert_close(exported.module()(x), expected)
