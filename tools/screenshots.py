"""The pictures of docs/report.md: pages about the embedded model and a sweep of docs/results, opened in Chromium.

    .venv/bin/python tools/screenshots.py            # needs playwright, pillow and a Chromium that is installed

Writes docs/screenshots/*.webp, each of at most 200 kB.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

import aireprune
from aireprune import embedded

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "screenshots"
LARGEST = 200_000
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SHOTS = (  # name, page, width, height, theme, what is scrolled to the top
    ("report", "report.html", 1280, 1180, "light", None),
    ("layer", "report.html", 1280, 1010, "light", "#layer"),
    ("report-phone", "report.html", 390, 844, "dark", None),
    ("sweep", "sweep.html", 1280, 1150, "dark", None),
    ("explore", "explore.html", 1280, 1010, "light", None),
    ("explore-phone", "explore.html", 390, 844, "dark", None),
)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="aire-") as folder, sync_playwright() as running:
        make_pages(Path(folder))
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = running.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for name, page, width, height, theme, anchor in SHOTS:
            shoot(browser, Path(folder) / page, OUT / f"{name}.webp", ((width, height), theme, anchor))


def make_pages(folder: Path) -> None:
    """A pruned model judged on the embedded digits, a sweep, and a page with controls."""
    full, small = folder / "smnist-s5", folder / "smaller"
    shutil.copytree(embedded.MODEL, full)
    aireprune.prune_file(full, small, method="aire", reduce="balanced", layout="adaptive", ratio=0.5)
    aireprune.report(small, folder / "report.html", task="digits")
    aireprune.report(ROOT / "docs" / "results" / "pathfinder-s5", folder / "sweep.html", original="zoo:pathfinder-s5")
    aireprune.explore(full, folder / "explore.html", 0.4)


def shoot(browser: Any, page: Path, out: Path, how: tuple[tuple[int, int], str, str | None]) -> None:
    (width, height), theme, anchor = how
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=1 if width > 600 else 2
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_timeout(800)
    if anchor is not None:
        tab.evaluate("anchor => document.querySelector(anchor).scrollIntoView({ behavior: 'instant' })", anchor)
        tab.focus(".disc")
        tab.keyboard.press("ArrowRight")
        tab.wait_for_timeout(400)
    picture = out.with_suffix(".png")
    tab.screenshot(path=picture)
    context.close()
    Image.open(picture).convert("RGB").save(out, quality=82, method=6)
    picture.unlink()
    assert out.stat().st_size <= LARGEST, f"{out} has {out.stat().st_size} bytes"


if __name__ == "__main__":
    main()
