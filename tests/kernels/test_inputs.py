"""What the operators do with inputs that do not fit, hold nothing, or hold something that is no number."""

from __future__ import annotations

import pytest
import torch

from aireprune.kernels.conv import causal_conv
from aireprune.kernels.s4d import s4d
from aireprune.kernels.scan import diagonal_scan
from aireprune.kernels.selective import selective_scan, selective_step
from aireprune.kernels.ssd import ssd_scan, ssd_step
from aireprune.models.mamba import MambaConfig, MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.s4d import S4DConfig, S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s5 import S5Block, S5Config, S5Model, initialize


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def s5_block_module(h=8, **changes) -> S5Block:
    config = S5Config(d_input=1, d_output=1, h=h, n=12, layers=1, bidirectional=True, **changes)
    return initialize(S5Model(config)).layers[0].eval()


def selective(dtype=torch.float32, length=6, **changes):
    """Arguments of a selective scan: 2 sequences, 20 channels, 3 states."""
    b, d, n = 2, 20, 3
    given = {
        "x": draw(b, length, d, dtype=dtype),
        "dt": draw(b, length, d, dtype=dtype),
        "A": -draw(d, n, dtype=dtype).abs(),
        "B": draw(b, length, n, dtype=dtype),
        "C": draw(b, length, n, dtype=dtype),
        "D": draw(d, dtype=dtype),
        "dt_bias": draw(d, dtype=dtype),
        "z": draw(b, length, d, dtype=dtype),
    }
    return {**given, **changes}


def ssd(**changes):
    b, length, h, p, g, n = 2, 5, 4, 3, 2, 6
    given = {
        "x": draw(b, length, h, p),
        "dt": draw(b, length, h),
        "A": -draw(h).abs(),
        "B": draw(b, length, g, n),
        "C": draw(b, length, g, n),
        "D": draw(h),
        "dt_bias": draw(h),
    }
    return {**given, **changes}


