"""The only place that handles errors from parsing untrusted bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any, TypeVar, cast

from spark_jobs.errors import UserError

Reader = TypeVar("Reader", bound=Callable[..., Any])


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Raise any error within the block as a UserError that names the file.

    Errors that the file's bytes do not cause pass unchanged: too little memory, and failures of the
    system (OSError).
    """
    try:
        yield
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error) or "no reason given").splitlines()[0]
        raise UserError(f"{path}: cannot be parsed: {type(error).__name__}: {reason}") from error


def parser(reader: Reader) -> Reader:
    """Return the reader with `parsing` around each call.

    reader: a function or generator function whose first argument is a file.
    """

    @wraps(reader)
    def call(path: Path, *args: Any, **options: Any) -> Any:
        with parsing(path):
            return reader(path, *args, **options)

    @wraps(reader)
    def iterate(path: Path, *args: Any, **options: Any) -> Iterator[Any]:
        with parsing(path):
            yield from reader(path, *args, **options)

    return cast(Reader, iterate if isgeneratorfunction(reader) else call)
