"""What users see when something is wrong, or worth knowing: a sentence that says what was found, where, what to do."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 120  # characters of a name that are shown


class AireError(Exception):
    """A problem with the user's input. The command line prints its message and exits with status 1.

    Files choose their names, and messages reach terminals: control characters are escaped here, once for all messages.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(escaped(str(message)))


class Notice(UserWarning):
    """Something a user should know about a result that is otherwise good. The command line prints it as a note."""


def escaped(text: str) -> str:
    """Text in which everything that is not printable (control characters, line ends, direction marks) is escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What a misspelt name may have meant, as a sentence to put into a message; nothing if nothing is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 1)
    return f" Did you mean {close[0]}?" if close else ""


def shown(name: object, longest: int = LONGEST) -> str:
    """A name that came from a file, for a message: escaped, and without its middle if it is long."""
    text = name if isinstance(name, str) else str(name)
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[-(longest // 2) :]}"
    return escaped(text)
