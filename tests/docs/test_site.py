"""The site builds without a warning, fetches nothing, and has every equation and every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import METHOD, ROOT

import aireprune

for library in ("mkdocs", "material", "mkdocstrings", "math_core"):
    pytest.importorskip(library, reason=f"{library} is not installed: the site was not built")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"index", "contributing", "security", "changelog"}
    assert pages <= {page.stem for page in site.glob("*.html")}


def test_nothing_is_fetched(site: Path) -> None:
    """Scripts, styles and pictures are the site's own; links that a reader follows may lead elsewhere."""
    loads = re.compile(r'<(?:script|img|source|iframe|link)\b[^>]*?(?:src|srcset|href)="(?:https?:)?//[^"]*"')
    assert {page.name: loads.findall(page.read_text()) for page in site.glob("*.html")} == {
        page.name: [] for page in site.glob("*.html")
    }


def test_equations_are_drawn(site: Path) -> None:
    wanted = len(re.findall(r"^\$\$$", METHOD.read_text(), re.MULTILINE)) // 2
    text = (site / "method.html").read_text()
    assert wanted > 25
    assert text.count('<math display="block"') == wanted
    assert "$$" not in text
    assert "λ<sub>i</sub>" in text
    assert "conj_sym" in text


def test_every_public_name_is_described(site: Path) -> None:
    text = (site / "api.html").read_text()
    missing = {name for name in aireprune.__all__ if not re.search(rf'<h3 id="[\w.]*\.{name}(?:_model)?"', text)}
    assert missing == set()
