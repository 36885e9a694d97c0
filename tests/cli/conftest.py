"""The command line, run in this process."""

from __future__ import annotations

import sys

import pytest

from aireprune.cli import main


@pytest.fixture
def aire(capsys, monkeypatch):
    """Run a command in this process: (exit status, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["aire", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
