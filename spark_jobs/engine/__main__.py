"""Compile all functions, unless they are, and print their folder: for wheels and images."""

import sys

from spark_jobs.base.sources import compiled_folder, complete_marker
from spark_jobs.engine.processes import compile_functions

if __name__ == "__main__":
    compile_functions()
    folder = compiled_folder()
    if not complete_marker(folder).exists():
        print(
            f"giscope: {folder}: cannot store the compiled estimators there: set NUMBA_CACHE_DIR "
            "to a folder that you may write",
            file=sys.stderr,
        )
        sys.exit(2)
    print(folder)
