"""The model card of a pruned Hugging Face folder: README.md, with what was done and how to load and repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aireprune.files.front_matter import front_matter, items
from aireprune.pruning.base_model import BaseModel
from aireprune.pruning.outcome import Outcome
from aireprune.pruning.plan import LAYOUTS, Plan
from aireprune.pruning.repeating import prune_command
from aireprune.version import VERSION

CARRIED = ("license", "license_name", "license_link", "language", "datasets", "pipeline_tag")  # still true of the copy
TAGS = ("aireprune", "pruned")
FOLDED = 12  # layers from which on their table is folded away
REDUCTIONS = {
    "truncate": "the states that stay are as they were",
    "refit": "the states that stay got a readout that makes up for the others",
    "balanced": "new states by balanced truncation",
    "projected": "new states by projection",
    "fitted": "the rows that make B and C of the states that stay were fitted to make up for the others",
}
MODULES = {"MambaLMHeadModel": "mamba_ssm.models.mixer_seq_simple"}  # classes that are not transformers'


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What both models were measured to do: rows of metric, full and pruned, as text, and sentences below."""

    data: str
    rows: tuple[tuple[str, str, str], ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Card:
    """target: the name of the pruned folder. call: code that loads it. mask: states were silenced, not removed."""

    base: BaseModel
    plan: Plan
    outcome: Outcome
    target: str
    call: str
    mask: bool = False
    judged: Judged | None = None

    def text(self) -> str:
        sections = [self._summary(), self._answers(), self._layers(), self._loading(), self._repeating()]
        return front_matter(self._front()) + "\n" + "\n\n".join(sections) + "\n"

    def _front(self) -> dict[str, str]:
        """The entries of the original that still hold, its tags and ours."""
        base, found = self.base, {key: self.base.front[key] for key in CARRIED if key in self.base.front}
        library = base.front.get("library_name", "library_name: transformers")
        if self.call.startswith("aireprune."):
            library = "library_name: aireprune"
        tags = [tag for tag in items(base.front.get("tags", "")) if tag.strip("\"'") not in TAGS]
        name = base.name if base.is_id else f"{json.dumps(base.name)} # its folder; an id on the Hub is not known"
        return {
            "base_model": f"base_model: {name}",
            **found,
            "library_name": library,
            "tags": "\n".join(["tags:", *(f"- {tag}" for tag in (*tags, *TAGS))]),
        }

    def _summary(self) -> str:
        plan, base = self.plan, self.base
        done = "silenced" if self.mask else "removed"
        facts = {
            "base model": f"[{base.name}](https://huggingface.co/{base.name})" if base.is_id else f"`{base.name}`",
            "states": f"{plan.kept:,} of {plan.states:,} stay, {_percent(plan.achieved_ratio)} are {done}",
            "method": f"`{plan.method}`",
            "reduction": f"`{plan.reduce}`: {REDUCTIONS[plan.reduce]}",
            "layout": f"`{plan.layout}`: {LAYOUTS[plan.layout]}",
        }
        if plan.calibrated:
            facts["calibration"] = f"readouts fitted to the original's on {plan.calibrated:,} unlabelled sequences"
        if plan.recovered:
            facts["recovery"] = f"{plan.recovered:,} steps of learning from the original, without labels"
        origin = "The card of the original is [README.base.md](README.base.md)." if base.readme else ""
        return "\n".join(
            [
                f"# {base.short}, pruned",
                "",
                f"This is {base.name} with {_percent(plan.achieved_ratio)} of the states of its state space layers {done}.",
                *([origin] if origin else []),
                "",
                "| | |",
                "|---|---|",
                *(f"| {name} | {value} |" for name, value in facts.items()),
            ]
        )

    def _answers(self) -> str:
        return "\n".join(["## What it does to the answers", "", *self._measured()])

    def _measured(self) -> Iterator[str]:
        judged, outcome = self.judged, self.outcome
        if judged is not None:
            yield from (f"On {judged.data}, with 95 % intervals:", "", "| | original | pruned |", "|---|---|---|")
            yield from (f"| {name} | {full} | {pruned} |" for name, full, pruned in judged.rows)
            yield from ("", *judged.remarks, "")
        if outcome.agreement is not None and outcome.kl is not None:
            yield (
                f"On unlabelled inputs that were held out, {_percent(outcome.agreement)} of the first choices are the "
                f"original's, and the mean KL divergence from its answers is {outcome.kl:.3g} nats."
            )
        elif outcome.error is not None:
            yield (
                f"Expected from the weights alone: the layers' outputs differ by {_percent(outcome.error)} (root mean "
                "square over the layers, relative to the original)."
            )
        elif judged is None:
            yield "Nothing was measured, and nothing can be said from the weights alone."
        if self.plan.certificate is not None:
            yield "For layers that are linear and time-invariant, the table below bounds the change for every input."

    def _layers(self) -> str:
        head, rows = self._columns()
        table = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
        if len(rows) > FOLDED:
            sizes = sorted({len(layer.kept) for layer in self.plan.layers})
            counts = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            title = f"<summary>{len(rows)} layers keep {counts} states each</summary>"
            table = ["<details>", title, "", *table, "", "</details>"]
        return "\n".join(["## States of every layer", "", *table])

    def _columns(self) -> tuple[list[str], list[list[str]]]:
        errors: Mapping[str, float | None] = self.outcome.output_error or self.outcome.expected
        proofs = {entry["name"]: entry for entry in self.plan.certificate or ()}
        head = ["layer", "states", "kept", "measured error" if self.outcome.output_error else "expected error"]
        head += ["largest gain of the error (H∞), at most", "relative H2 error"] if proofs else []
        rows = []
        for layer in self.plan.layers:
            row = [f"`{layer.name}`", f"{layer.counted:,}", f"{len(layer.kept):,}", _share(errors.get(layer.name))]
            if proofs:
                proof = proofs.get(layer.name, {})
                bound = proof.get("bound")
                row += ["–" if bound is None else f"{bound:.3g}", _share(proof.get("relative_h2"))]
            rows.append(row)
        return head, rows

    def _loading(self) -> str:
        name = self.call.partition(".")[0]
        line = "import aireprune" if name == "aireprune" else f"from {MODULES.get(name, 'transformers')} import {name}"
        return "\n".join(["## Load it", "", "```python", line, "", f"model = {self.call}", "```"])

    def _repeating(self) -> str:
        base = self.base.name if not self.base.is_id else self.base.short
        command = prune_command(self.plan, base, self.target, self.mask)
        return "\n".join(
            [
                "## Make it again",
                "",
                f"    {command}",
                "",
                f"That was aireprune {VERSION}, on weights whose state space layers have the fingerprint "
                f"`{self.plan.fingerprint}`. `plan.json` says which states stayed and why, and "
                "`aire report` holds this folder against the original.",
            ]
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _share(value: float | None) -> str:
    return "–" if value is None else _percent(value)
