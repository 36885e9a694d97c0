"""A plan as people look at it: one line, a table in a notebook, rows of a data frame, a picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from aireprune.drawing import AIRE, FAINT, QUIET, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from aireprune.pruning.plan import LayerPlan, Plan

NAMED = 40  # layers whose names a picture has room for
CELL = "text-align:right;padding:.15em .9em"
BAR = "display:inline-block;height:.7em;width:8em;background:linear-gradient(to right,{ink} {share:.1f}%,{rest} 0)"


def one_line(plan: Plan) -> str:
    """The plan without its indices."""
    how = plan.method if plan.reduce == "truncate" else f"{plan.method}, {plan.reduce}"
    asked = f"threshold={plan.threshold:g}" if plan.by_threshold else f"ratio={plan.ratio:g}"
    layers = "1 layer" if len(plan.layers) == 1 else f"{len(plan.layers)} layers"
    return f"Plan({how}, {asked}: {plan.kept} of {plan.states} states stay in {layers}, for {plan.fingerprint[:8]}…)"


def one_layer_line(layer: LayerPlan) -> str:
    return f"LayerPlan({layer.name}, {layer.family}: {len(layer.kept)} of {layer.counted} states stay)"


def rows(plan: Plan) -> list[dict[str, Any]]:
    """What is said of every layer; with a certificate, its exact error and its bound."""
    certificates = {found["name"]: found for found in plan.certificate or ()}
    found = []
    for layer in plan.layers:
        row = {
            "layer": layer.name,
            "family": layer.family,
            "states": layer.counted,
            "kept": len(layer.kept),
            "removed": layer.ratio,
            "energy_kept": layer.energy_kept,
        }
        if layer.measured_error is not None:
            row |= {"predicted_error": layer.predicted_error, "measured_error": layer.measured_error}
        if certificates:
            mine = certificates.get(layer.name, {})
            row |= {"relative_h2": mine.get("relative_h2"), "bound": mine.get("bound")}
        found.append(row)
    return found


def as_html(plan: Plan) -> str:
    """A table for notebooks: a line per layer with a bar of what stays."""
    held = "Hankel energy kept" if plan.reduce == "balanced" else "energy kept"
    heads = ["states", "kept", "", held] + ["H2 error"] * bool(plan.certificate)
    lines = [
        f"<p><code>{escape(printable(one_line(plan)))}</code></p>",
        "<table><thead><tr><th style='text-align:left'>layer</th>"
        + "".join(f"<th style='{CELL}'>{head}</th>" for head in heads)
        + "</tr></thead><tbody>",
    ]
    for row in rows(plan):
        bar = BAR.format(ink=AIRE, rest=FAINT, share=100 * (1 - row["removed"]))
        cells = [str(row["states"]), str(row["kept"]), f"<span style='{bar}'></span>", f"{row['energy_kept']:.1%}"]
        if plan.certificate:
            cells.append("–" if row["relative_h2"] is None else f"{row['relative_h2']:.1%}")
        name = escape(printable(row["layer"]))
        lines.append(
            f"<tr><td style='text-align:left'>{name}</td>"
            + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in cells)
            + "</tr>"
        )
    return "\n".join([*lines, "</tbody></table>"])


def draw(axes: Axes, plan: Plan) -> None:
    """A bar per layer: the states that stay, and those that go."""
    places = list(range(len(plan.layers)))
    kept = [len(layer.kept) for layer in plan.layers]
    axes.barh(places, [layer.counted for layer in plan.layers], color=FAINT, height=0.72)
    axes.barh(places, kept, color=AIRE, height=0.72)
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xlabel("states: kept and removed")
    axes.set_title(f"{plan.method}: {plan.kept} of {plan.states} states stay", parse_math=False)
    if len(places) <= NAMED:
        axes.set_yticks(places, [printable(layer.name) for layer in plan.layers], parse_math=False)
        for place, layer in zip(places, plan.layers, strict=True):
            axes.annotate(
                f"{len(layer.kept)}",
                (layer.counted, place),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                color=QUIET,
                fontsize=9,
            )
