"""Compilation of loops over arrays by Numba: once for a machine and these sources.

Compiled functions are kept on disk, for all copies of the same sources. If several processes need
the same function at the same time, one compiles it and the others wait for it. The module `entries`
compiles all functions before the first is needed. They run on every processor of the architecture,
so that hosts can share them, and a wheel or an image can bring them.

To Numba, a literal that is passed as an argument has a type of its own, and Numba compiles the
function once more for it. So an argument of a large function is np.int64(0), not 0.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

from spark_jobs.sources import COMPILED_ROOMS, compiled_folder, version

config: Any = numba.config
config.CACHE_DIR = config.CACHE_DIR or str(compiled_folder())
config.CPU_NAME = config.CPU_NAME or "generic"
config.CPU_FEATURES = config.CPU_FEATURES or ""
with suppress(OSError):
    os.utime(config.CACHE_DIR)  # shows that the folder is in use


class _OfSources(UserProvidedCacheLocator):
    """Place of a compiled function by its module's name and the hash of all compiled sources.

    Numba's own is the path of the function's file and a hash of it. So it compiles each copy of the
    sources, and ignores changes of the functions that this one calls.
    """

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(Path(config.CACHE_DIR, py_func.__module__))

    def ensure_cache_path(self) -> None:
        """Make the folder. One that exists may be read-only, as that of a wheel."""
        if not Path(self._cache_path).is_dir():
            super().ensure_cache_path()

    def get_source_stamp(self) -> str:
        """Return a hash of all sources with compiled functions."""
        return version(*COMPILED_ROOMS)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return the place of a function, or None if it is not part of these sources."""
        ours = py_func.__module__.startswith("spark_jobs.")
        return super().from_function(py_func, py_file) if ours else None


class _OfSourcesFirst(CompileResultCacheImpl):
    _locator_classes = [_OfSources, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012


class _CompiledOnce(FunctionCache):
    """Numba's cache of a function on disk, with a lock so that only one process compiles it."""

    _impl_class = _OfSourcesFirst
    _lock: int | None = None

    def is_compiled(self, sig: Any, target_context: Any) -> bool:
        """Return whether the function is compiled for these types of arguments."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        return key in self._cache_file._load_index()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function, or None after taking the lock for its compilation."""
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
        """Save the compiled function, if the disk can be written, and release the lock."""
        try:
            if not data.target_context.enable_nrt:
                _reject_arrays(data)
            with suppress(OSError):
                super().save_overload(sig, data)
        finally:
            self.unlock()

    def unlock(self) -> None:
        """Release the lock: this process has compiled the function, or could not."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _reject_arrays(compiled: Any) -> None:
    """Raise TypeError if a function without reference counting gets or returns a new array.

    Without the count of an array's references, nobody would free the array, or it would be freed
    too early.
    """
    calls = compiled.fndesc.calltypes.items()
    exchanged = [type_.return_type for expr, type_ in calls if getattr(expr, "op", "") == "call"]
    for type_ in (*exchanged, compiled.signature.return_type):
        if _has_array(type_):
            raise TypeError(
                f"{compiled.fndesc.qualname} gets from a call, or returns, {type_}: see `making`"
            )


def _has_array(type_: Any) -> bool:
    return isinstance(type_, types.Array) or any(map(_has_array, getattr(type_, "types", ())))


def compiling(**options: Any) -> Callable[[Callable], Any]:
    """Return a decorator that compiles a function, with these further options of numba.njit."""
    njit: Any = numba.njit

    def decorate(function: Callable) -> Any:
        dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        dispatcher._cache = _CompiledOnce(function)
        return dispatcher

    return decorate


compiled = compiling(_nrt=True)
"""Decorator of a function that Python may call."""

making = compiling(no_cpython_wrapper=True, _nrt=True)
"""Decorator of a function that only compiled functions call and that may make arrays.

It has no wrapper for calls from Python. That wrapper can take as long to compile as the function
itself.
"""

inner = compiling(no_cpython_wrapper=True, _nrt=False)
"""Decorator of a function that only compiled functions call and that makes no arrays.

Such a function neither makes arrays, nor calls functions that return arrays, nor returns any. So
Numba does not count references to the arrays that it is given. Counting can take a fifth of a
loop's time.
"""

inlined = compiling(inline="always")
"""Decorator of a function whose body replaces each call."""
