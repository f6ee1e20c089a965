"""Is a locked package known to be vulnerable? OSV is asked, by pip-audit, of the lock files
of giscope, Airflow and Superset. Says so in a line where OSV is out of reach.

Status 1: it knows of some that pyproject.toml does not accept.
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
LOCKED = ("infra/airflow/requirements.txt", "infra/superset/requirements.txt")
ACCEPTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["giscope"]["accepted"]
"""ID = "why it does not matter here"."""
UNREACHED = ("ConnectionError", "Could not connect", "timed out", "ServiceError")
WAIT_S = 10


def main() -> int:
    if why := _out_of_reach():
        return _not_asked(why)
    ignored = [word for name in ACCEPTED for word in ("--ignore-vuln", name)]
    with NamedTemporaryFile("w", suffix=".txt") as ours:
        uv = os.environ.get("UV", "uv")  # uv run says which one
        command = [uv, "export", "--quiet", "--locked", "--no-emit-project", "--no-hashes"]
        ours.write(subprocess.run(command, cwd=ROOT, stdout=-1, text=True, check=True).stdout)
        ours.flush()
        found = 0
        for name, file in {"uv.lock": ours.name, **{name: name for name in LOCKED}}.items():
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
                if any(sign in done.stderr for sign in UNREACHED):
                    return found or _not_asked(last)
                print(f"audit: {name}: {last}", file=sys.stderr)
                found = 1
    return found


def _out_of_reach() -> str | None:
    """Why no answer comes from OSV, if none does; that it wants another question is one."""
    try:
        urlopen(OSV, timeout=WAIT_S).close()
    except HTTPError as error:
        return f"status {error.code}" if error.code >= 500 else None
    except (URLError, OSError) as error:
        return str(getattr(error, "reason", error))
    return None


def _not_asked(why: str) -> int:
    print(f"audit: locked packages were not looked up at {OSV}: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
