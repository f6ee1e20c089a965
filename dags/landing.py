"""The landing folder, LANDING/<network>/<YYYY-MM-DD>/, and when a day in it is complete."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

MARKER = "_COMPLETE"


def missing(folder: Path, now: float, quiet_s: float, follow_links: bool = False) -> str | None:
    """What a day's folder still waits for; None where it is complete.

    It is complete when it has the marker and every file that the marker names, one a line; without
    a marker, when it has files and nothing in it has changed for quiet_s seconds before now.
    follow_links: whether the day's and the network's folder, and what is in them, may be symbolic
    links.
    """
    if not folder.is_dir():
        return f"{folder}: no such folder yet"
    marker = folder / MARKER
    links = [path for path in (folder.parent, folder, marker) if path.is_symlink()]
    if links and not follow_links:
        return f"{links[0]}: a symbolic link, not followed without GISCOPE_FOLLOW_LINKS=1"
    if marker.exists():
        if not marker.is_file():
            return f"{marker}: is not a regular file"
        names = [line.strip() for line in marker.read_text().splitlines()]
        absent = [name for name in names if name and not (folder / name).exists()]
        return f"{folder}: {MARKER} names {', '.join(absent)}: not there" if absent else None
    files = [
        path
        for path in folder.iterdir()
        if path.is_file() and (follow_links or not path.is_symlink())
    ]
    if not files:
        return f"{folder}: empty, and no {MARKER}"
    age = now - max(path.stat().st_ctime for path in [folder, *files])
    return f"{folder}: changed {age:.0f} s ago, and no {MARKER}" if age < quiet_s else None


def complete_folders(
    network: Path,
    day: date,
    days_back: int,
    now: float,
    quiet_s: float,
    follow_links: bool = False,
) -> Iterator[Path]:
    """The folders of the day and of days_back days before it that are complete."""
    for back in range(days_back + 1):
        folder = network / (day - timedelta(days=back)).isoformat()
        if missing(folder, now, quiet_s, follow_links) is None:
            yield folder
