"""What `mkdocs build` does beyond Markdown: pages of the repository's root, and equations as MathML (mkdocs.yml).

Equations stand between lines of `$$`, in LaTeX. They are turned into MathML here, which browsers draw without a script.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # in the repository: on the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r'((?:srcset|src)=")docs/')
EQUATION = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    for source, target in PAGES.items():
        text = PICTURE.sub(r"\1", (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, target, content=LINK.sub(_on_the_site, text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    text = EQUATION.sub(_equation, markdown)
    return re.sub(r"\]\(\.\./(\w+\.md)", lambda link: f"]({PAGES.get(link[1], link[1])}", text)


def _on_the_site(link: re.Match[str]) -> str:
    """A link of a page at the root: to another page, or, for files that are not on the site, their names alone."""
    text, target = link.groups()
    if re.match(r"\w+:|#", target):
        return link[0]
    path, _, anchor = target.partition("#")
    page = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    return text if page is None else f"[{text}]({page}{'#' * bool(anchor)}{anchor})"


def _equation(block: re.Match[str]) -> str:
    mathml = convert(" ".join(block[1].split()), display="block")
    return f'\n<div class="equation">{mathml}</div>\n'
