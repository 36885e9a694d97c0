"""A document as one HTML file: style, scripts, fonts and data are all inside, and a policy forbids everything else."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from aireprune.errors import AireError
from aireprune.files.writing.atomic import atomic_path
from aireprune.reports.document import Document
from aireprune.reports.packing import script_json

LARGEST = 2_500_000  # bytes
SCRIPTS = (
    "vendor/d3.min.js",
    "vendor/plot.umd.min.js",
    "selection.js",
    "plan.js",
    "data.js",
    "dom.js",
    "view.js",
    "disc.js",
    "axes.js",
    "charts.js",
    "profile.js",
    "sweep.js",
    "layers.js",
    "layer.js",
    "explore.js",
    "page.js",
)
LICENCES = (
    "vendor/LICENSE-d3.txt",
    "vendor/LICENSE-plot.txt",
    "vendor/LICENSE-inter.txt",
)  # every copy has to carry them
FONTS = {
    "@latin@": "vendor/inter-latin-wght-normal.woff2",
    "@greek@": "vendor/inter-greek-wght-normal.woff2",
}


@dataclass(frozen=True)
class Page:
    """A page that was written, and what is in it."""

    path: Path
    document: Document

    @property
    def verdict(self) -> str:
        return self.document.verdict

    def __repr__(self) -> str:
        return f"Page({str(self.path)!r}: {self.verdict})"

    def _repr_html_(self) -> str:
        """In notebooks: the verdict, and a link."""
        where = escape(self.path.resolve().as_uri())
        return f"<p>{escape(self.verdict)}</p><p><a href='{where}' target='_blank'>{escape(str(self.path))}</a></p>"


def write_page(document: Document, path: Path) -> Page:
    """Write the page; it appears whole or not at all."""
    text = page(document)
    if len(text.encode()) > LARGEST:
        raise AireError(
            f"The page would have {len(text.encode()) / 1e6:.1f} MB, more than the {LARGEST / 1e6:.1f} MB that open well "
            "everywhere: this model has too many states for one page."
        )
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Page(path, document)


def page(document: Document) -> str:
    """The page's text."""
    scripts = [asset(name) for name in SCRIPTS]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    parts = {
        "policy": f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; font-src data:; img-src data:",
        "title": escape(document.title),
        "licences": "\n\n".join(asset(name) for name in LICENCES),
        "style": _style(),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
        "document": script_json(document),
    }
    # in one go, so that nothing in a value is taken for a mark
    return re.sub(r"@(policy|title|licences|style|scripts|document)@", lambda mark: parts[mark[1]], asset("page.html"))


@cache
def page_bytes() -> int:
    """Of a page without a document."""
    return len("".join([asset("page.html"), _style(), *map(asset, SCRIPTS)]).encode())


@cache
def asset(name: str) -> str:
    """A text of the package's assets."""
    return files("aireprune.reports").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    style = asset("page.css")
    for mark, name in FONTS.items():
        font = files("aireprune.reports").joinpath("assets", name).read_bytes()
        style = style.replace(mark, f"data:font/woff2;base64,{base64.b64encode(font).decode()}")
    return style


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
