"""The one exception users see: a sentence that says what was found, where, and what to do."""

from __future__ import annotations


class AireError(Exception):
    """A problem with the user's input. The command line prints its message and exits with status 1."""
