"""How figures look: one style, one colour for every variant, and lines with their names at their ends (matplotlib)."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from aireprune.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, FAINT, GRID = "#1f2328", "#6b7280", "#c4c8ce", "#e8eaed"
AIRE = "#d4440c"
COLOURS = {  # a variant has the same colour in every figure
    "aire": AIRE,
    "balanced": "#1a5fb4",
    "balanced+calibrated": "#0b8793",
    "aire+refit": "#9141ac",
    "aire+calibrated": "#0b8793",
    "last": "#2e8540",
    "global-hinf": "#b07d00",
    "uniform-hinf": "#7a5c3e",
}
OTHERS = ("#c2255c", "#495b7a", "#5f8a00", "#6d4aa8", "#00798c", "#8f4a1f")
STYLE = {
    "font.size": 10.5,
    "font.family": ["DejaVu Sans"],
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "xtick.major.size": 4,
    "xtick.major.width": 0.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "aireprune",
}
FONTS = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
LABEL_HEIGHT = 14.0  # points between the names at line ends
LABEL_SIZE, LABEL_AWAY = 9.5, 14.0  # points: of those names, and between them and the lines
LABEL_LETTERS = 32  # of those names, at most
LEFT, RIGHT, TOP, BOTTOM = 58.0, 12.0, 38.0, 42.0  # points around axes of ours: for ticks, labels and a title
NOTE_SIZE, NOTE_LINE = 8.5, 10.5  # points: of small print, and of a line of it


def printable(text: str, most: int = 60) -> str:
    """Text for a figure: at most so many characters, those that XML may not hold in backslashes."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of the names; those that have none of their own share the others out."""
    spare = iter(OTHERS * len(names))
    return {name: COLOURS.get(name) or next(spare) for name in names}


@contextmanager
def styled() -> Iterator[Any]:
    """matplotlib in our style. Letters that its font lacks are left to the viewer's fonts."""
    matplotlib = extra("matplotlib", "A figure")
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        yield matplotlib


def new_axes(width: float = 8.0, height: float = 4.6, notes: int = 0) -> Axes:
    """Axes of a figure of their own, in inches, without a window or notebook behind it. notes: lines of small print below.

    Where the axes are is known from the beginning: laying a figure out takes matplotlib several times as long as drawing it.
    """
    extra("matplotlib", "A figure")
    from matplotlib.figure import Figure

    wide, high, bottom = 72 * width, 72 * height, BOTTOM + notes * NOTE_LINE
    place = (LEFT / wide, bottom / high, (wide - LEFT - RIGHT) / wide, (high - bottom - TOP) / high)
    return Figure(figsize=(width, height)).add_axes(place)


def leave_room(axes: Axes, names: Mapping[str, bool]) -> None:
    """Make new axes narrower by what the names (bold or not) at line ends take up."""
    if not names:
        return
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    fonts = {bold: FontProperties(size=LABEL_SIZE, weight="bold" if bold else "normal") for bold in (True, False)}
    widths = [
        text_to_path.get_text_width_height_descent(printable(name, LABEL_LETTERS), fonts[bold], ismath=False)[0]
        for name, bold in names.items()
    ]
    figure, place = axes.get_figure(root=True), axes.get_position()
    assert figure is not None
    taken = (LABEL_AWAY + max(widths)) / (72 * figure.get_figwidth())
    axes.set_position((place.x0, place.y0, max(place.width - taken, place.width / 3), place.height))


def shown_axes(width: float = 8.0, height: float = 4.6) -> Axes:
    """Axes of a figure that a notebook or window shows."""
    pyplot = extra("matplotlib.pyplot", "A figure")
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def as_svg(figure: Figure) -> str:
    """The figure as an SVG document with its letters as text; the same figure is the same text."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    found = buffer.getvalue().replace("'DejaVu Sans'", FONTS)
    return re.sub(r"<!DOCTYPE[^>]*>\n?", "", found)


def name_lines(axes: Axes, ends: Mapping[str, tuple[float, float]], inks: Mapping[str, str], bold: str = "") -> None:
    """Write the names at the right of the line ends (x, y), in their colours and far enough from each other."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # heights on paper are known from here on
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    ends = {name: (min(max(x, left), right), min(max(y, low), high)) for name, (x, y) in ends.items()}
    bottom, top = axes.transData.transform([(0, low), (0, high)])[:, 1]
    heights = {name: float(axes.transData.transform(end)[1]) for name, end in ends.items()}
    pixels = figure.dpi / 72
    placed = spread(heights, LABEL_HEIGHT * pixels, bottom, top)
    for name, (x, y) in ends.items():
        axes.annotate(
            printable(name, LABEL_LETTERS),
            (x, y),
            xytext=(LABEL_AWAY, (placed[name] - heights[name]) / pixels),
            textcoords="offset points",
            va="center",
            color=inks[name],
            fontsize=LABEL_SIZE,
            fontweight="bold" if name == bold else "normal",
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": inks[name],
                "linewidth": 0.6,
                "relpos": (-0.03, 0.5),
                "patchA": None,  # nothing to stop at: where a line meets a box is searched for step by step
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )


def spread(heights: Mapping[str, float], apart: float, bottom: float, top: float) -> dict[str, float]:
    """The heights in their order, at least `apart` and, as far as they fit, between bottom and top."""
    order = sorted(heights, key=lambda name: heights[name])
    placed = {name: min(max(heights[name], bottom), top) for name in order}
    for lower, upper in pairwise(order):
        placed[upper] = max(placed[upper], placed[lower] + apart)
    limit = max(top, bottom + apart * (len(order) - 1))
    for name in reversed(order):
        placed[name] = min(placed[name], limit)
        limit = placed[name] - apart
    return placed
