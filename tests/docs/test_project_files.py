"""The files around the code agree with it: citation, workflow and commit hooks."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from pages import ROOT

import aireprune

yaml = pytest.importorskip("yaml", reason="PyYAML, which comes with transformers, is not installed: nothing was parsed")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_citation_is_of_this_version() -> None:
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert str(citation["version"]) == aireprune.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["preferred-citation"]["title"] in " ".join((ROOT / "README.md").read_text().split())


def test_the_workflow_runs_what_ci_runs() -> None:
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    (command,) = [step["run"] for step in job["steps"] if "run" in step]
    program, script = command.split()
    assert program == "bash"
    (target,) = re.findall(r"^make (\w+)$", (ROOT / script).read_text(), re.MULTILINE)
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (python,) = [step["with"]["python-version"] for step in job["steps"] if "with" in step]
    assert PROJECT["requires-python"] == f">={python}"


def test_hooks_use_the_tools_of_the_environment() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    tools = [hook["entry"].split()[0] for hook in repository["hooks"]]
    wanted = {re.split(r"\W", dependency)[0] for dependency in PROJECT["optional-dependencies"]["dev"]}
    inside = {tool.removeprefix(".venv/bin/") for tool in tools if tool.startswith(".venv/bin/")}
    assert inside == {"ruff", "mypy"}
    assert inside <= wanted
