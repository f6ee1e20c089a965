"""Numba's tables of what it can compile, filled by the import of this module.

It takes as long as a hundred functions take to load. Processes that are forks of one that has
imported this module share the tables.
"""

import sys
from typing import Any

from numba.core.registry import cpu_target

MATRICES = "scipy.linalg"
"""A module with which Numba multiplies matrices, which no function here does.

Its import would take as long as that of Numba.
"""

imported: dict[str, Any] = sys.modules
imported.setdefault(MATRICES, None)  # now it cannot be imported
cpu_target.target_context.refresh()
if imported[MATRICES] is None:
    del imported[MATRICES]
