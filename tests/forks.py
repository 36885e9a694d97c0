"""Python processes that begin with libraries imported: one process imports them, and the others are forked from it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SERVER = """
import json, os, sys, traceback
exec(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    code, arguments, out, err = json.loads(line)
    child = os.fork()
    if not child:
        for path, number in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
        sys.argv, status = ["-c", *arguments], 1
        try:
            exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Ended(NamedTuple):
    """A process that has ended."""

    returncode: int
    stdout: str
    stderr: str


class Forks:
    """forks(code, arguments): the code in a process of its own, which begins as the first one was after its imports."""

    def __init__(self, server: subprocess.Popen[str]):
        self._server = server

    def __call__(self, code: str, *arguments: object) -> Ended:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            print(json.dumps([code, [*map(str, arguments)], str(out), str(err)]), file=self._server.stdin, flush=True)
            status = int(self._server.stdout.readline())
            return Ended(status, out.read_text(), err.read_text())


@contextmanager
def forks(imports: str, environment: Mapping[str, str]) -> Iterator[Forks]:
    """imports: what the first process runs."""
    command = [sys.executable, "-c", SERVER, imports]
    with subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield Forks(server)
