"""The functions that Python calls, with the types of their arguments, for compilation in advance.

ENTRIES has a line for each, with the slowest to compile first. `make entries` rewrites it from the
functions that a run compiles. Functions that are not in it are compiled when they are needed.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.np.numpy_support import as_dtype, from_dtype

from spark_jobs.base.sources import ENTRIES, ROOT

PACKAGES = ("capture", "compiled", "estimators")
"""Packages of spark_jobs that are searched for compiled functions."""


def compile_entry(line: str) -> None:
    """Compile the function of a line of ENTRIES, if no process has compiled it yet.

    A function that no longer exists, or no longer accepts these types, is skipped.
    """
    name, *arguments = json.loads(line)
    module, _, function = name.rpartition(".")
    with suppress(ImportError, AttributeError, IndexError, NumbaError, TypeError):
        dispatcher = getattr(import_module(module), function)
        signature = tuple(type_from_json(argument) for argument in arguments)
        if not dispatcher._cache.is_compiled(signature, dispatcher.targetctx):
            try:
                dispatcher.compile(signature)
            finally:
                dispatcher._cache.unlock()


def type_to_json(type_: Any) -> Any:
    """Return a type as JSON.

    A number is its name, an array [dtype, dimensions, layout], any other type {kind: its items}.
    Raises TypeError for a type that Python does not pass to a function.
    """
    record, items = getattr(type_, "instance_class", None), getattr(type_, "types", ())
    match type_:
        case types.Literal():
            raise TypeError(f"{type_} comes only from compiled functions")
        case types.Integer() | types.Float() | types.Boolean():
            return str(type_)
        case types.Omitted():
            return {"omitted": type_.value}
        case types.BaseNamedTuple() if record:
            return {f"{record.__module__}.{record.__qualname__}": [*map(type_to_json, items)]}
        case types.BaseTuple():
            return {"tuple": [*map(type_to_json, items)]}
        case types.Array():
            dtype = _dtype_to_json(as_dtype(type_.dtype))
            aligned = "a" * getattr(type_.dtype, "aligned", False)
            return [dtype, type_.ndim, type_.layout + "r" * (not type_.mutable) + aligned]
    raise TypeError(f"Python passes no {type_} to a function")


def type_from_json(encoded: Any) -> types.Type:
    """Return the type that type_to_json encoded."""
    match encoded:
        case str():
            return getattr(types, encoded)
        case [dtype, ndim, layout]:
            dtype = from_dtype(_dtype_from_json(dtype, "a" in layout))
            return types.Array(dtype, ndim, layout[0], readonly="r" in layout)
        case {"omitted": value}:
            return types.Omitted(value)
        case {"tuple": items}:
            return types.BaseTuple.from_types([*map(type_from_json, items)])
    ((name, items),) = encoded.items()
    module, _, record = name.rpartition(".")
    return types.BaseTuple.from_types(
        [*map(type_from_json, items)], getattr(import_module(module), record)
    )


def _dtype_to_json(dtype: np.dtype) -> Any:
    if dtype.subdtype:
        items, shape = dtype.subdtype
        return {"items": _dtype_to_json(items), "shape": shape}
    if dtype.fields is None:
        return dtype.str
    formats, offsets = zip(*(dtype.fields[name][:2] for name in dtype.names or ()), strict=True)
    return {
        "names": dtype.names,
        "formats": [*map(_dtype_to_json, formats)],
        "offsets": offsets,
        "itemsize": dtype.itemsize,
    }


def _dtype_from_json(encoded: Any, aligned: bool = False) -> np.dtype:
    match encoded:
        case str():
            return np.dtype(encoded)
        case {"items": items, "shape": shape}:
            return np.dtype((_dtype_from_json(items), tuple(shape)))
    formats = [*map(_dtype_from_json, encoded["formats"])]
    return np.dtype(encoded | {"formats": formats}, align=aligned)


def compiled_entries() -> list[str]:
    """Return the lines of ENTRIES for the functions in the folder of compiled functions."""
    found = []
    for dispatcher in _dispatchers():
        cache = dispatcher._cache
        for (signature, *_), data in cache._cache_file._load_index().items():
            name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
            with suppress(TypeError):
                line = json.dumps([name, *map(type_to_json, signature)], separators=(",", ":"))
                size = Path(cache._cache_file._data_path(data)).stat().st_size
                found.append((-size, line))
    return [line for _, line in sorted(found)]


def _dispatchers() -> Iterator[Any]:
    """Yield all functions that Python may call."""
    paths = [p for package in PACKAGES for p in (ROOT / "spark_jobs" / package).rglob("*.py")]
    for path in sorted(paths):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for found in vars(import_module(name)).values():
            if isinstance(found, Dispatcher) and found.py_func.__module__ == name:
                if not found.targetoptions.get("no_cpython_wrapper"):
                    yield found


if __name__ == "__main__":
    ENTRIES.write_text("".join(f"{line}\n" for line in compiled_entries()))
