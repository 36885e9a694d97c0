"""aire certify: bounds, true norms and exact errors of a pruned checkpoint, against its original."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.options import Json
from aireprune.cli.output import next_step, notices, percent, print_json, say, stderr, table

if TYPE_CHECKING:
    from aireprune.certificates.audit import Certificate
    from aireprune.certificates.end_to_end import EndToEnd
    from aireprune.method.bounds import LayerCertificate


def certify(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A pruned checkpoint, with its plan.json.")],
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="CKPT", help="The original. Default: the one that plan.json names."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="SOURCE",
            help="Compare the outputs too (our S5, LRU and S4D models): a task (its test split), "
            "or a .npy or .npz file or folder of inputs.",
        ),
    ] = None,
    examples: Annotated[int, typer.Option("--examples", metavar="N", min=1, help="At most so many inputs.")] = 256,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="JSON with what the original's file does not say.")
    ] = None,
    json: Json = False,
) -> None:
    """Prove what pruning did: bounds on the worst case beside the true norm, and exact energies, layer by layer.

    The exit status is 1 if any bound is below the truth. The energies are exact; the bounds hold for every input.
    """
    from aireprune.certificates.audit import certify_model

    found = certify_model(out, against, data=data, examples=examples, config=config)
    notices(f"{layer.name}: {note}" for layer in found.layers for note in layer.notes)
    if json:
        print_json({"pruned": str(out), "original": str(against or found.plan.source), **found.to_dict()})
    else:
        _show(found, f"aire eval {out} --against {against or found.plan.source} --task TASK")
    if found.violations:
        stderr().print(f"aire: bounds below the truth: {'; '.join(found.violations)}", markup=False)
        sys.exit(1)


def _show(found: Certificate, then: str) -> None:
    say(
        table(
            f"{found.plan.reduce}: worst-case gain of the error of each layer, truly (H∞) and as bounded",
            ("layer", "modes", "kept", "H∞", "AIRE", "LAST", "balanced"),
            (
                (
                    layer.name,
                    layer.modes,
                    layer.kept,
                    _number(layer.hinf),
                    _number(layer.aire_bound),
                    _number(layer.last_bound),
                    _number(layer.balanced_bound),
                )
                for layer in found.layers
            ),
        )
    )
    within = "" if found.plan.horizon is None else f" within {found.plan.horizon} steps"
    say()
    say(
        table(
            f"Energies (squared H2 norms){within}",
            ("layer", "layer", "error", "ΣE of error", "relative H2"),
            (_energies(layer) for layer in found.layers),
        )
    )
    say()
    if found.end_to_end is None:
        say("End to end: give --data (a task, such as digits, or a .npy file of inputs) to compare the outputs.")
    else:
        _show_end_to_end(found.end_to_end)
    if not found.violations:
        say("Every bound is at or above the truth.")
        next_step(f"{then}: bounds are about layers, not about answers")


def _energies(layer: LayerCertificate) -> tuple[str, ...]:
    return (
        layer.name,
        _number(layer.layer_energy),
        _number(layer.error_energy),
        _number(layer.pruned_energies),
        percent(layer.relative_h2, 2),
    )


def _show_end_to_end(whole: EndToEnd) -> None:
    say(
        f"End to end, {whole.examples} inputs: the logits move by at most {whole.distortion:.3g} "
        f"({percent(whole.relative)} of their norm); {percent(whole.changed_answers)} of the answers change."
    )
    if whole.bound is None:
        shown = ", ".join(whole.changed[:3]) + (" …" if len(whole.changed) > 3 else "")
        say(f"No Lipschitz bound: more than the state space layers was changed ({shown}).")
        return
    loose = "" if whole.looseness is None else f", {whole.looseness:.3g} times what was measured"
    say(f"Lipschitz bound of the residual stack for these inputs: {whole.bound:.3g}{loose}.")
    if whole.layer_norm:
        say(
            "Layer norm has no useful Lipschitz constant of its own (1/√ε): the deviations measured on the inputs are "
            "used, so the bound holds for these inputs only."
        )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
