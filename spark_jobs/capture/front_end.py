"""Choice of the front end that reads a file, and the front end Zeek."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address
from pathlib import Path

import numpy as np

from schemas.zeek import COLUMNS_SCRIPT, PACKET_LOG
from spark_jobs.base.errors import UserError
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.reader import BATCH_PACKETS, PacketBatch, ReadStats, read_capture
from spark_jobs.capture.stream import CaptureStream
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.zeek_kinds import is_zeek_log
from spark_jobs.capture.zeek_log import read_zeek_log

BARE_SCRIPT = COLUMNS_SCRIPT.with_name("bare.zeek")
ZEEK_OPTIONS = ("-b", "-C", "-O", "ZAM")
"""Options of zeek: none of its own scripts, checksums ignored, scripts compiled."""


def choose_front_end(requested: FrontEnd, path: Path) -> FrontEnd:
    """Return the front end for a file.

    For AUTO, it is ZEEK_LOG for a log of Zeek and BUILTIN for a capture. The built-in reader gives
    the same rows as Zeek and is many times faster.
    """
    if requested != FrontEnd.AUTO:
        return requested
    return FrontEnd.ZEEK_LOG if is_zeek_log(path) else FrontEnd.BUILTIN


@parser
def read_by_zeek(
    path: Path, prefixes: np.ndarray, stats: ReadStats, batch_packets: int = BATCH_PACKETS
) -> Iterator[PacketBatch]:
    """Yield a capture's packets as the program zeek sees them.

    Raises UserError if zeek is not installed or fails.
    """
    program = shutil.which("zeek")
    if not program:
        raise UserError(f"{path}: --front-end zeek needs the program zeek on the PATH")
    with tempfile.TemporaryDirectory(prefix="giscope-zeek-") as folder:
        capture = Path(folder) / "capture"
        with CaptureStream(path) as stream, capture.open("wb") as plain:
            plain.writelines(stream.remaining())
            content_hash, compression_error = stream.content_hash, stream.compression_error
        subscribers = Path(folder) / "subscribers.zeek"
        subscribers.write_text(subscribers_script(prefixes))
        result = subprocess.run(
            [program, *ZEEK_OPTIONS, "-r", capture, BARE_SCRIPT, subscribers],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        log = Path(folder) / f"{PACKET_LOG.path}.log"
        if result.returncode:
            errors = result.stderr.strip().splitlines()
            raise UserError(f"{path}: zeek: {errors[-1] if errors else result.returncode}")
        if log.exists():
            yield from read_zeek_log(log, prefixes, stats, batch_packets)
        if compression_error:
            stats.skipped["corrupt_compression"] += 1
        stats.content_hash = content_hash


def subscribers_script(prefixes: np.ndarray) -> str:
    """Return a Zeek script that passes the subscriber prefixes to the Zeek package.

    prefixes: see addresses.subscriber_prefixes.
    """
    lines = [f"\t{_subnet(*row)}," for row in prefixes.tolist()]
    return "\n".join(["redef GiScope::subscribers += {", *lines, "};", ""])


def _subnet(high: int, low: int, mask_high: int, mask_low: int) -> str:
    """Return a prefix in the syntax of Zeek, which has IPv6 in brackets."""
    address, length = IPv6Address(high << 64 | low), (mask_high << 64 | mask_low).bit_count()
    if address.ipv4_mapped and length >= 96:
        return f"{address.ipv4_mapped}/{length - 96}"
    return f"[{address}]/{length}"


READERS: dict[FrontEnd, Callable[[Path, np.ndarray, ReadStats], Iterator[PacketBatch]]] = {
    FrontEnd.BUILTIN: read_capture,
    FrontEnd.ZEEK: read_by_zeek,
    FrontEnd.ZEEK_LOG: read_zeek_log,
}
