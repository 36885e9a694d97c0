"""aire prune --dry-run: what would stay, without measuring or writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aireprune.cli.output import notices, print_json, say
from aireprune.cli.pruned import View, damage, few_states, profile
from aireprune.errors import AireError

if TYPE_CHECKING:
    from aireprune.pruning.request import Job
    from aireprune.pruning.source import FileSource

MEASURING = ("calibrate", "layer_inputs", "recover", "recover_steps")


def check_dry_run(max_drop: float | None, allocate: str) -> None:
    if max_drop is not None or allocate == "measured":
        raise AireError("--dry-run measures nothing, so it does not go with --max-drop or --allocate measured.")


def dry_run(source: FileSource, out: Path, job: Job, left_out: list[str], view: View | None) -> None:
    """Show the plan. left_out: options that were given and would measure something. view: how; None: as JSON."""
    from aireprune.pruning.costs import costs
    from aireprune.pruning.outcome import Outcome
    from aireprune.pruning.preview import plan_job

    done = plan_job(source, job, final=not left_out)
    plan, cost = done.plan, costs(source, done.plan)
    notices([*done.notices, *(f"planned without {option}, which may decide otherwise." for option in left_out)])
    if view is None:
        facts = {"source": source.name, "target": str(out), "dry_run": True, "expected_speedup": cost.speedup}
        print_json({**facts, "plan": plan.to_dict()})
        return
    outcome = Outcome.of(plan)
    taken = view.way(plan)
    if taken is not None:
        say(f"{taken}\n")
    say(profile(plan, outcome, view.details))
    say(f"\n{plan.kept:,} of {plan.states:,} states would stay; expect {cost.speedup:.2f} times the speed at most.")
    for warning in (damage(plan, outcome), few_states(plan)):
        if warning is not None:
            say(warning)
    say(f"Nothing was written. Without --dry-run this writes {out}.")
