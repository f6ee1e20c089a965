"""Wheels with compiled functions: `make wheel`."""

import os
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCode(BuildHookInterface):
    """Adds the functions compiled in the folder GISCOPE_MACHINE_CODE, if it is set.

    Such a wheel is for one platform, one version of Python, and the locked version of Numba.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the folder and what it needs to the wheel's builder."""
        folder = os.environ.get("GISCOPE_MACHINE_CODE")
        if folder:
            locked = tomllib.loads(Path(self.root, "uv.lock").read_text())["package"]
            (numba,) = (package["version"] for package in locked if package["name"] == "numba")
            build_data["dependencies"].append(f"numba=={numba}")
            build_data["force_include"][folder] = "spark_jobs/machine_code"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
