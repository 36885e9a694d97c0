"""The operator replaces S5 modules only where nobody could tell, and never works on stale weights."""

from __future__ import annotations

import pytest
import torch
from s5_blocks import block, both, inputs, small_model
from torch_checks import check_forward_mode

from aireprune.kernels import s5_dispatch
from aireprune.kernels.s5_dispatch import fused_block, fused_features, fused_layer
from aireprune.models.s5 import S5SSM, S5Block


def test_who_asks_for_gradients_gets_none():
    module, z, model, x = block(), inputs(), small_model(), inputs(h=8, dtype=torch.float32)
    assert fused_layer(module.seq, z) is None
    assert fused_block(module, z) is None
    assert fused_features(model, x, None) is None
    with torch.no_grad():
        torch.testing.assert_close(fused_layer(module.seq, z), module.seq(z), rtol=0, atol=0)
        torch.testing.assert_close(fused_block(module, z), module(z), rtol=0, atol=0)
        torch.testing.assert_close(model.decoder(fused_features(model, x, None)), model(x), rtol=0, atol=0)


class Quiet(S5Block):
    def gate(self, y):
        return 0.1 * y


class Slow(S5SSM):
    def discrete(self):
        lam, b = super().discrete()
        return lam, 0.1 * b


@pytest.mark.parametrize("kind", [Quiet, Slow])
def test_the_equations_of_a_subclass_are_used(kind):
    module, z = block(), inputs()
    part = module if kind is Quiet else module.seq
    with torch.no_grad():
        stock = module(z)
    part.__class__ = kind
    apart, found = both(module, z)
    torch.testing.assert_close(found, apart)
    assert not torch.allclose(found, stock)
    torch.testing.assert_close(*both(part, z))


def test_in_place_is_the_same():
    module, z = block(), inputs(3, 300)
    with torch.no_grad():
        expected = module(z)
        given = z.clone()
        assert fused_block(module, given, reuse=True).data_ptr() == given.data_ptr()
        torch.testing.assert_close(given, expected, rtol=0, atol=0)
        strided = z.transpose(1, 2).contiguous().transpose(1, 2)
        torch.testing.assert_close(fused_block(module, strided, reuse=True), expected, rtol=0, atol=0)
        torch.testing.assert_close(strided, z, rtol=0, atol=0)


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
    model, x, seen = small_model(layers=3), inputs(h=8, dtype=torch.float32), []
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
    model, x, seen = small_model(mode=mode), inputs(5, h=8, dtype=torch.float32), []
    expected = model(x, lengths).detach()
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda x: (seen.append(len(x)), encode(x))[1])
    monkeypatch.setattr(s5_dispatch, "SLICE", 2 * 50 * 8 * 4)
    with torch.no_grad():
        torch.testing.assert_close(model(x, lengths), expected)
        assert seen == ([5] if mode == "tokens" else [2, 2, 1])
        model.layers[1].seq.register_forward_hook(lambda *arguments: seen.append("whole"))
        torch.testing.assert_close(model(x, lengths), expected)
    assert seen[-1] == "whole"


def test_compile_and_export():
    model, x = small_model(bidirectional=True), inputs(2, 20, 8, torch.float32)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected)
        exported = torch.export.export(model, (x,))
    assert sum(str(node.target) == "aireprune.s5_block.default" for node in exported.graph.nodes) == 2
    torch.testing.assert_close(exported.module()(x), expected)


class Doubled(torch.nn.Module):
    """Like an adapter: it has weights, and does something else with them."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.weight, self.bias = inner, inner.weight, inner.bias

    def forward(self, x):
        return 2 * self.inner(x)


def without_bias(module):
    module.out2.bias = None


REPLACED = {
    "gate": lambda module: setattr(module, "out2", Doubled(module.out2)),
    "gate without bias": without_bias,
    "no norm": lambda module: setattr(module, "norm", torch.nn.Identity()),
    "norm without weights": lambda module: setattr(module, "norm", torch.nn.LayerNorm(8, elementwise_affine=False)),
    "own forward": lambda module: setattr(module.norm, "forward", lambda z: 2 * z),
    "layer": lambda module: setattr(module, "seq", torch.nn.Identity()),
}


@pytest.mark.parametrize("name", REPLACED)
@pytest.mark.parametrize("batchnorm", [True, False])
def test_replaced_parts_of_a_block_are_used(name, batchnorm):
    module, z = block(h=8, batchnorm=batchnorm), inputs(h=8)
    REPLACED[name](module)
    torch.testing.assert_close(*both(module.double(), z))


def test_global_hooks_may_keep_what_they_see():
    model, x, seen = small_model(), inputs(h=8, dtype=torch.float32), []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda _m, _i, out: seen.append((out, out.clone())))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    assert len(seen) > 8  # the parts of the blocks too
    assert all(torch.equal(out, then) for out, then in seen)


def test_an_encoder_that_passes_on_its_input_does_not_lose_it():
    model, x = small_model(), inputs(h=8, dtype=torch.float32)
    model.encoder = torch.nn.Identity()
    kept, expected = x.clone(), model(x).detach()
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
    assert torch.equal(x, kept)


def test_a_block_with_a_forward_of_its_own_may_keep_what_it_sees():
    model, x, seen = small_model(), inputs(h=8, dtype=torch.float32), []
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
    module, z = block(), inputs()
    weight = torch.ones(10, dtype=torch.float64, requires_grad=True)
    product = (weight * z).sum()  # autograd has saved z
    with torch.no_grad():
        fused_block(module, z, reuse=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode():
    check_forward_mode(small_model(), inputs(h=8))
