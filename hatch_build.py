"""Wheels with compiled functions: `make wheel`."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCode(BuildHookInterface):
    """Adds the functions compiled in the folder GISCOPE_MACHINE_CODE, if it is set.

    Such a wheel is for one platform and one version of Python.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the folder to the wheel's builder."""
        folder = os.environ.get("GISCOPE_MACHINE_CODE")
        if folder:
            build_data["force_include"][folder] = "spark_jobs/machine_code"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
