"""aire report: one HTML file about a checkpoint, a plan or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.messages import in_flags
from aireprune.cli.options import Config, Json
from aireprune.cli.output import next_step, notices, print_json, say, size, waiting

if TYPE_CHECKING:
    from aireprune.pruning.source import FileSource
    from aireprune.reports.document import Document
    from aireprune.reports.subject import Subject

WithReport = Annotated[bool, typer.Option("--report", help="Write a report (HTML) into OUT or beside it, too.")]


def report(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|CKPT|PLAN", help="The folder of a sweep, a checkpoint (pruned or not), or a plan.json."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="The page. Default: report.html in the folder or beside the file."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="CKPT", help="The original. Default: the one that the plan or sweep names."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", help="Measure both models on a task's test examples and time them."),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=0, help="At most N test examples; 0: all.")
    ] = 1000,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write one HTML file that shows what pruning did: poles, scores, responses, certificates, curves.

    It holds everything, opens from disk, and fetches nothing. An existing page is replaced.
    """
    from aireprune.reports.gather import Judged, document_of
    from aireprune.reports.page import write_page
    from aireprune.reports.place import page_path
    from aireprune.reports.subject import find_subject

    with waiting(f"looking at {what}"):
        judged = None if task is None else Judged(task=task, examples=examples)
        subject = find_subject(what, against, config)
        document = in_flags_too(document_of(subject, judged))
        path = out or page_path(what)
        write_page(document, path)
    tell(document, path, json, *_next(subject, what))


def report_if(wanted: bool, source: FileSource, out: Path, task: str | None) -> None:
    """The report on a checkpoint that was just pruned, in its folder or beside its file, if it is wanted."""
    if not wanted:
        return
    from aireprune.reports.gather import Judged, document_of
    from aireprune.reports.page import write_page
    from aireprune.reports.place import page_path
    from aireprune.reports.subject import find_subject

    judged = None if task is None else Judged(task=task)
    page = write_page(in_flags_too(document_of(find_subject(out, source), judged)), page_path(out))
    notices([f"the report is {page.path}."])


def in_flags_too(document: Document) -> Document:
    """The document with what the library says about arguments in the flags that a person types."""
    from dataclasses import replace

    return replace(document, notices=tuple(map(in_flags, document.notices)))


def _next(subject: Subject, what: Path) -> list[str]:
    """What to type after the page about a subject."""
    original = "CKPT" if subject.full is None else subject.full.name
    if subject.sweep is not None:
        swept = subject.sweep.swept
        return [f"aire prune {original} -o OUT --max-drop {swept['drop']:g} --task {swept['task']}"]
    if subject.plan is None:
        return [f"aire explore {what}", f"aire prune {what} -o OUT --ratio 0.5 --dry-run"]
    if subject.pruned is None:
        return [f"aire prune {original} -o OUT --plan {what}"]
    return [f"aire eval {what} --against {original} --task TASK"]


def tell(document: Document, path: Path, json: bool, *then: str) -> None:
    """What was written, for a person or a machine, and what to type then."""
    if json:
        facts = [{"label": fact.label, "before": fact.before, "value": fact.value} for fact in document.facts]
        print_json({"page": str(path), "verdict": document.verdict, "facts": facts})
        return
    notices(document.notices)
    say(document.verdict, f"Wrote {path} ({size(path.stat().st_size)}); open it in a browser.")
    next_step(*then)
