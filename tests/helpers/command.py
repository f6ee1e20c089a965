"""The command `giscope` in this process, which keeps what it has imported, compiled and started."""

import contextlib
import subprocess
from tempfile import TemporaryFile

from spark_jobs.commands.cli import main


def giscope(*arguments: object) -> subprocess.CompletedProcess:
    """Run the command; return its exit status and what it printed, as of a process of its own."""
    words, status = [str(argument) for argument in arguments], 0
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:  # a fork writes to them, too
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
            except SystemExit as end:
                status = int(end.code or 0)
        printed = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(words, status, *printed)
