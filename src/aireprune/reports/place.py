"""Where a page is written if nothing else is said."""

from __future__ import annotations

from pathlib import Path

from aireprune.errors import AireError
from aireprune.files.single import beside
from aireprune.zoo import PREFIX, is_zoo_name


def place_of(what: object, out: str | Path | None, name: str = "report.html") -> Path:
    """Where it was asked for; else beside what it is about, which a model in memory has no place for."""
    if out is not None:
        return Path(out)
    if not isinstance(what, str | Path):
        raise AireError("A page about a model in memory needs a place: give it with out=.")
    return page_path(Path(what), name)


def page_path(what: Path, name: str = "report.html") -> Path:
    """In the folder of what it is about, or beside the file: NAME.report.html; for a model of the zoo, here."""
    if is_zoo_name(what):  # nothing is written into the package
        return Path(f"{str(what).removeprefix(PREFIX)}.{name}")
    if what.is_dir():
        return what / name
    if what.suffix == ".json":  # of a plan: plan.json, or NAME.plan.json beside a checkpoint
        stem = what.stem.removesuffix(".plan")
        return what.with_name(name if stem == "plan" else f"{stem}.{name}")
    return beside(what, name)
