"""Where a checkpoint is or will be: a path, or a place elsewhere such as s3://bucket/model."""

from __future__ import annotations

from pathlib import Path


class Place(type(Path())):  # type: ignore[misc]  # the class of this system's paths
    """A path that is shown as it was given: `Path` makes one slash of the two of a URL."""

    def __str__(self) -> str:
        from aireprune.files.urls import as_url

        path = super().__str__()
        return as_url(path) or path
