"""The only place that handles errors from parsing untrusted bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar, cast

from spark_jobs.base.errors import UserError

Reader = TypeVar("Reader", bound=Callable[..., Any])


def kind_of(error: Exception) -> str:
    """Return what kind of error it is: a parser's own message may quote personal data."""
    if isinstance(error, UserError):
        return str(error)
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


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
        at = extract_tb(error.__traceback__)[-1]
        place = f"{Path(at.filename).name}:{at.lineno}"
        raise UserError(f"{path}: cannot be parsed: {kind_of(error)} in {place}") from error


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
