"""Hugging Face folders: masked = removed = padded, and what stock transformers makes of the result."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import aireprune
from aireprune.errors import AireError

transformers = pytest.importorskip("transformers")

KINDS = ("mamba", "mamba2", "falcon_mamba", "jamba")
LAYOUTS = ("adaptive", "uniform", "padded")


def tiny(kind):
    """A small random model whose states differ enough to be ranked."""
    torch.manual_seed(0)
    common = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3}
    if kind == "mamba":
        model = transformers.MambaForCausalLM(transformers.MambaConfig(**common, state_size=16))
    elif kind == "mamba2":
        sizes = {"state_size": 16, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8}
        model = transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**common, **sizes))
    elif kind == "falcon_mamba":
        model = transformers.FalconMambaForCausalLM(transformers.FalconMambaConfig(**common, state_size=16))
    else:
        config = transformers.JambaConfig(
            **{**common, "num_hidden_layers": 4},
            intermediate_size=32,
            num_attention_heads=2,
            num_key_value_heads=1,
            mamba_d_state=16,
            mamba_dt_rank=4,
            attn_layer_period=4,
            attn_layer_offset=2,
            num_experts=2,
            use_mamba_kernels=False,
        )
        model = transformers.JambaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("x_proj.weight", "in_proj.weight", "A_log")):
                parameter.mul_(1 + 0.5 * torch.randn_like(parameter))
            if "A_log" in name and "layers.1." in name:
                parameter.add_(2)  # one layer forgets faster, so that adaptive sizes differ
    return model.eval()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf")
    for kind in KINDS:
        tiny(kind).save_pretrained(folder / kind)
    return folder


def tokens():
    return torch.randint(0, 50, (2, 13), generator=torch.Generator().manual_seed(1))


def relative(a, b):
    return float(torch.linalg.norm(a - b) / torch.linalg.norm(b))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_masked_is_removed_is_reloaded(folders, tmp_path, kind, layout):
    model = aireprune.load(folders / kind)
    plan = aireprune.prune_file(folders / kind, tmp_path / "out", ratio=0.6, layout=layout)
    masked, removed = aireprune.prune(model, plan, mask=True), aireprune.prune(model, plan)
    reloaded = aireprune.load(tmp_path / "out")
    with torch.no_grad():
        expected = masked(tokens()).logits
        assert relative(removed(tokens()).logits, expected) < 1e-5
        assert relative(reloaded(tokens()).logits, expected) < 1e-5
        assert relative(model(tokens()).logits, expected) > 1e-5  # pruning did something
        greedy = {"max_new_tokens": 5, "do_sample": False}
        assert torch.equal(reloaded.generate(tokens(), **greedy), masked.generate(tokens(), **greedy))


@pytest.mark.parametrize("kind", KINDS)
def test_adaptive_sizes_are_written_down(folders, tmp_path, kind):
    plan = aireprune.prune_file(folders / kind, tmp_path / "out", ratio=0.6, layout="adaptive")
    groups = 2 if kind == "mamba2" else 1
    sizes = [len(layer.kept) // groups for layer in plan.layers]
    assert len(set(sizes)) > 1
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    key = "mamba_d_state" if kind == "jamba" else "state_size"
    numbers = [int(layer.name.split(".")[2]) for layer in plan.layers]
    assert {int(n): layer[key] for n, layer in config["per_layer_config"].items()} == dict(
        zip(numbers, sizes, strict=True)
    )


STOCK = """
import sys
sys.modules["aireprune"] = None  # any import of it fails
import numpy, torch, transformers
model = getattr(transformers, sys.argv[2]).from_pretrained(sys.argv[1]).eval()
x = torch.from_numpy(numpy.load(sys.argv[3]))
with torch.no_grad():
    numpy.save(sys.argv[4], model(x).logits.numpy())
    numpy.save(sys.argv[5], model.generate(x, max_new_tokens=5, do_sample=False).numpy())
