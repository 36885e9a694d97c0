"""Paths that name a place elsewhere: s3://bucket/model, gs://…, memory://…, file://…"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.extras import extra

URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)")
ROOTED = ("file", "local", "memory")  # what follows is a path from the root, not a host or bucket


def as_url(path: str | Path) -> str | None:
    """The URL that a path is; None for local paths. `Path` makes one slash of two, which is undone."""
    found = URL.fullmatch(str(path))
    if found is None:
        return None
    return f"{found[1]}://{'/' if found[1] in ROOTED else ''}{found[2].rstrip('/')}"


@contextmanager
def found_at(url: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL and the path in it; what goes wrong there is one sentence."""
    fsspec = extra("fsspec", f"{url}", "remote")
    try:
        yield fsspec.core.url_to_fs(url)
    except ImportError as problem:
        raise AireError(f"{url} cannot be reached: {problem}.") from None
    except (OSError, ValueError) as problem:
        raise AireError(f"{url} cannot be used ({type(problem).__name__}: {str(problem)[:200]}).") from None
