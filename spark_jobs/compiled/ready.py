"""Numba's tables of what it can compile, filled by the import of this module.

It takes as long as a hundred functions take to load. Processes that are forks of one that has
imported this module share the tables.
"""

from numba.core.registry import cpu_target

cpu_target.target_context.refresh()
