"""What users see when something is wrong, or worth knowing: a sentence that says what was found, where, what to do."""

from __future__ import annotations


class AireError(Exception):
    """A problem with the user's input. The command line prints its message and exits with status 1."""


class Notice(UserWarning):
    """Something a user should know about a result that is otherwise good. The command line prints it as a note."""
