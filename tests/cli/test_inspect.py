"""aire inspect."""

from __future__ import annotations

import json

import pytest


def test_layers_states_and_energies(aire, s5_file):
    code, out, _ = aire("inspect", s5_file)
    assert code == 0
    assert "s5 (flax), 3 layers, 24 states" in " ".join(out.split())
    code, out, _ = aire("inspect", s5_file, "--json")
    document = json.loads(out)
    assert [layer["states"] for layer in document["layers"]] == [8, 8, 8]
    assert sum(layer["energy_share"] for layer in document["layers"]) == pytest.approx(1)
    assert all(0 < layer["stability_margin"] < 1 for layer in document["layers"])


def test_scores_need_no_configuration(aire, s5_file):
    s5_file.with_suffix(".json").unlink()
    assert aire("inspect", s5_file)[0] == 0


def test_columns_that_say_nothing_are_left_out(aire):
    """So that names, numbers and bars stand on one line of 80 columns."""
    _, out, _ = aire("inspect", "zoo:listops-s5")
    _, heads, first, *_ = out.splitlines()
    assert heads.split() == ["layer", "states", "margin", "1-|λ|", "memory", "energy"]
    assert "%  █" in first
    assert len(first) <= 80


def test_states_that_hide_the_others_are_named(aire):
    assert "5 states remember more than 100,000 steps." in " ".join(aire("inspect", "zoo:speech-s5")[1].split())
    assert "remember more" not in aire("inspect", "zoo:listops-s5")[1]


def test_a_gguf_file_is_inspected_and_not_pruned(aire, refused, tmp_path, capsys):
    pytest.importorskip("gguf")
    pytest.importorskip("transformers")
    from foreign_models import transformers_model

    import aireprune

    aireprune.export(transformers_model("Mamba", hidden_size=64, state_size=6), tmp_path / "model.gguf")
    capsys.readouterr()
    code, out, err = aire("inspect", tmp_path / "model.gguf")
    assert code == 0, err
    assert "mamba (gguf), 3 layers, 18 states" in out
    assert "a GGUF file is not changed here" in err
    refused(tmp_path / "model.gguf", "prune the folder that it was made from", suffix=".gguf")


def test_broken_archives_and_folders_end_in_one_sentence(refused, tmp_path):
    (tmp_path / "half.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    refused(tmp_path / "half.npz", "damaged or truncated", suffix=".npz")
    (tmp_path / "checkpoint_1").mkdir()
    (tmp_path / "checkpoint_1" / "manifest.ocdbt").write_bytes(b"x")
    refused(tmp_path / "checkpoint_1", "no whole Orbax checkpoint (it has no _METADATA), or files of it are missing")