MISFITS = {
    "s5 width": lambda: s5_block_module()(draw(2, 5, 9)),
    "s5 layer width": lambda: s5_block_module().seq(draw(2, 5, 7)),
    "s5 axes": lambda: s5_block_module()(draw(5, 8)),
    "scan poles": lambda: diagonal_scan(torch.complex(draw(2), draw(2)), draw(2, 5, 8)),
    "selective A": lambda: selective_scan(**selective(A=-draw(21, 3).abs())),
    "selective B": lambda: selective_scan(**selective(B=draw(2, 6, 2))),
    "selective D": lambda: selective_scan(**selective(D=draw(8))),
    "selective z": lambda: selective_scan(**selective(z=draw(2, 6, 19))),
    "selective initial": lambda: selective_scan(**selective(initial=draw(2, 20, 2))),
    "selective step": lambda: selective_step(
        draw(2, 19, 3), draw(2, 20), draw(2, 20), -draw(20, 3).abs(), draw(2, 3), draw(2, 3), draw(20), draw(20)
    ),
    "ssd B": lambda: ssd_scan(**ssd(B=draw(2, 4, 2, 6))),
    "ssd groups": lambda: ssd_scan(**ssd(B=draw(2, 5, 3, 6), C=draw(2, 5, 3, 6))),
    "ssd step": lambda: ssd_step(
        draw(2, 4, 3, 5), draw(2, 4, 3), draw(2, 4), -draw(4).abs(), draw(2, 2, 6), draw(2, 2, 6), draw(4), draw(4)
    ),
    "conv weight": lambda: causal_conv(draw(2, 5, 32), draw(8, 1, 4), None),
    "conv before": lambda: causal_conv(draw(2, 5, 8), draw(8, 1, 4), None, draw(2, 2, 8)),
    "s4d width": lambda: s4d(*[torch.complex(draw(8, 3), draw(8, 3))] * 2, draw(8), draw(2, 5, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_shapes_that_do_not_fit_are_named_and_nothing_is_touched(name):
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \(|groups"):
        MISFITS[name]()


@pytest.mark.parametrize("shape", [(0, 5, 8), (2, 0, 8)])
@pytest.mark.parametrize("part", ["block", "layer"])
def test_an_s5_block_of_nothing_is_nothing(shape, part):
    module = s5_block_module() if part == "block" else s5_block_module().seq
    z = torch.zeros(shape)
    assert module(z).shape == shape
    with torch.no_grad():
        assert module(z).shape == shape


def test_scans_over_no_steps():
    lam, w = torch.complex(draw(8, 3), draw(8, 3)), torch.complex(draw(8, 3), draw(8, 3))
    assert s4d(lam, w, draw(8), draw(2, 0, 8)).shape == (2, 0, 8)
    for wanted in (True, False):
        arguments = ssd(
            x=draw(2, 0, 4, 3).requires_grad_(wanted), dt=draw(2, 0, 4), B=draw(2, 0, 2, 6), C=draw(2, 0, 2, 6)
        )
        y, state = ssd_scan(**arguments)
        assert y.shape == (2, 0, 4, 3)
        assert not state.any()
    y, state = selective_scan(**selective(length=0))
    assert y.shape == (2, 0, 20)
    assert not state.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["x", "dt", "A", "B", "C", "D", "dt_bias", "z"])
def test_a_selective_scan_does_not_hide_what_is_no_number(name, dtype):
    arguments = selective(dtype)
    arguments[name].view(-1)[0] = float("nan")
    y, _ = selective_scan(**arguments)
    assert y.isnan().any()
    assert not selective_scan(**selective(dtype))[0].isnan().any()


@pytest.mark.parametrize("h", [8, 35])  # with and without whole vectors
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ["full_glu", "half_glu1", "half_glu2", "gelu"])
def test_an_s5_block_does_not_hide_what_is_no_number(activation, dtype, h):
    for name, _ in s5_block_module(h, activation=activation).named_parameters():
        module = s5_block_module(h, activation=activation).to(dtype)
        with torch.no_grad():
            module.get_parameter(name).view(-1)[-1] = float("nan")
            assert module(draw(1, 4, h, dtype=dtype)).isnan().any(), name


class Doubled(torch.nn.Module):
    """Like an adapter: it has weights, and does something else with them."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.weight, self.bias = inner, inner.weight, inner.bias

    def forward(self, x):
        return 2 * self.inner(x)


def without_bias(block):
    block.out2.bias = None


REPLACED = {
    "gate": lambda block: setattr(block, "out2", Doubled(block.out2)),
    "gate without bias": without_bias,
    "no norm": lambda block: setattr(block, "norm", torch.nn.Identity()),
    "norm without weights": lambda block: setattr(block, "norm", torch.nn.LayerNorm(8, elementwise_affine=False)),
    "own forward": lambda block: setattr(block.norm, "forward", lambda z: 2 * z),
    "layer": lambda block: setattr(block, "seq", torch.nn.Identity()),
}


@pytest.mark.parametrize("name", REPLACED)
@pytest.mark.parametrize("batchnorm", [True, False])
def test_replaced_parts_of_a_block_are_used(name, batchnorm):
    block, z = s5_block_module(batchnorm=batchnorm), draw(2, 5, 8)
    REPLACED[name](block)
    with torch.no_grad():
        fused = block(z)
    torch.testing.assert_close(fused, block(z).detach())


def small_model(**changes):
    config = S5Config(d_input=8, d_output=2, h=8, n=12, layers=2, C_init="lecun_normal", **changes)
    return initialize(S5Model(config)).eval()


def test_global_hooks_may_keep_what_they_see():
    model, x, seen = small_model(), draw(2, 5, 8), []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda _m, _i, out: seen.append((out, out.clone())))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    assert len(seen) > 8  # the parts of the blocks too
    assert all(torch.equal(out, then) for out, then in seen)


def test_an_encoder_that_passes_on_its_input_does_not_lose_it():
    model, x = small_model(), draw(2, 5, 8)
    model.encoder = torch.nn.Identity()
    kept, expected = x.clone(), model(x).detach()
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
    assert torch.equal(x, kept)


def test_a_block_with_a_forward_of_its_own_may_keep_what_it_sees():
    model, x, seen = small_model(), draw(2, 5, 8), []
    stock = model.layers[0].forward

    def forward(z):
        seen.append(stock(z))
        return seen[0]

    model.layers[0].forward = forward
    with torch.no_grad():
        model(x)
        kept = seen[0].clone()
        seen.clear()
        model(x)
    assert torch.equal(seen[0], kept)


def test_memory_that_is_reused_is_seen_to_change():
    block, z = s5_block_module(), draw(2, 5, 8)
    weight = torch.ones(8, requires_grad=True)
    product = (weight * z).sum()  # autograd has saved z
    with torch.no_grad():
        block(z, reuse=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode_derivatives_are_those_of_the_reference():
    models = {
        "s5": small_model(),
        "s4d": initialize_s4d(S4DModel(S4DConfig(8, 2, 8, 4, 1))).eval(),
        "mamba": initialize_mamba(MambaModel(MambaConfig(8, 2, 8, 1, d_state=3))).eval(),
    }
    for name, model in models.items():
        model = model.double()
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        x, direction = draw(2, 5, 8, dtype=torch.float64), draw(1, 5, 8, dtype=torch.float64).expand(2, 5, 8)
        _, tangent = torch.func.jvp(model, (x,), (direction.contiguous(),))
        step = 1e-6
        numeric = (model(x + step * direction) - model(x - step * direction)) / (2 * step)
        torch.testing.assert_close(
            tangent, numeric, rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("which", ["bias", "before"])
def test_the_convolution_has_gradients_of_everything(which):
    u, weight = draw(2, 5, 8), draw(8, 1, 4)
    optional = {"bias": draw(8), "before": draw(2, 3, 8)}
    optional[which].requires_grad_()
    causal_conv(u, weight, **optional).sum().backward()
    assert optional[which].grad is not None


@pytest.mark.parametrize("mode", ["pool", "last"])
@pytest.mark.parametrize("lengths", [[0, 3], [2, 6]])
def test_lengths_beyond_the_sequence_are_refused(mode, lengths):
    with torch.no_grad(), pytest.raises(ValueError, match="between 1 and 5"):
        small_model(mode=mode)(draw(2, 5, 8), torch.tensor(lengths))


def test_a_cache_holds_the_last_inputs_only():
    model = initialize_mamba(MambaModel(MambaConfig(8, 2, 8, 1, d_state=3))).eval()
    layer = model.layers[0]
    cache = layer.new_cache(2)
    with torch.no_grad():
        layer(draw(2, 500, 8), cache)
    assert cache.inputs.untyped_storage().nbytes() <= 2 * cache.inputs.numel() * 4


def test_s4d_exports_with_any_length():
    model = initialize_s4d(S4DModel(S4DConfig(8, 2, 8, 4, 1))).eval()
    with torch.no_grad():
        length = torch.export.Dim("length", min=2, max=4096)
        exported = torch.export.export(model, (draw(2, 9, 8),), dynamic_shapes={"x": {1: length}})
        torch.testing.assert_close(exported.module()(draw(2, 30, 8)), model(draw(2, 30, 8)))
