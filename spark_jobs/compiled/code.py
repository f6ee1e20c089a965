"""Machine code is made only of what Python calls.

Numba makes some of each function at once. What only compiled functions call is linked into them as
LLVM's code, mostly inlined, and its own machine code never runs.
"""

from typing import Any

from numba.core import codegen
from numba.core.environment import lookup_environment

ENVIRONMENT = "_ZN08NumbaEnv"
"""What the names of functions' environments begin with."""

_codegen: Any = codegen.JITCPUCodegen
_set_env = _codegen.set_env


class _Library(codegen.JITCodeLibrary):
    """A function's code; machine code once an address in it is asked for."""

    _runs = False

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        if not self._runs and self._defines(name):
            self._runs = True
            self._dynamic_globals.clear()
            super()._finalize_final_module()
            self._set_environments()
        return super().get_pointer_to_function(name)

    def _module(self) -> Any:
        return self._shared_module or self._final_module

    def _defines(self, name: str) -> bool:
        functions = self._module().functions
        return any(found.name == name and not found.is_declaration for found in functions)

    def _set_environments(self) -> None:
        """Of what is linked in, too."""
        for variable in self._module().global_variables:
            if variable.name.startswith(ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    _codegen.set_env(self._codegen, variable.name, environment)

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        if self._runs:
            return super().serialize_using_object_code()
        self._ensure_finalized()
        return self.name, "bitcode", self._get_module_for_linking().as_bitcode()


def _set_env_where_used(self: Any, env_name: str, env: Any) -> None:
    """As Numba's, but where no machine code refers to the environment yet."""
    if self._engine.is_symbol_defined(env_name):
        _set_env(self, env_name, env)


def install() -> None:
    """Have Numba work so in this process."""
    _codegen._library_class = _Library
    _codegen.set_env = _set_env_where_used
