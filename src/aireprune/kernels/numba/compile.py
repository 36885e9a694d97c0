"""`numba.njit` for our kernels: how they are compiled, kept on disk and called.

Numba's own cache looks only at the file of the function it compiles: after an upgrade that changed a module the function
calls into, it would go on running the old code. So compiled kernels are kept in a folder that is named after the
processor they are for and after the sources of all of them. What the sources import from this package beyond their
own folder must not change what is compiled.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numba
import torch
from numba import types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

from aireprune.folders import cache_folder
from aireprune.kernels.numba import cpu

if sys.platform != "win32":
    import fcntl

FAST = {"contract", "reassoc", "nsz"}  # fast-math flags that still propagate NaN
PATIENCE = 600.0  # seconds that a process waits for another one to compile the same kernel, before it does so itself
_HERE = Path(__file__).parent
_TURN = threading.Lock()


def _start_threads() -> None:
    """Start numba's threads and leave torch's number of them alone: both may be OpenMP's, which numba sets when it starts.

    Without this, sums of torch would be rounded in another way before the first kernel than after it.
    """
    wanted = torch.get_num_threads()
    numba.get_num_threads()
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)


_start_threads()


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: `numba.njit` with these options, cached; a parallel kernel uses no more threads than torch may.

    Other Python threads run while a kernel does.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = _compile(function, options)
        return _launcher(compiled) if options.get("parallel") else compiled

    return decorate


@intrinsic
def keep_apart(context: Any) -> Any:
    """At the top of a compiled function: it is not inlined, so one copy of it is compiled instead of one per call."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


def threads() -> int:
    """How many threads a kernel gets when it is called from this thread."""
    return min(torch.get_num_threads(), numba.get_num_threads())


def _launcher(compiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def launch(*arguments: Any) -> Any:
        most, wanted = numba.get_num_threads(), torch.get_num_threads()
        with _turn():
            if wanted >= most:
                return compiled(*arguments)
            numba.set_num_threads(wanted)
            try:
                return compiled(*arguments)
            finally:
                numba.set_num_threads(most)

    return launch


def _turn() -> AbstractContextManager[Any]:
    """The work queue, the threading layer numba falls back to, ends the process if two Python threads use it at once."""
    try:
        return _TURN if numba.threading_layer() == "workqueue" else nullcontext()  # type: ignore[attr-defined]
    except ValueError:  # not chosen yet: the first kernel that runs chooses it
        return _TURN


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    settings: Any = numba.config
    chosen = settings.CACHE_DIR  # the user's, if there is one
    settings.CACHE_DIR = _folder(chosen)
    compiled: Any = numba.njit(nogil=True, **options)(function)
    try:
        kept = _Kept(function)
    except RuntimeError:  # nothing can be written anywhere: every process compiles for itself
        pass
    else:
        compiled._cache, compiled.compile = kept, kept.in_turn(compiled.compile)
    finally:
        settings.CACHE_DIR = chosen
    return compiled


class _Kept(FunctionCache):
    """Numba's files of compiled code; damaged ones are made again, and what cannot be written is compiled every time.

    Of several processes that need the same kernel one compiles it, and the others wait for its files.
    """

    _lock: int | None = None  # the descriptor of a file that is locked while this process compiles

    def in_turn(self, compile_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The dispatcher's `compile`, at the end of which the next process may compile, also after an error."""

        def compile_in_turn(signature: Any) -> Any:
            try:
                return compile_one(signature)
            finally:
                if self._lock is not None:
                    os.close(self._lock)
                    self._lock = None

        return compile_in_turn

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._load(sig, target_context)
        if found is None and self._lock is None:
            name = f"{self._py_func.__module__}.{self._py_func.__qualname__}.lock"
            self._lock, waited = _locked(Path(self.cache_path, name))
            found = self._load(sig, target_context) if waited else None
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # they are pickles: a damaged one raises anything
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def _locked(path: Path) -> tuple[int | None, bool]:
    """A file that is locked until it is closed, and whether another process had it; None where that cannot be done."""
    if sys.platform == "win32":
        return None, False
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None, False
    until, waited = time.monotonic() + PATIENCE, False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file, waited
        except BlockingIOError:
            waited = True
        except OSError:  # a file system that cannot lock
            until = 0.0
        if time.monotonic() > until:
            os.close(file)
            return None, waited
        time.sleep(0.1)


@functools.cache
def _folder(chosen: str) -> str:
    """Where this version's compiled code is: where the user wants it, beside the modules, or in the user's cache.

    Beside the modules, code compiled for the same processor from older sources is removed. Machines that share the
    installation keep theirs.
    """
    machine = _digest(f"{cpu.TRIPLE} {cpu.NAME} {cpu.SETTINGS}".encode())
    name = f"kernels-{machine}-{_digest(*(path.read_bytes() for path in sorted(_HERE.glob('*.py'))))}"
    beside = _HERE / "__pycache__"
    if chosen:
        return str(Path(chosen) / name)
    if not os.access(beside if beside.is_dir() else _HERE, os.W_OK):
        return str(cache_folder() / name)
    for old in beside.glob(f"kernels-{machine}-*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    return str(beside / name)


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
