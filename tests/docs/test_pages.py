"""What the pages point at is there: files, modules, links, headings, commands and flags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import NAMES, PACKAGE, PAGES, ROOT, anchors, code, prose

import aireprune

FOLDERS = [
    *(
        folder.name
        for folder in (*ROOT.iterdir(), *PACKAGE.iterdir())
        if folder.is_dir() and folder.name[0] not in "._"
    ),
    ".ci",
    ".github",
]
PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*-]*\w)")
MODULE = re.compile(r"\baireprune\.(\w+(?:\.\w+)*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OTHER_PROGRAMS = (
    "OMP_NUM_THREADS=1 python tests/faults/run.py",
    "python tools/",
    "pip ",
    "torchrun ",
    "pre-commit ",
    ".venv/bin/python -m pytest",
)

pages = pytest.mark.parametrize("page", PAGES, ids=NAMES)


@pages
def test_files_exist(page: Path) -> None:
    """Paths are relative to the repository or to the package; a star stands for any name."""
    missing = {
        path
        for path in PATH.findall(page.read_text())
        if not any(next(root.glob(path), None) for root in (ROOT, PACKAGE))
    }
    assert missing == set()


@pages
def test_modules_and_public_names_exist(page: Path) -> None:
    missing = set()
    for dotted in MODULE.findall(page.read_text()):
        *folder, last = dotted.split(".")
        module = PACKAGE.joinpath(*folder, last)
        if not (last in aireprune.__all__ or module.is_dir() or module.with_suffix(".py").is_file()):
            owner = PACKAGE.joinpath(*folder).with_suffix(".py")
            if not (owner.is_file() and re.search(rf"^(?:def |class )?{last}\b", owner.read_text(), re.MULTILINE)):
                missing.add(dotted)
    assert missing == set()


@pages
def test_links_resolve(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


Use = tuple[tuple[str, ...], set[str]]  # a command, () if none is named, and the flags beside it


def uses(page: Path) -> list[Use]:
    found: list[Use] = []
    for line in code(page):
        if line.startswith(OTHER_PROGRAMS):
            continue
        alone, *calls = re.split(r"\baire(?= |$)", line.partition("#")[0])
        found.append(((), set(FLAG.findall(alone))))
        for call in calls:
            words = re.match(r"(?: [a-z0-9]+(?= |$))*", call)
            assert words is not None
            command = tuple(words.group().split())[: 2 if call.startswith(" bench") else 1]
            found.append((command, set(FLAG.findall(call))))
    return found


def test_commands_and_flags_exist(aire, monkeypatch) -> None:
    """Every `aire ...` of a page runs as far as its help, which names the flags beside it."""
    monkeypatch.setenv("COLUMNS", "250")
    everything = [(name, *use) for name, page in zip(NAMES, PAGES, strict=True) for use in uses(page)]
    flags: dict[tuple[str, ...], set[str]] = {}
    for command in {command for _, command, _ in everything}:
        status, shown, complaint = aire(*command, "--help")
        assert status == 0, f"aire {' '.join(command)}: {complaint}"
        flags[command] = set(FLAG.findall(shown))
    assert len(flags) > 15  # the search finds what is there
    flags[()] = set().union(*flags.values())
    assert [
        (page, command, wanted - flags[command]) for page, command, wanted in everything if wanted - flags[command]
    ] == []
