"""Functions run in child processes."""

from __future__ import annotations

import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import Any


def in_fork(*runs: Callable[[], Any], meanwhile: Callable[[int], None] = lambda child: None) -> Any:
    """What each function returns in a child of its own, all at the same time; alone if there is one function.

    An exception is returned as its traceback, and a child that was killed as minus the signal. `meanwhile` gets the
    last child's number while it runs.
    """
    children = [_started(run) for run in runs]
    meanwhile(children[-1][0])
    results = [_result(child, pipe) for child, pipe in children]
    return results if len(results) > 1 else results[0]


def _started(run: Callable[[], Any]) -> tuple[int, int]:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where other threads exist
        child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    write = os.write
    try:
        result = run()
    except BaseException:
        result = traceback.format_exc()
    data = memoryview(pickle.dumps(result))
    while data:
        data = data[write(writing, data) :]
    os._exit(0)


def _result(child: int, pipe: int) -> Any:
    with os.fdopen(pipe, "rb") as file:
        data = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return pickle.loads(data) if data else status
