"""Shorter imports for giscope's own processes, from the import of this module on.

- The garbage collector runs rarely: it would look at thousands of functions again and again.
- pandas cannot be imported. PyArrow would import it wherever it is installed, to see whether an
  array is one of pandas, and that takes as long as the import of Numba.
"""

import gc
import sys


class _NotNeeded:
    """An import hook that refuses pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"giscope does without {name}", name=name)


gc.set_threshold(100_000)
sys.meta_path.insert(0, _NotNeeded)
