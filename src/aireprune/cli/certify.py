"""aire certify: bounds, true norms and exact errors of a pruned checkpoint, against its original."""

from __future__ import annotations

import sys
from pathlib import Path

from aireprune.certificates.audit import Certificate, certify_model
from aireprune.certificates.end_to_end import EndToEnd
from aireprune.cli.output import console, notices, percent, print_json, stderr, table
from aireprune.method.bounds import LayerCertificate


def certify(
    pruned: Path, against: Path | None, data: str | None, examples: int, config: Path | None, json: bool
) -> None:
    found = certify_model(pruned, against, data=data, examples=examples, config=config)
    notices(f"{layer.name}: {note}" for layer in found.layers for note in layer.notes)
    if json:
        print_json({"pruned": str(pruned), "original": str(against or found.plan.source), **found.to_dict()})
    else:
        show(found)
    if found.violations:
        stderr.print(f"aire: bounds below the truth: {'; '.join(found.violations)}", markup=False)
        sys.exit(1)


def show(found: Certificate) -> None:
    console.print(
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
    console.print()
    console.print(
        table(
            f"Energies (squared H2 norms){within}",
            ("layer", "layer", "error", "ΣE of error", "relative H2"),
            (_energies(layer) for layer in found.layers),
        )
    )
    console.print()
    if found.end_to_end is None:
        console.print("End to end: give --data (a task, digits, or a .npy file of inputs) to compare the outputs.")
    else:
        _show_end_to_end(found.end_to_end)
    if not found.violations:
        console.print("Every bound is at or above the truth.")


def _energies(layer: LayerCertificate) -> tuple[str, ...]:
    return (
        layer.name,
        _number(layer.layer_energy),
        _number(layer.error_energy),
        _number(layer.pruned_energies),
        percent(layer.relative_h2, 2),
    )


def _show_end_to_end(whole: EndToEnd) -> None:
    console.print(
        f"End to end, {whole.examples} inputs: the logits move by at most {whole.distortion:.3g} "
        f"({percent(whole.relative)} of their norm); {percent(whole.changed_answers)} of the answers change."
    )
    if whole.bound is None:
        shown = ", ".join(whole.changed[:3]) + (" …" if len(whole.changed) > 3 else "")
        console.print(f"No Lipschitz bound: more than the state space layers was changed ({shown}).")
        return
    loose = "" if whole.looseness is None else f", {whole.looseness:.3g} times what was measured"
    console.print(f"Lipschitz bound of the residual stack for these inputs: {whole.bound:.3g}{loose}.")
    if whole.layer_norm:
        console.print(
            "Layer norm has no useful Lipschitz constant of its own (1/√ε): the deviations measured on the inputs are "
            "used, so the bound holds for these inputs only."
        )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
