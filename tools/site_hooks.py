"""What `mkdocs build` does beyond Markdown: pages of the repository's root, and equations as MathML (mkdocs.yml).

Equations stand between lines of `$$`, in LaTeX. They are turned into MathML here, which browsers draw without a script.
In the prose of the method λ_i is set with its index below the line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from math_core import LatexToMathML
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
VERBATIM = re.compile(r"(`[^`]+`|^\$\$$.*?^\$\$$)", re.MULTILINE | re.DOTALL)
MATHML = LatexToMathML()
EQUATION = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    for source, target in PAGES.items():
        text = PICTURE.sub(r"\1", (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, target, content=LINK.sub(_on_the_site, text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    text = markdown
    if page.file.src_uri == "method.md":  # prose is what stands outside of code and equations
        text = "".join(_scripts(part) if not number % 2 else part for number, part in enumerate(VERBATIM.split(text)))
    text = EQUATION.sub(_equation, text)
    text = re.sub(r"\]\(\.\./(\w+\.md)", lambda link: f"]({PAGES.get(link[1], link[1])}", text)
    return LINK.sub(_by_title, text)


def _on_the_site(link: re.Match[str]) -> str:
    """A link of a page at the root: to another page, or, for files that are not on the site, their names alone."""
    text, target = link.groups()
    if re.match(r"\w+:|#", target):
        return link[0]
    path, _, anchor = target.partition("#")
    page = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    return text if page is None else f"[{text}]({page}{'#' * bool(anchor)}{anchor})"


def _by_title(link: re.Match[str]) -> str:
    """A link that is named after its file, by the title of the page: [method.md](…) becomes [The method](…)."""
    text, target = link.groups()
    page = ROOT / "docs" / target.partition("#")[0]
    if text.removeprefix("docs/") != page.name or not page.is_file():
        return link[0]
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(":")[0]
    return f"[{title}]({target})"


def _equation(block: re.Match[str]) -> str:
    mathml = MATHML.convert_with_local_state(block[1], displaystyle=True)
    return f'\n<div class="equation">{mathml}</div>\n'


def _scripts(prose: str) -> str:
    """λ_i, x_{k-1} and Λ^k with what is below or above the line in its place."""
    for mark, tag in (("_", "sub"), (r"\^", "sup")):
        script = rf"(?<=[A-Za-z\u0370-\u03ff\u0303]){mark}(?:([A-Z0-9α-ωΔ]|[a-z]j?)(?![A-Za-z0-9_{{])|{{([^{{}}]+)}})"
        prose = re.sub(script, rf"<{tag}>\1\2</{tag}>", prose)
    return prose
