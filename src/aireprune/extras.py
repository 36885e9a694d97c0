"""Libraries that are not always installed, imported when they are used."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aireprune.errors import AireError


def extra(module: str, what: str, bundle: str = "report") -> Any:
    """A module of a library that comes with aireprune[bundle]; `what` says in the error what needs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        library = module.partition(".")[0]
        if problem.name != library:
            raise
        raise AireError(
            f"{what} needs {library}, which is not installed: pip install {library}, or 'aireprune[{bundle}]'."
        ) from None


def is_installed(library: str) -> bool:
    """Whether a library is there; it is not imported."""
    return sys.modules.get(library, True) is not None and find_spec(library) is not None


def data_frame(rows: list[dict[str, Any]]) -> Any:
    """The rows as a pandas DataFrame."""
    return extra("pandas", "A table as a DataFrame").DataFrame(rows)
