"""The pages of the project, and the parts of a Markdown page that tests look at."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "aireprune"
METHOD = ROOT / "docs" / "method.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    PACKAGE / "zoo" / "README.md",
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fenced(page: Path, language: str) -> list[str]:
    """The fenced code blocks of a language."""
    return [code for found, code in _FENCED.findall(page.read_text()) if found == language]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    text = _FENCED.sub("", page.read_text())
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def code(page: Path) -> list[str]:
    """Every line of a code block and every code span, a span on one line."""
    text = page.read_text()
    blocks = [line for _, block in _FENCED.findall(text) for line in block.splitlines()]
    indented = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]
    return blocks + indented + spans


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings: lower case, without punctuation, with hyphens for spaces."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}
