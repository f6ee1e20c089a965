"""Superset's cache of answers: they hold until a job publishes."""

from typing import Any

from connections import last_publication
from flask_caching.backends import FileSystemCache
from reach import choice
from roles import countries_in_sql, countries_on_pages


class UntilPublished(FileSystemCache):
    """Keys tell what was asked: which publication, and which countries' rows."""

    def _asked(self, key: str) -> str:
        if key == self._fs_count_file:  # how many there are
            return key
        seen = f"{choice(countries_on_pages())}-{choice(countries_in_sql())}"
        return f"{last_publication()}-{seen}-{key}"

    def get(self, key: str) -> Any:
        return super().get(self._asked(key))

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return super().set(self._asked(key), value, *args, **kwargs)
