"""The inside of Mamba-2 mixers is what the modules themselves compute; transformers' are in test_sites.py."""

from __future__ import annotations

import torch
from small_models import inputs, mamba2

from aireprune.calibration.calls import Call
from aireprune.calibration.head_mixers import HeadMixer, open_head_mixer
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.subject import find_subject
from aireprune.pruning.source import open_module


def test_the_inside_of_our_layers_is_known() -> None:
    subject = find_subject(open_module(mamba2()), read_inputs(inputs()))
    assert all(site.gates for site in subject.sites)


def test_another_computation_is_found_out() -> None:
    model = mamba2()
    layer = model.layers[0]
    layer.register_forward_hook(lambda module, args, output: 1.1 * output)
    subject = find_subject(open_module(model), read_inputs(inputs()))
    assert [site.gates for site in subject.sites] == [False, True]
    layer.conv1d = torch.nn.Identity()
    assert open_head_mixer(layer, subject.layers[0]) is None


def test_states_are_those_of_the_recurrence() -> None:
    model = mamba2()
    mixer = HeadMixer(model.layers[0], open_module(model).layers[0])
    with torch.no_grad():
        inside = mixer.inside(Call((torch.randn(2, 11, model.config.d_model),)))
        found = torch.stack(list(mixer.states(inside, 3)), 1)  # (b, t, H, P, N)
        y = mixer.scan(inside, inside.b, inside.c).unflatten(-1, (model.config.heads, -1))
    assert found.shape[1] == 3
    c = inside.c[:, 2:9:3].repeat_interleave(model.config.heads // model.config.n_groups, 2)
    torch.testing.assert_close(torch.einsum("bthpn,bthn->bthp", found, c), y[:, 2:9:3], rtol=1e-4, atol=1e-5)
