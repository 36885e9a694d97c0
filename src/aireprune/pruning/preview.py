"""What a job would do, without doing it."""

from __future__ import annotations

from aireprune.pruning.fitting import remarks
from aireprune.pruning.harm import check_damage
from aireprune.pruning.layers import Unsuitable
from aireprune.pruning.outcome import Pruned
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import is_linear, plan_of
from aireprune.pruning.prune import or_plainly
from aireprune.pruning.request import Job
from aireprune.pruning.source import Source
from aireprune.pruning.surgery import operate


def plan_job(source: Source, job: Job, final: bool = False) -> Pruned:
    """The plan that a settled job makes; nothing is pruned. Linear layers are reduced to see what that costs.

    final: the plan will be applied as it is, without inputs, so what would be refused then is refused. Otherwise such a
    plan has no certificate, and a notice says why.
    """

    def run(settled: Job) -> Pruned:
        plan, notices = plan_of(source, settled, settled.evidence), source.notices
        if is_linear(source):
            try:
                plan = _certified(source, plan, settled)
            except Unsuitable as problem:
                if final or (settled.request is not None and settled.request.fallback):
                    raise
                notices = (*notices, f"without inputs this plan would be refused: {problem.reason}.")
        return Pruned(plan, (*notices, *remarks(plan, source.layers)))

    return or_plainly(job, run)


def _certified(source: Source, plan: Plan, job: Job) -> Plan:
    surgery = operate(source, plan, job.evidence, job.mask)
    check_damage(surgery, plan, job, job.evidence)
    return surgery.certified(plan)
