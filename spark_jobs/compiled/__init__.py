"""How loops over arrays are compiled: by Numba, once for a machine and these sources.

What was compiled is kept on disk. Of processes that need the same function at the same time, one
compiles it and the others wait for it. `entries` says how all are compiled before the first is
needed.

To Numba a literal that is handed on is of a type of its own, for which it compiles a function once
more: what a large function begins with is np.int64(0), not 0.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import FunctionCache

from spark_jobs.sources import compiled_folder

config: Any = numba.config
config.CACHE_DIR = config.CACHE_DIR or str(compiled_folder())
with suppress(OSError):
    os.utime(config.CACHE_DIR)  # tells that it is in use


class _CompiledOnce(FunctionCache):
    """Numba's cache of a function on disk; who finds nothing in it compiles under its lock."""

    _lock: int | None = None

    def is_compiled(self, sig: Any, target_context: Any) -> bool:
        """Whether the function is compiled for these types of arguments."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        return key in self._cache_file._load_index()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is not None or self._lock is not None:
            return found
        with suppress(OSError):
            Path(self.cache_path).mkdir(parents=True, exist_ok=True)
            path = Path(self.cache_path, f"{self._impl.filename_base}.lock")
            self._lock = os.open(path, os.O_CREAT | os.O_WRONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        found = super().load_overload(sig, target_context)
        if found is not None:
            self.unlock()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            if not data.target_context.enable_nrt:
                _reject_arrays(data)
            super().save_overload(sig, data)
        finally:
            self.unlock()

    def unlock(self) -> None:
        """Let others compile the function, too: this process has, or could not."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _reject_arrays(compiled: Any) -> None:
    """What does not count who holds an array can neither be handed one by a function nor hand one
    back: nobody would free it, or too early."""
    calls = compiled.fndesc.calltypes.items()
    exchanged = [type_.return_type for expr, type_ in calls if getattr(expr, "op", "") == "call"]
    for type_ in (*exchanged, compiled.signature.return_type):
        if _has_array(type_):
            raise TypeError(f"{compiled.fndesc.qualname} is given or returns {type_}: see `making`")


def _has_array(type_: Any) -> bool:
    return isinstance(type_, types.Array) or any(map(_has_array, getattr(type_, "types", ())))


def compiling(**options: Any) -> Callable[[Callable], Any]:
    """A decorator with further options of numba.njit."""

    njit: Any = numba.njit

    def decorate(function: Callable) -> Any:
        dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        dispatcher._cache = _CompiledOnce(function)
        return dispatcher

    return decorate


compiled = compiling(_nrt=True)
"""A function that Python may call."""

making = compiling(no_cpython_wrapper=True, _nrt=True)
"""A function that only compiled functions call: without the way in from Python, which can take as
long to compile as the function itself."""

inner = compiling(no_cpython_wrapper=True, _nrt=False)
"""One that makes no arrays, nor calls or is what returns any: it does without counting who holds
the arrays that it is given, which can take a fifth of a loop's time."""

inlined = compiling(inline="always")
"""A function whose body stands where it is called."""
