"""Ends that clean up: being told to stop (SIGTERM, a closed terminal) runs the same clean-up as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopped_cleanly() -> Iterator[None]:
    """Within this context SIGTERM and SIGHUP raise SystemExit with the shell's status for them (143, 129).

    Only the first of them does, so that a second one cannot interrupt the clean-up. A handler that somebody has set
    (nohup ignores SIGHUP) stays. Outside of the main thread, where Python has no handlers, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    replaced = [number for number in STOPS if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: FrameType | None) -> None:
    for stop in STOPS:
        if signal.getsignal(stop) is _stop:
            signal.signal(stop, signal.SIG_IGN)
    raise SystemExit(128 + number)