"""


@pytest.mark.parametrize("layout", ["uniform", "padded"])
@pytest.mark.parametrize("kind", KINDS)
def test_stock_transformers_loads_uniform_and_padded(folders, tmp_path, kind, layout):
    plan = aireprune.prune_file(folders / kind, tmp_path / "out", ratio=0.6, layout=layout)
    masked = aireprune.prune(aireprune.load(folders / kind), plan, mask=True)
    np.save(tmp_path / "x.npy", tokens().numpy())
    names = [str(tmp_path / name) for name in ("out", "x.npy", "logits.npy", "generated.npy")]
    arguments = [names[0], type(masked).__name__, *names[1:]]
    done = subprocess.run([sys.executable, "-c", STOCK, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        assert relative(torch.from_numpy(np.load(tmp_path / "logits.npy")), masked(tokens()).logits) < 1e-5
        generated = masked.generate(tokens(), max_new_tokens=5, do_sample=False).numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "generated.npy"), generated)


def test_stock_transformers_refuses_adaptive_sizes_loudly(folders, tmp_path):
    """Never a model with silently reinitialised tensors."""
    aireprune.prune_file(folders / "mamba", tmp_path / "out", ratio=0.6, layout="adaptive")
    with pytest.raises(Exception, match=r"per-layer attribute|mismatch"):
        transformers.MambaForCausalLM.from_pretrained(tmp_path / "out")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_ties_survive(tmp_path, dtype):
    model = tiny("mamba").to(dtype)
    model.save_pretrained(tmp_path / "in", max_shard_size="20KB")
    assert len(list((tmp_path / "in").glob("model-*.safetensors"))) > 1
    aireprune.prune_file(tmp_path / "in", tmp_path / "out", ratio=0.5, layout="uniform")
    pruned = aireprune.load(tmp_path / "out")
    assert {p.dtype for p in pruned.parameters()} == {dtype}
    assert pruned.lm_head.weight is pruned.get_input_embeddings().weight
    for name, tensor in model.state_dict().items():
        if not name.endswith(("A_log", "x_proj.weight")):
            assert torch.equal(tensor, pruned.state_dict()[name]), name


def test_rounding_to_a_multiple(folders, tmp_path):
    plan = aireprune.prune_file(folders / "mamba2", tmp_path / "out", ratio=0.7, round_to=8)
    assert [len(layer.kept) for layer in plan.layers] == [16, 16, 16]  # 8 in each of two groups


def test_a_dead_layer_and_a_layer_with_one_state(tmp_path):
    model = tiny("mamba")
    with torch.no_grad():
        model.backbone.layers[1].mixer.x_proj.weight.zero_()
    model.save_pretrained(tmp_path / "dead")
    plan = aireprune.prune_file(tmp_path / "dead", tmp_path / "out", ratio=0.9)
    assert all(len(layer.kept) >= 1 for layer in plan.layers)
    masked = aireprune.prune(model, plan, mask=True)
    with torch.no_grad():
        assert relative(aireprune.load(tmp_path / "out")(tokens()).logits, masked(tokens()).logits) < 1e-5
    single = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, state_size=1)
    )
    single.save_pretrained(tmp_path / "single")
    plan = aireprune.prune_file(tmp_path / "single", tmp_path / "one", ratio=1.0)
    assert [layer.kept for layer in plan.layers] == [(0,), (0,)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_emptied_layer_runs(folders, tmp_path, kind):
    plan = aireprune.prune_file(folders / kind, tmp_path / "out", ratio=1.0, min_states=0, epsilon=1.0)
    assert plan.kept == 0
    masked = aireprune.prune(aireprune.load(folders / kind), plan, mask=True)
    with torch.no_grad():
        assert relative(aireprune.load(tmp_path / "out")(tokens()).logits, masked(tokens()).logits) < 1e-5


@pytest.mark.parametrize("kind", ["mamba2", "falcon_mamba"])
def test_a_weight_file_belongs_to_the_configuration_beside_it(folders, tmp_path, kind):
    """Groups and norms without weights leave no trace in the tensors."""
    whole = aireprune.prune_file(folders / kind, tmp_path / "folder", ratio=0.6, layout="uniform")
    aireprune.prune_file(
        folders / kind / "model.safetensors", tmp_path / "out.safetensors", ratio=0.6, layout="uniform"
    )
    alone = aireprune.Plan.load(tmp_path / "out.plan.json")
    assert [layer.kept for layer in alone.layers] == [layer.kept for layer in whole.layers]
    a, b = (load_file(path) for path in (tmp_path / "folder" / "model.safetensors", tmp_path / "out.safetensors"))
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("leaf", ["A_log", "x_proj.weight", "dt_proj.weight", "dt_proj.bias"])
def test_a_layer_that_lacks_a_tensor_is_not_passed_over(folders, tmp_path, leaf):
    tensors = load_file(folders / "mamba" / "model.safetensors")
    del tensors[f"backbone.layers.1.mixer.{leaf}"]
    save_file(tensors, tmp_path / "in.safetensors")
    with pytest.raises(AireError, match=rf"layers\.1\.mixer\.{leaf} is missing"):
        aireprune.plan(tmp_path / "in.safetensors", ratio=0.5)


def test_a_mamba_ssm_folder(folders, tmp_path):
    """state-spaces/mamba-*: no model_type, d_state in ssm_cfg."""
    (tmp_path / "in").mkdir()
    tensors = load_file(folders / "mamba" / "model.safetensors")
    save_file(tensors, tmp_path / "in" / "model.safetensors")
    (tmp_path / "in" / "config.json").write_text(json.dumps({"d_model": 32, "n_layer": 3, "ssm_cfg": {}}))
    plan = aireprune.prune_file(tmp_path / "in", tmp_path / "out", ratio=0.6, layout="adaptive")
    sizes = {str(number): {"d_state": len(layer.kept)} for number, layer in enumerate(plan.layers)}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["per_layer_config"] == sizes
    with pytest.raises(AireError, match="no model_type"):
        aireprune.load(tmp_path / "out")


def test_an_attention_model_has_no_states(tmp_path):
    config = transformers.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(AireError, match=r"No state space layer was found in .*gpt2") as caught:
        aireprune.plan(tmp_path / "gpt2", ratio=0.5)
    for name in ("Lambda_re", "A_log", "x_proj.weight", "log_A_real", "nu_log"):
        assert name in str(caught.value)


def copied(folders, tmp_path, **changes):
    """A Mamba folder with another configuration."""
    shutil.copytree(folders / "mamba", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, **changes}))
    return tmp_path / "model"


def test_code_that_a_folder_brings_along_is_never_run(folders, tmp_path, monkeypatch):
    """An unknown model type with auto_map: transformers would ask on standard input, and 'y' would run the code."""
    changes = {"model_type": "stranger", "architectures": None, "auto_map": {"AutoModel": "modeling.Model"}}
    folder = copied(folders, tmp_path, **changes)
    (folder / "modeling.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *given: "y")
    with pytest.raises(AireError, match="transformers cannot load it"):
        aireprune.load(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("architectures", "message"),
    [
        ("MambaForCausalLM", "expected a list of class names"),
        ([7], "expected a list of class names"),
        (["AutoTokenizer"], "not a model class of transformers"),
        (["pipeline"], "not a model class of transformers"),
        (["NoSuchModel"], "has no NoSuchModel"),
        (["BertModel"], "transformers"),
    ],
)
def test_odd_architectures_are_refused(folders, tmp_path, architectures, message):
    with pytest.raises(AireError, match=message):
        aireprune.load(copied(folders, tmp_path, architectures=architectures))


def test_bars_of_transformers_stay_out_of_logs(folders, capsys):
    logging = pytest.importorskip("transformers.utils.logging")
    capsys.readouterr()
    aireprune.load(folders / "mamba")
    assert "Loading" not in capsys.readouterr().err
    assert logging.is_progress_bar_enabled()
