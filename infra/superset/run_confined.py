"""Run a command that can write only below one folder: `run_confined.py FOLDER COMMAND...`.

The kernel enforces this (Landlock, Linux 5.13 and later), for the command and all processes that it
starts. Temporary files go to the folder, too. Reading and the network are not restricted.
"""

import ctypes
import os
import sys
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RETURN_VERSION = 1
PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38
WRITE_FILE = 1 << 1
TRUNCATE = 1 << 14
BASE_RIGHTS = (
    WRITE_FILE
    | sum(1 << right for right in range(4, 13))  # remove and make files, folders, links, devices
)
LATER_RIGHTS = {2: 1 << 13, 3: TRUNCATE}
"""Rights that later versions of Landlock added: move between folders (2), truncate a file (3)."""
NULL_DEVICE = Path("/dev/null")

kernel = ctypes.CDLL(None, use_errno=True)


class PathBeneath(ctypes.Structure):
    """C structure `landlock_path_beneath_attr`: a folder and what is allowed below it."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def confine_writes(folder: Path) -> None:
    """Restrict this thread, and what it starts, to writes below a folder.

    Raises OSError if the kernel cannot do it.
    """
    version = _call(CREATE_RULESET, None, ctypes.c_size_t(0), RETURN_VERSION)
    rights = BASE_RIGHTS | sum(
        right for added_in, right in LATER_RIGHTS.items() if version >= added_in
    )
    handled = ctypes.c_uint64(rights)
    rules = _call(CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    for path, allowed in ((folder, rights), (NULL_DEVICE, rights & (WRITE_FILE | TRUNCATE))):
        rule = PathBeneath(allowed, os.open(path, os.O_PATH))
        _call(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(rule.folder)
    if kernel.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _call(RESTRICT_SELF, rules, 0)


def _call(number: int, *arguments: object) -> int:
    answer = kernel.syscall(number, *arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def main(folder: str, *command: str) -> None:
    """Run the command in the place of this process, confined if the kernel can do it."""
    temporary = Path(folder).resolve() / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    try:
        confine_writes(Path(folder))
    except OSError as error:
        reason = f"this kernel has no Landlock ({error.strerror})"
        print(f"dashboards: {reason}: Superset can write wherever its user can", file=sys.stderr)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
