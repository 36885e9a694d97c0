"""What a sweep's folder gets besides its data: figures, and the page."""

from __future__ import annotations

from pathlib import Path

from aireprune.errors import AireError
from aireprune.extras import is_installed
from aireprune.reports.gather import document_of
from aireprune.reports.page import write_page
from aireprune.reports.place import page_path
from aireprune.reports.subject import AnySource, find_subject


def present_sweep(folder: Path, original: AnySource | None = None) -> tuple[str, ...]:
    """Write report.html and, where matplotlib is installed, curves.svg and profile-VARIANT.svg; what to say about it.

    original: the model that was swept; by default the one that the sweep names, if it is there.
    """
    from aireprune.experiments.figures import draw_sweep

    try:
        subject = find_subject(folder, original)
        assert subject.sweep is not None
        write_page(document_of(subject), page_path(folder))
    except AireError as problem:  # hours of work are in the folder: they count, the page does not
        return (f"no report was written. {problem}",)
    if not is_installed("matplotlib"):
        return ("figures as SVG need matplotlib, which is not installed; report.html has them all.",)
    draw_sweep(subject.sweep.summary, folder)
    return ()
