"""Superset's cache of query results, which are valid until a job publishes."""

from typing import Any

from country_views import countries_key
from duckdb_connections import last_publication
from flask_caching.backends import FileSystemCache
from roles import countries_in_sql, countries_on_pages


class UntilPublished(FileSystemCache):
    """Cache whose keys contain the publication and the countries that the user may see."""

    def _full_key(self, key: str) -> str:
        if key == self._fs_count_file:  # the cache's own count of its files
            return key
        visible = f"{countries_key(countries_on_pages())}-{countries_key(countries_in_sql())}"
        return f"{last_publication()}-{visible}-{key}"

    def get(self, key: str) -> Any:
        """Return the result that is cached for this publication and these countries."""
        return super().get(self._full_key(key))

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Cache a result for this publication and these countries."""
        return super().set(self._full_key(key), value, *args, **kwargs)
