"""docs/method.md has every section and every equation that the code cites, and every section it cites itself."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pages import METHOD, PACKAGE, ROOT, headings

CITATION = re.compile(r"docs/method\.md,? sections? (\d+(?:\.\d+)?)(?:(?:,| and| to) (\d+(?:\.\d+)?))?")
EQUATION = re.compile(r"(?<![\w\])])\[([A-Za-z]+(?:-[A-Za-z]+)*)\]")
CITING = ("method", "families", "calibration", "certificates")  # folders whose docstrings name equations


def numbers() -> set[str]:
    return {found.group(1) for heading in headings(METHOD) if (found := re.match(r"(\d+(?:\.\d+)?)\.? ", heading))}


def sources(*folders: Path) -> Iterator[Path]:
    return (path for folder in folders for path in sorted(folder.rglob("*.py")))


def cited(text: str) -> set[str]:
    """Section numbers that a text cites, wherever its lines break."""
    flat = re.sub(r"\s+(?:# )?", " ", text)
    return {number for found in CITATION.findall(flat) for number in found if number}


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def test_cited_sections_exist() -> None:
    known, where = numbers(), {}
    for path in sources(PACKAGE, ROOT / "tests", ROOT / "tools"):
        where |= dict.fromkeys(cited(path.read_text()), str(path.relative_to(ROOT)))
    assert {"1", "2", "3", "4", "5"} <= where.keys()  # the search finds what is there
    assert {number: path for number, path in where.items() if number not in known} == {}


def test_sections_are_numbered_in_order() -> None:
    found = [
        tuple(map(int, number.split("."))) for number in re.findall(r"^#+ (\d+(?:\.\d+)?)", METHOD.read_text(), re.M)
    ]
    assert found == sorted(set(found))
    assert set(re.findall(r"(?:\(|section )(\d\.\d)\b(?!\d)", METHOD.read_text())) <= numbers()


def test_cited_equations_are_defined_once() -> None:
    defined = Counter(re.findall(r"\*\*\[([\w-]+)\]\*\*", METHOD.read_text()))
    used = {
        name: str(path.relative_to(ROOT))
        for path in sources(*(PACKAGE / folder for folder in CITING))
        for docstring in docstrings(path)
        for name in EQUATION.findall(docstring)
    }
    assert {name: path for name, path in used.items() if defined[name] != 1} == {}
    assert {name for name in defined if name not in used} == set()


def test_equations_that_the_page_uses_are_defined() -> None:
    text = METHOD.read_text()
    used = set(re.findall(r"(?<![\w\])*])\[([A-Za-z]+(?:-[A-Za-z]+)*)\](?![(*])", text))
    assert used
    assert used <= set(re.findall(r"\*\*\[([\w-]+)\]\*\*", text))
