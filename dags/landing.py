"""The landing folder, LANDING/<network>/<YYYY-MM-DD>/: networks, days, and when one is complete."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

MARKER = "_COMPLETE"
MAX_DAYS = 366
"""Days that Airflow catches up without a last day, and maximum of GISCOPE_LATE_DAYS."""
MAX_MINUTES = 525_600
"""Maximum of the settings that are times: a year."""
MAX_BYTES = 1 << 20
"""Maximum size of the networks file, as for `giscope`."""
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Form of a network's name, as for `giscope`."""


class Settings(NamedTuple):
    """The values of the variables GISCOPE_..., which docs/operations.md describes."""

    first_day: date
    last_day: date | None
    follow_links: bool
    quiet_s: float
    wait: timedelta
    look: timedelta
    late_days: int
    task: timedelta
    deadline_hour: float


def settings_of(variables: Mapping[str, str], today: date) -> Settings:
    """Return the settings. Raises ValueError, which names a variable that has no valid value."""

    def number(name: str, default: float, most: float) -> float:
        text = variables.get(name) or str(default)
        try:
            if 0 <= (value := float(text)) <= most:
                return value
        except ValueError:
            pass
        raise ValueError(f"{name}={text[:60]!r}: not a number from 0 to {most}")

    return Settings(
        *day_range(variables, today),
        number("GISCOPE_FOLLOW_LINKS", 0, 1) == 1,
        60 * number("GISCOPE_QUIET_MINUTES", 30, MAX_MINUTES),
        timedelta(minutes=number("GISCOPE_WAIT_MINUTES", 1200, MAX_MINUTES)),
        timedelta(seconds=number("GISCOPE_LOOK_SECONDS", 300, 60 * MAX_MINUTES)),
        int(number("GISCOPE_LATE_DAYS", 7, MAX_DAYS)),
        timedelta(minutes=number("GISCOPE_TASK_MINUTES", 720, MAX_MINUTES)),
        number("GISCOPE_DEADLINE_HOUR", 22, 24),
    )


def network_names(file: Path) -> list[str]:
    """Return the names of the networks in the networks file.

    Raises ValueError if they cannot be read; `giscope` says more about a file with mistakes.
    """
    try:
        if file.exists() and not file.is_file():
            raise ValueError("not a regular file")
        with file.open() as text:
            names = [entry["name"] for entry in tomllib.loads(text.read(MAX_BYTES))["network"]]
        if len({name for name in names if NAME.fullmatch(name)}) < len(names):
            raise ValueError("a name is not valid, or two are the same")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: no names of networks: {error}") from error
    return names


def day_range(settings: Mapping[str, str], today: date) -> tuple[date, date | None]:
    """Return the first and the last day to process; None: no last day.

    settings: GISCOPE_FIRST_DAY and GISCOPE_LAST_DAY, as YYYY-MM-DD.
    Raises ValueError for a text that is no day, and for a first day more than MAX_DAYS ago without
    a last one: Airflow would make a run for each of these days, and each would wait for its
    captures.
    """

    def day(name: str) -> date:
        text = settings.get(name, "")
        try:
            if (found := date.fromisoformat(text)).year >= 1970:
                return found
        except ValueError:
            pass
        raise ValueError(f"{name}={text[:60]!r}: not a day from 1970 on, such as 2026-01-31")

    first = day("GISCOPE_FIRST_DAY")
    last = day("GISCOPE_LAST_DAY") if settings.get("GISCOPE_LAST_DAY") else None
    if not last and (today - first).days > MAX_DAYS:
        raise ValueError(
            f"GISCOPE_FIRST_DAY={first} is {(today - first).days:,} days ago, and Airflow would "
            "wait for the captures of each: set GISCOPE_LAST_DAY, or a first day within "
            f"{MAX_DAYS} days"
        )
    return first, last


def incomplete_reason(
    folder: Path, now: float, quiet_s: float, follow_links: bool = False
) -> str | None:
    """Return the reason why a day's folder is not complete; None: it is complete.

    A folder with the marker is complete when it has every file that the marker names, one on a
    line. A folder without a marker is complete when it has files and nothing in it has changed for
    quiet_s seconds before now.
    follow_links: the network's folder, the day's folder and the files may be symbolic links.
    """
    if not folder.is_dir():
        return f"{folder}: no such folder yet"
    marker = folder / MARKER
    links = [path for path in (folder.parent, folder, marker) if path.is_symlink()]
    if links and not follow_links:
        return f"{links[0]}: symbolic link; to follow it, set GISCOPE_FOLLOW_LINKS=1"
    if marker.exists():
        if not marker.is_file():
            return f"{marker}: not a regular file"
        names = [line.strip() for line in marker.read_text().splitlines()]
        absent = [name for name in names if name and not (folder / name).exists()]
        return f"{folder}: files of {MARKER} are missing: {', '.join(absent)}" if absent else None
    files = [
        path
        for path in folder.iterdir()
        if path.is_file() and (follow_links or not path.is_symlink())
    ]
    if not files:
        return f"{folder}: empty, without {MARKER}"
    age = now - max(path.stat().st_ctime for path in [folder, *files])
    return f"{folder}: changed {age:.0f} s ago, without {MARKER}" if age < quiet_s else None


def complete_folders(
    network: Path,
    day: date,
    days_back: int,
    now: float,
    quiet_s: float,
    follow_links: bool = False,
) -> Iterator[Path]:
    """Yield the complete folders of the day and of the days_back days before it, latest first."""
    for back in range(days_back + 1):
        folder = network / (day - timedelta(days=back)).isoformat()
        if incomplete_reason(folder, now, quiet_s, follow_links) is None:
            yield folder
