"""Runs a command that can write below one folder only, whatever it is made to do:

    confined.py FOLDER COMMAND...

The kernel sees to it (Landlock, Linux 5.13 and later), for the command and all that it starts.
Temporary files go there, too. Reading and the network stay as they are.
"""

import ctypes
import os
import sys
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_OF_LANDLOCK = 1
PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38
WRITE_FILE = 1 << 1
TRUNCATE = 1 << 14
CHANGES = (
    WRITE_FILE
    | sum(1 << right for right in range(4, 13))  # remove and make files, folders, links, devices
)
LATER = {2: 1 << 13, 3: TRUNCATE}
"""Rights that later versions know: to move between folders, to cut a file off."""
DEVICE = Path("/dev/null")

kernel = ctypes.CDLL(None, use_errno=True)


class Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def confine(folder: Path) -> None:
    """This thread, and what it starts. Raises OSError where the kernel cannot."""
    version = _call(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_OF_LANDLOCK)
    rights = CHANGES | sum(right for since, right in LATER.items() if version >= since)
    handled = ctypes.c_uint64(rights)
    rules = _call(CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    for path, allowed in ((folder, rights), (DEVICE, rights & (WRITE_FILE | TRUNCATE))):
        rule = Beneath(allowed, os.open(path, os.O_PATH))
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
    temporary = Path(folder).resolve() / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    try:
        confine(Path(folder))
    except OSError as error:
        missing = f"no Landlock in this kernel ({error.strerror})"
        print(f"dashboards: {missing}: Superset could write where its user may", file=sys.stderr)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
