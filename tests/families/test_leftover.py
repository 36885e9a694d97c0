"""Customised layers: what is not known and may hold states is refused by name, unless it was declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_models import MODELS
from helpers import GOLDEN, GOLDEN_NAMES, Shapes

from aireprune import zoo
from aireprune.errors import AireError
from aireprune.families import FAMILIES, Layer, StateAxes, Units, find_layers
from aireprune.families.cuts import AxisCut, RaggedCut
from aireprune.files import open_checkpoint
from aireprune.pruning.source import open_file, open_module

N, H = 5, 3  # states and channels; no other size in these layers is 5, 10 or what else points to states
ZOO = [zoo.FOLDER / name for name in zoo.names()]

LAYERS: dict[str, dict[str, tuple[int, ...]]] = {  # the smallest layer of each layout, under the prefix m.0.
    "mamba": {"A_log": (H, N), "x_proj.weight": (2 + 2 * N, H), "dt_proj.weight": (H, 2), "dt_proj.bias": (H,)},
    "mamba2": {
        "A_log": (3,),
        "dt_bias": (3,),
        "in_proj.weight": (21 + 21 + 2 * N + 3, 4),
        "conv1d.weight": (21 + 2 * N, 1, 4),
        "out_proj.weight": (4, 21),
    },
    "s5": {"Lambda_re": (N,), "Lambda_im": (N,), "log_step": (N, 1), "B": (N, H, 2), "C": (H, N, 2)},
    "s5_bidirectional": {
        "Lambda_re": (N,),
        "Lambda_im": (N,),
        "log_step": (N, 1),
        "B": (N, H, 2),
        "C1": (H, N, 2),
        "C2": (H, N, 2),
    },
    "s4d": {"log_A_real": (H, N), "A_imag": (H, N), "C": (H, N, 2), "log_dt": (H,)},
    "s4d_repository": {
        "A_real": (H, N),
        "A_imag": (H, N),
        "B": (1, H, N, 2),
        "C": (1, H, N, 2),
        "inv_dt": (H, 1),
        "l_kernel": (),
    },
    "lru": {
        "nu_log": (N,),
        "theta_log": (N,),
        "gamma_log": (N,),
        "B_re": (N, H),
        "B_im": (N, H),
        "C_re": (H, N),
        "C_im": (H, N),
    },
}


class Zeros(Shapes):
    def __getitem__(self, name: str) -> np.ndarray:
        return np.zeros(self.shapes[name])


def found(layout: str, *axes: str, granularity: str = "state", **further: tuple[int, ...]) -> Layer[Any]:
    """The layer of a layout with further tensors (a dot in a name is written as __)."""
    named = {name.replace("__", "."): shape for name, shape in further.items()}
    shapes = {f"m.0.{name}": shape for name, shape in {**LAYERS[layout], **named}.items()}
    units = Units(granularity=granularity, state_axes=StateAxes.parse(axes))
    (layer,) = find_layers(Zeros(shapes), {}, units)
    return layer


@pytest.mark.parametrize("layout", LAYERS)
@pytest.mark.parametrize("shape", [(N,), (2 * N,), (13, N), (N, 13)])
def test_an_unknown_tensor_along_the_states_is_refused(layout: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(AireError) as refused:
        found(layout, extra=shape)
    for part in ("Layer m.0 ", f"extra {shape}", f"'extra={int(shape[0] == 13)}'", "'NAME=none'"):
        assert part in str(refused.value)
    assert found(layout, "extra=none", extra=shape).declared == {}


@pytest.mark.parametrize(
    ("layout", "shape"),
    [("mamba", (2 + N,)), ("mamba", (2 + 2 * N, 13)), ("mamba2", (21 + N,)), ("mamba2", (13, 21 + 2 * N))],
)
def test_so_is_one_with_the_states_behind_other_rows(layout: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(AireError, match="extra"):
        found(layout, extra=shape)


@pytest.mark.parametrize(
    ("layout", "twin"),
    [
        ("mamba", "A_log_bwd"),
        ("mamba", "A_b_log"),
        ("mamba", "x_proj_b__weight"),
        ("mamba", "x_proj2__weight"),
        ("mamba", "dt_proj_b__bias"),
        ("mamba", "B_base"),
        ("mamba", "C_base"),
        ("mamba2", "A_log_b"),
        ("mamba2", "conv1d_b__weight"),
        ("mamba2", "C_norm__weight"),
        ("s5", "Lambda_re_b"),
        ("s5", "B_base"),
        ("s5_bidirectional", "C3"),
        ("s4d", "log_A_real_rev"),
        ("s4d_repository", "C_bwd"),
        ("lru", "nu_log_2"),
        ("lru", "B_re_back"),
    ],
)
def test_a_twin_of_a_known_tensor_is_refused_whatever_its_shape(layout: str, twin: str) -> None:
    with pytest.raises(AireError, match=rf"m\.0 .*{twin.replace('__', '.')} \(4, 13\)"):
        found(layout, **{twin: (4, 13)})
    found(layout, f"{twin.replace('__', '.')}=none", **{twin: (4, 13)})


@pytest.mark.parametrize("layout", LAYERS)
def test_other_tensors_are_left_alone(layout: str) -> None:
    """Unknown ones of other sizes; stock ones of any size; those of modules beside the layer."""
    stock = FAMILIES[layout.split("_")[0]].stock - set(LAYERS[layout]) - {"norm.weight"}  # which says what d is
    layer = found(layout, alpha=(), gate__weight=(13, 3), **{name.replace(".", "__"): (N, 2 * N) for name in stock})
    assert layer.declared == {}
    shapes = {f"m.0.{name}": shape for name, shape in LAYERS[layout].items()}
    find_layers(Zeros({**shapes, "m.00.extra": (N,), "m.mlp.weight": (N, N), "extra": (N,)}), {})


def test_the_tensors_of_a_layer_inside_another_are_its_own() -> None:
    outer = {f"m.{name}": shape for name, shape in LAYERS["mamba"].items()}
    inner = {f"m.inner.{name}": shape for name, shape in LAYERS["lru"].items()}
    assert len(find_layers(Zeros({**outer, **inner, "m.inner.D": (N,)}), {})) == 2


def test_every_suspect_is_listed_with_what_to_declare() -> None:
    with pytest.raises(AireError) as refused:
        found("mamba", B_base=(N,), C_base=(N,), sel_bias_BC=(2 * N,), snr_proj__weight=(2 + N, 4))
    assert "state_axis=['B_base=0', 'C_base=0', 'sel_bias_BC=0', 'snr_proj.weight=0']" in str(refused.value)


@pytest.mark.parametrize("layout", LAYERS)
def test_declared_tensors_are_cut_with_the_layer(layout: str) -> None:
    layer = found(layout, "extra=1", "m.0.gates=0", extra=(13, N), gates=(2 * N, 3))
    cuts = FAMILIES[layer.family].cuts(layer)
    assert {"m.0.extra", "m.0.gates"} < set(cuts)
    kept, extra, gates = np.array([0, 3]), np.arange(13.0 * N).reshape(13, N), np.arange(6.0 * N).reshape(2 * N, 3)
    np.testing.assert_array_equal(cuts["m.0.extra"].remove(extra, kept), extra[:, kept])
    np.testing.assert_array_equal(cuts["m.0.gates"].remove(gates, kept), gates[[0, 3, N, N + 3]])
    masked = cuts["m.0.extra"].mask(extra, kept)
    np.testing.assert_array_equal(masked[:, kept], extra[:, kept])
    assert not masked[:, [1, 2, 4]].any()
    padded = cuts["m.0.gates"].remove(gates, kept, 3)
    np.testing.assert_array_equal(padded[[0, 1, 3, 4]], gates[[0, 3, N, N + 3]])
    assert not padded[[2, 5]].any()


def test_rows_of_a_packed_projection() -> None:
    layer = found("mamba", "one.weight=0", "two.bias=0", one__weight=(2 + N, 4), two__bias=(2 + 2 * N,))
    one, two = (layer.declared[name] for name in ("m.0.one.weight", "m.0.two.bias"))
    assert one.remove(np.arange(2 + N), np.array([1, 4])).tolist() == [0, 1, 3, 6]
    assert two.remove(np.arange(2 + 2 * N), np.array([0])).tolist() == [0, 1, 2, 2 + N]


def test_a_length_that_can_be_read_in_two_ways_is_not_guessed() -> None:
    """With rank = states, twice the states is as long as rank and states."""
    shapes = {"A_log": (H, 2), "x_proj.weight": (6, H), "dt_proj.weight": (H, 2), "dt_proj.bias": (H,), "extra": (4,)}
    with pytest.raises(AireError, match=r"extra \(4,\).*their axis is 2 or 6 long"):
        find_layers(Shapes(shapes), {}, Units(state_axes=StateAxes.parse("extra=0")))


def test_channels_that_choose_their_own_modes() -> None:
    """A tensor of S4D with a channel axis is cut row by row; one without cannot be, except by whole states."""
    layer = found("s4d", "extra=1", granularity="mode", extra=(H, N))
    cut = layer.declared["m.0.extra"]
    assert isinstance(cut, RaggedCut)
    values, kept = np.arange(1.0, H * N + 1).reshape(H, N), np.array([0, 2, N + 1, 2 * N + 3, 2 * N + 4])
    np.testing.assert_array_equal(cut.remove(values, kept), [[1, 3], [N + 2, 0], [2 * N + 4, 2 * N + 5]])
    with pytest.raises(AireError, match="granularity='state'"):
        found("s4d", "extra=0", granularity="mode", extra=(N,))
    assert isinstance(found("s4d", "extra=0", extra=(N,)).declared["m.0.extra"], AxisCut)


def test_groups_choose_their_own_states() -> None:
    shapes = {"A_log": (4,), "dt_bias": (4,), "in_proj.weight": (8 + 8 + 4 * N + 4, 3), "out_proj.weight": (3, 8)}
    shapes |= {"conv1d.weight": (8 + 4 * N, 1, 4), "all": (2 * N,), "one": (N,)}
    config = {"n_groups": 2}
    (layer,) = find_layers(Shapes(shapes), config, Units(state_axes=StateAxes.parse(["all=0", "one=none"])))
    padded = layer.declared["all"].remove(np.arange(1, 2 * N + 1), np.array([1, N + 2]), 2)
    assert padded.tolist() == [2, 0, N + 3, 0]
    with pytest.raises(AireError, match=r"one \(5,\).*their axis is 10 or 20 or 18 or 28 long"):
        find_layers(Shapes(shapes), config, Units(state_axes=StateAxes.parse(["all=0", "one=0"])))


@pytest.mark.parametrize("further", [{"b_layernorm.weight": (N,), "c_layernorm.weight": (N,)}, {}])
def test_norms_over_the_states_leave_no_room_for_further_tensors(further: dict[str, tuple[int, ...]]) -> None:
    shapes = {**LAYERS["mamba"], **further, "B_base": (N,), "D": (H,), "out_proj.weight": (4, H)}
    config = {} if further else {"model_type": "falcon_mamba"}
    with pytest.raises(AireError, match="norms over its states"):
        find_layers(Shapes(shapes), config, Units(state_axes=StateAxes.parse("B_base=0")))
    find_layers(Shapes(shapes), config, Units(state_axes=StateAxes.parse("B_base=none")))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["extra=0", "etxra=0"], "names etxra, but there is no such tensor"),
        (["extra=0", "A_log=1"], "names A_log, .* known already"),
        (["extra=1"], r"axis 1 of m\.0\.extra \(5,\)"),
        (["gate=0"], r"axis 0 of m\.0\.gate \(13,\).*their axis is 5 or 10 or 7 or 12 long"),
        (["extra"], "expected 'NAME=AXIS'"),
        (["extra=-1"], "expected 'NAME=AXIS'"),
        (["=0"], "expected 'NAME=AXIS'"),
        ([0], "expected 'NAME=AXIS'"),
        (["extra=0", "extra=none"], "names extra twice"),
    ],
)
def test_bad_declarations_are_named(axes: list[Any], message: str) -> None:
    with pytest.raises(AireError, match=message):
        found("mamba", *axes, extra=(N,), gate=(13,))


def test_the_more_specific_declaration_counts() -> None:
    two = {f"m.{i}.{name}": shape for i in range(2) for name, shape in {**LAYERS["mamba"], "extra": (N,)}.items()}
    axes = StateAxes.parse(["extra=0", "m.1.extra=none"])
    assert StateAxes.parse(axes.texts) == axes
    first, second = find_layers(Shapes(two), {}, Units(state_axes=axes))
    assert set(first.declared) == {"m.0.extra"}
    assert second.declared == {}


def test_a_layer_without_states_has_none_to_lose() -> None:
    shapes = {"A_log": (H, 0), "x_proj.weight": (2, H), "dt_proj.weight": (H, 2), "dt_proj.bias": (H,)}
    find_layers(Shapes({**shapes, "B_base": (0,), "gate": (2,)}), {})
    axes = StateAxes.parse("B_base=0")
    (layer,) = find_layers(Shapes({**shapes, "B_base": (0,)}), {}, Units(state_axes=axes))
    assert set(layer.declared) == {"B_base"}


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", MODELS)
def test_models_of_other_libraries_are_plain(name: str) -> None:
    assert open_module(MODELS[name]()).layers


@pytest.mark.parametrize("layernorms", [False, True])
def test_mambapy_is_plain(layernorms: bool) -> None:
    from mambapy.mamba import Mamba, MambaConfig

    config = MambaConfig(d_model=8, n_layers=2, d_state=8, inner_layernorms=layernorms)
    assert len(open_module(Mamba(config)).layers) == 2


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("both", [False, True])
def test_s5_pytorch_is_plain(both: bool) -> None:
    from s5 import S5Block

    assert len(open_module(S5Block(8, 8, bidir=both)).layers) == 1


@pytest.mark.parametrize(
    "path", [*ZOO, *(GOLDEN / f"{name}.msgpack" for name in GOLDEN_NAMES)], ids=lambda path: path.name
)
def test_checkpoints_of_the_repository_are_plain(path: Path) -> None:
    source = open_file(open_checkpoint(path))
    known = {name for layer in source.layers for name in layer.arrays.values()}
    for layer in source.layers:
        for name in source.arrays.shapes:
            if name.startswith(f"{layer.name}.") and name not in known:
                assert layer.relative(name) in FAMILIES[layer.family].stock
