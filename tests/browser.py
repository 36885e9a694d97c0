"""Scripts of the package run by node, and pages opened in Chromium; without these programs, tests that need them skip."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ASSETS = Path(__file__).parents[1] / "src" / "aireprune" / "reports" / "assets"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def run_in_node(scripts: tuple[str, ...], body: str, data: Any) -> Any:
    """What `body`, a function of `data`, returns after the scripts; both as JSON."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the page's scripts were not run")
    loaded = "".join(f"require({json.dumps(str(ASSETS / name))});" for name in scripts)
    program = (
        f"{loaded} let text = ''; process.stdin.on('data', (part) => (text += part)).on('end', () => "
        f"console.log(JSON.stringify(((data) => {{ {body} }})(JSON.parse(text)))));"
    )
    done = subprocess.run([node, "-e", program], input=json.dumps(data), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright's."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pages were not opened in a browser"
    )
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: pages were not opened in a browser")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, page: Path, *, width: int = 1280, dark: bool = False) -> Iterator[Any]:
    """A page opened from disk. When it is left, it must not have said anything on the console or asked for anything."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    tab, said = context.new_page(), []
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    tab.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    tab.on("request", lambda request: said.append(request.url) if not _inside(request.url, page) else None)
    tab.goto(page.as_uri())
    tab.wait_for_selector("footer")
    yield tab
    context.close()
    assert said == []


def _inside(url: str, page: Path) -> bool:
    return url.split("#")[0] == page.as_uri() or url.startswith(("data:", "blob:"))
