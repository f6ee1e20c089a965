"""Check whether locked packages have known vulnerabilities, by pip-audit and OSV.

It checks giscope's lock file and those of the environments of Airflow and Superset. If OSV cannot
be reached, it prints a line that says so, with exit status 0. Exit status 1: packages have
vulnerabilities that pyproject.toml does not accept.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
OSV = os.environ.get("GISCOPE_OSV", "https://api.osv.dev/v1/query")
REQUIREMENTS = ("infra/airflow/requirements.txt", "infra/superset/requirements.txt")
ACCEPTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["giscope"]["accepted"]
"""Accepted vulnerabilities: `ID = "why it does not matter here"`."""
NETWORK_ERRORS = ("ConnectionError", "Could not connect", "timed out", "ServiceError")
TIMEOUT_S = 10


def main() -> int:
    """Check all lock files; return the exit status."""
    if reason := _unreachable_reason():
        return _print_skipped(reason)
    ignored = [word for name in ACCEPTED for word in ("--ignore-vuln", name)]
    with NamedTemporaryFile("w", suffix=".txt") as exported:
        uv = os.environ.get("UV", "uv")  # `uv run` sets UV to its own path
        wanted = ["--all-extras", "--no-emit-project", "--no-hashes"]
        command = [uv, "export", "--quiet", "--locked", *wanted]
        exported.write(subprocess.run(command, cwd=ROOT, stdout=-1, text=True, check=True).stdout)
        exported.flush()
        found = 0
        for name, file in {
            "uv.lock": exported.name,
            **{name: name for name in REQUIREMENTS},
        }.items():
            done = subprocess.run(
                ["pip-audit", "--requirement", file, "--no-deps", "--disable-pip",
                 "--vulnerability-service", "osv", "--osv-url", OSV,
                 "--progress-spinner", "off", "--desc", "off", *ignored],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.stdout:
                print(f"audit: {name}:\n{done.stdout}", file=sys.stderr)
                found = 1
            elif done.returncode:
                last = done.stderr.strip().splitlines()[-1]
                if any(text in done.stderr for text in NETWORK_ERRORS):
                    return found or _print_skipped(last)
                print(f"audit: {name}: {last}", file=sys.stderr)
                found = 1
    return found


def _unreachable_reason() -> str | None:
    """Return the reason why OSV does not answer; None: it answers, if only with a client error."""
    try:
        urlopen(OSV, timeout=TIMEOUT_S).close()
    except HTTPError as error:
        return f"status {error.code}" if error.code >= 500 else None
    except (URLError, OSError) as error:
        return str(getattr(error, "reason", error))
    return None


def _print_skipped(reason: str) -> int:
    print(f"audit: locked packages were not looked up at {OSV}: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
