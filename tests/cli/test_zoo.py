"""aire zoo."""

from __future__ import annotations

import json

from aireprune import zoo


def test_the_models_and_a_command_to_try(aire, tmp_path):
    code, out, err = aire("zoo")
    assert code == 0, err
    assert all(f"zoo:{name}" in out for name in zoo.names())
    assert "accuracy 99.51 %" in out
    command = out.splitlines()[-1].partition("aire ")[2].replace("smaller", str(tmp_path / "smaller")).split()
    code, shown, err = aire(*command)
    assert code == 0, err
    assert "500 test examples" in shown


def test_json(aire):
    listed = json.loads(aire("zoo", "--json")[1])["models"]
    assert [model["name"] for model in listed] == [f"zoo:{name}" for name in zoo.names()]
