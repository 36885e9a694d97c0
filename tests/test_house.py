"""The rules of the house (docs/architecture.md), checked on the sources themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "aireprune"
TESTS = Path(__file__).parent
LEVELS = [
    {"errors", "arrays", "folders", "memory", "version"},
    {"extras", "zoo"},
    {"drawing", "cluster"},
    {"method"},
    {"families", "files", "kernels"},
    {"models"},
    {"tasks"},
    {"embedded", "training", "calibration"},
    {"pruning"},
    {"exports"},
    {"certificates"},
    {"experiments"},
    {"bench"},
    {"reports"},
    {"api"},
    {"cli"},
]
HEAVY = {"torch", "transformers", "numba", "llvmlite", "triton"}
LIGHT = {
    "errors",
    "arrays",
    "folders",
    "method",
    "families",
    "pruning",
    "reports",
    "api",
    "cli",
}  # never load these when imported
LINES = 300
PARAMETERS = 6


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """The folder, or the name of a module at the root."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def level(name: str) -> int:
    return next(number for number, rooms in enumerate(LEVELS) if name in rooms)


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module == "aireprune":
        return [f"aireprune.{alias.name}" for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def all_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        yield from imported(node)


def imports_when_loaded(path: Path) -> Iterator[str]:
    """Imports outside of functions and `if TYPE_CHECKING`."""
    for node in tree(path).body:
        yield from imported(node)


def modules_here() -> list[Path]:
    return [path for path in sources() if room(path) not in ("__init__", "__main__")]


def test_every_room_has_a_level() -> None:
    assert {room(path) for path in modules_here()} == set().union(*LEVELS)


@pytest.mark.parametrize("path", modules_here(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    """Lazy imports too: they keep heavy libraries out, they do not hide a cycle."""
    here = room(path)
    for name in all_imports(path):
        if not name.startswith("aireprune."):
            assert name != "aireprune", "the package's public surface is above everything"
            continue
        there = name.split(".")[1]
        if there == here or (here in ("api", "cli") and there.startswith("_")):
            continue
        assert level(there) < level(here), f"{here} imports {name}"


def test_the_method_is_numpy_alone() -> None:
    allowed = {"numpy", "threadpoolctl", "aireprune", "__future__"}
    plain = {"collections", "concurrent", "contextlib", "dataclasses", "fractions", "functools", "itertools", "math"}
    plain.add("typing")
    for path in (PACKAGE / "method").rglob("*.py"):
        found = {name.split(".")[0] for name in all_imports(path)}
        assert found <= allowed | plain, f"{path}: {found - allowed - plain}"


@pytest.mark.parametrize("path", modules_here(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_are_imported_when_they_are_used(path: Path) -> None:
    if room(path) not in LIGHT:
        return
    heavy = {name.split(".")[0] for name in imports_when_loaded(path)} & HEAVY
    assert not heavy
    if room(path) == "cli":
        assert "numpy" not in {name.split(".")[0] for name in imports_when_loaded(path)}


def messages(path: Path) -> Iterator[str]:
    """String constants that are not docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@pytest.mark.parametrize("path", modules_here(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_library_names_arguments_not_flags(path: Path) -> None:
    if room(path) in ("cli", "bench"):
        return
    found = [text for text in messages(path) if re.search(r"(^|[\s(])--[a-z]", text)]
    assert not found


@pytest.mark.parametrize("path", modules_here(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_short_and_functions_have_few_parameters(path: Path) -> None:
    if room(path) == "kernels":
        return
    assert len(path.read_text().splitlines()) <= LINES
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.FunctionDef) or (room(path) == "cli" and node.name == path.stem):
            continue  # a command's parameters are its flags
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        assert count <= PARAMETERS, f"{node.name} has {count} parameters"


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(TESTS.rglob("test_*.py")) if path.parent != TESTS],
    ids=lambda path: str(path.relative_to(TESTS)),
)
def test_tests_stand_where_their_subject_does(path: Path) -> None:
    where = path.relative_to(TESTS)
    if where.parts[0] in ("docs", "faults"):
        return
    subject = PACKAGE / where.parent / path.name.removeprefix("test_")
    assert subject.is_file() or subject.with_suffix("").is_dir(), f"{where} covers no module"
