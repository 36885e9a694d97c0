"""What the commands print with --json is what docs/schema.json says, and the schema knows every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from json_schema import COMMANDS, DOCUMENT, check

from aireprune import cli
from aireprune.cli.output import SCHEMA

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: nothing was checked")


@pytest.fixture
def printed(aire):
    def run(*arguments: object) -> Any:
        code, out, err = aire(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


def test_the_schema_is_one_and_of_this_version() -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT)
    versions = {command["properties"]["schema"]["const"] for command in COMMANDS.values() if "$ref" not in command}
    assert versions == {SCHEMA}


def test_every_command_is_described() -> None:
    named = {command.__name__ for command in cli.COMMANDS} - {"reproduce"}  # writes a page
    assert set(COMMANDS) == named | {"dry_run", "bench"}


@pytest.mark.parametrize("arguments", [("methods",), ("tasks",), ("zoo",), ("inspect", "zoo:lm-mamba")], ids=" ".join)
def test_lists(printed, arguments: tuple[str, ...]) -> None:
    check(arguments[0], printed(*arguments))


def test_from_a_plan_to_a_page(printed, tmp_path: Path) -> None:
    out, full = tmp_path / "out", "zoo:smnist-s5"
    check("score", printed("score", full, "--top", 2))
    check("dry_run", printed("prune", full, "-o", out, "--ratio", 0.5, "--dry-run"))
    assert not out.exists()
    pruned = printed("prune", full, "-o", out, "--ratio", 0.5, "--task", "digits")
    check("prune", pruned)
    assert pruned["metric"]["name"] == "accuracy"
    check("eval", printed("eval", out, "--against", full, "--task", "digits", "--count", 10))
    check("certify", printed("certify", out, "--data", "digits", "--examples", 4))
    check("report", printed("report", out))
    check("explore", printed("explore", full, "-o", tmp_path / "e.html"))


def test_a_ratio_that_was_found(printed, tmp_path: Path) -> None:
    small = ("--calibrate", "digits", "--calibrate-count", 16)
    check(
        "prune", printed("prune", "zoo:smnist-s5", "-o", tmp_path / "o", "--max-drop", 60, "--task", "digits", *small)
    )


def test_a_sweep(printed, tmp_path: Path) -> None:
    arguments = ("--task", "digits", "--methods", "aire,random", "--seeds", 2, "--ratios", 0.5, "--examples", 10)
    check("sweep", printed("sweep", "zoo:smnist-s5", "-o", tmp_path / "sweep", *arguments))


@pytest.mark.parametrize("key", ["plan", "metric"])
def test_what_is_missing_is_noticed(printed, tmp_path: Path, key: str) -> None:
    document = printed("prune", "zoo:smnist-s5", "-o", tmp_path / "o", "--ratio", 0.5)
    document[key] = {}
    with pytest.raises(jsonschema.ValidationError):
        check("prune", document)
