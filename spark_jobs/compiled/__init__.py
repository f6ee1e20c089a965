"""Compilation of loops over arrays by Numba: once for a machine and these sources.

Functions that Python calls are kept on disk, with all that they call, for all copies of the same
sources. If several processes need the same function at the same time, one compiles it and the
others wait for it. The module `entries` compiles all of them before the first is needed. They run
on every processor of the architecture, so that hosts can share them, and a wheel or an image can
bring them.

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
from numba.core import codegen
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    NullCache,
    UserProvidedCacheLocator,
)

from spark_jobs.base.sources import COMPILED_ROOMS, compiled_folder, version

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
            with suppress(OSError):
                super().save_overload(sig, data)
        finally:
            self.unlock()

    def unlock(self) -> None:
        """Release the lock: this process has compiled the function, or could not."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class _NotKept(NullCache):
    """The cache of a function that is kept only as a part of those that call it."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Check the compiled function."""
        if not data.target_context.enable_nrt:
            _reject_arrays(data)


class _LinkedFirst(codegen.JITCodeLibrary):
    """The code of a function and of all that it calls, optimized only if Python calls the function.

    Numba's own optimizes the code of each function, together with that of all functions that it
    calls, and makes machine code of it: of a function that is ten calls deep, ten times. So it
    takes a third longer.
    """

    _is_linked = False

    def add_linking_library(self, library: Any) -> None:
        """Add the code of a function that this one calls."""
        self._linking_libraries.append(library)

    def finalize(self) -> None:
        """Optimize the code, and make machine code of it."""
        self._raise_if_finalized()
        self._link()
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        """Return a function's address; 0 if it is not defined here."""
        if not self._finalized:
            try:
                self._final_module.get_function(name)
            except NameError:
                return 0
        return super().get_pointer_to_function(name)

    def _get_module_for_linking(self) -> Any:
        if self._finalized:
            return super()._get_module_for_linking()
        if self._shared_module is None:
            self._link()
            self._shared_module = self._final_module.clone()
            for function in self._shared_module.functions:
                if not function.is_declaration and function.linkage == codegen.ll.Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._shared_module

    def _link(self) -> None:
        """Add the code of all functions that are called, unless it is there."""
        if not self._is_linked:
            self._is_linked = True
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)


_generator: Any = codegen.JITCPUCodegen
_numba_set_env = _generator.set_env


def _set_env(self: Any, name: str, environment: Any) -> None:
    """Set a function's environment, unless the function has no machine code of its own."""
    if self._engine.get_global_value_address(name):
        _numba_set_env(self, name, environment)


_generator.set_env, _generator._library_class = _set_env, _LinkedFirst


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
        is_inner = options.get("no_cpython_wrapper", False)
        dispatcher._cache = _NotKept() if is_inner else _CompiledOnce(function)
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
