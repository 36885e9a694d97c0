"""The parts of a sweep joined: nothing missing, nothing twice, all of one model, task and version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.experiments.cells import Key, Result, append_cell, read_cells
from aireprune.experiments.part import Part
from aireprune.experiments.request import FULL, SweepRequest
from aireprune.experiments.stored import read_object, text, understood
from aireprune.experiments.summary import Summary, summarise
from aireprune.experiments.sweep import write_description
from aireprune.files.writing.atomic import atomic_path
from aireprune.tasks import load_task
from aireprune.training.lock import locked

MAY_DIFFER = ("part", "source")  # machines may have the same model in different places
AGAIN = "Do it again with the version, the model and the options of the others."


@dataclass(frozen=True)
class Piece:
    """The folder of a part, and what it holds."""

    folder: Path
    part: Part
    swept: dict[str, Any]
    results: dict[Key, Result]


def find_parts(folders: Sequence[Path]) -> list[Path]:
    """The folders of parts among and directly within those that are given."""
    found = []
    for folder in folders:
        within = sorted(path.parent for path in folder.glob("part-*-of-*/sweep.json"))
        if not within and not (folder / "sweep.json").is_file():
            raise AireError(f"{folder} is not the part of a sweep, and there is none in it.")
        found += within or [folder]
    return found


def merge(folders: Sequence[Path], out: Path) -> Summary:
    """The whole sweep in the folder `out`, as if one machine had done it."""
    pieces = [_read(folder) for folder in find_parts(folders)]
    _check_same(pieces)
    _check_all_there(pieces)
    swept = {key: value for key, value in pieces[0].swept.items() if key != "part"}
    request = SweepRequest.from_dict(swept)
    results = _joined(pieces, request)
    task = load_task(swept["task"])
    summary = summarise(task, request, results)
    with locked(out, "sweep"):
        if (out / "cells.jsonl").exists():
            raise AireError(f"{out} holds a sweep already. Choose another folder, or delete it.")
        write_description(out / "sweep.json", swept)
        with atomic_path(out / "cells.jsonl") as temporary:
            for result in results.values():
                append_cell(temporary, result)
        summary.save(out / "summary.json")
    return summary


def _read(folder: Path) -> Piece:
    path = folder / "sweep.json"
    with understood(path, "does not say what was swept; do this part again"):
        swept = read_object(path)
        part = None if "part" not in swept else Part.parse(text(swept["part"]))
        SweepRequest.from_dict(swept)
    if part is None:
        raise AireError(f"{folder} holds a whole sweep, not a part of one: there is nothing to merge.")
    return Piece(folder, part, swept, read_cells(folder / "cells.jsonl"))


def _check_same(pieces: Sequence[Piece]) -> None:
    first = pieces[0]
    for piece in pieces[1:]:
        for key in sorted({*first.swept, *piece.swept} - set(MAY_DIFFER)):
            mine, theirs = first.swept.get(key), piece.swept.get(key)
            if mine != theirs:
                raise AireError(
                    f"{piece.folder} is of another sweep than {first.folder}: its {key} is {_short(theirs)}, not "
                    f"{_short(mine)}. {AGAIN}"
                )
        if piece.part.count != first.part.count:
            raise AireError(
                f"{piece.folder} is part {piece.part}, {first.folder} part {first.part}: not of the same number of parts."
            )


def _check_all_there(pieces: Sequence[Piece]) -> None:
    known: dict[int, Path] = {}
    for piece in pieces:
        number = piece.part.number
        if number in known:
            raise AireError(f"Part {piece.part} is there twice: {known[number]} and {piece.folder}. Leave one out.")
        known[number] = piece.folder
    count = pieces[0].part.count
    missing = [str(Part(number, count)) for number in range(1, count + 1) if number not in known]
    if missing:
        some = ", ".join(missing[:10]) + (", …" if len(missing) > 10 else "")
        raise AireError(f"{len(missing)} of {count} parts are missing: {some}.")


def _joined(pieces: Sequence[Piece], request: SweepRequest) -> dict[Key, Result]:
    """All results in the order of the sweep; every part has those of the full model, which have to be the same."""
    cells, by_key = list(request.cells()), dict[Key, Result]()
    for piece in pieces:
        wanted = [FULL.key, *(cell.key for cell in piece.part.of(cells))]
        missing, more = set(wanted) - set(piece.results), set(piece.results) - set(wanted)
        if missing:
            raise AireError(
                f"{piece.folder} lacks {len(missing)} of its {len(wanted)} cells. Run part {piece.part} again."
            )
        if more:
            name = min(more)
            raise AireError(
                f"{piece.folder} holds a cell that is not of part {piece.part}: {name.variant} at {name.ratio:g}, seed "
                f"{name.seed}. Delete the folder, and do the part again."
            )
        full = piece.results[FULL.key]
        if by_key.setdefault(FULL.key, full) != full:
            raise AireError(f"The full model has other results in {piece.folder} than in {pieces[0].folder}. {AGAIN}")
        by_key.update(piece.results)
    return {cell.key: by_key[cell.key] for cell in (FULL, *cells)}


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
