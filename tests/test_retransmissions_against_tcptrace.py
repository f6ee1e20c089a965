"""Retransmissions, filled holes, window probes and RTTs agree with what tcptrace's authors
published of their sample captures."""

import re
from collections import Counter
from pathlib import Path

import pytest

from spark_jobs.tables.registry import ROWS
from tests.helpers.tcptrace_truth import FOLDER, PUBLISHED, Difference, name_of, read_partition

RTT_MS = 0.11
"""tcptrace prints a tenth of a millisecond."""

CAPTURED_TWICE = "hardware dups"
"""A field of ends whose packets were captured twice, which tcptrace counts twice: it warns
that its figures are suspect."""

PROBE_AND_FIN = (
    "frame 26 brings 418 bytes for the first time, and the FIN that frame 25 had brought: to "
    "tcptrace one byte retransmitted, and no hole filled. The data that fills the hole was lost "
    "on the Internet side"
)
NO_TIME = (
    "packet and ACK have one time, by a clock of 10 ms or 1 ms: a round trip of 0. tcptrace takes "
    "a least of 0 for none yet"
)
SACK = "a SACK block answers it; tcptrace's RTTs are those of segments whose end an ACK names: "

DIFFERENCES = {
    "long_rtt.dmp.gz": [
        Difference(
            "132.235.67.20:4701 > 132.235.67.34:9080",
            "longest rtt",
            pytest.approx(1142.3, abs=RTT_MS),
            SACK + "data of frame 28, sent once, in frame 32",
        ),
    ],
    "psc.fddi.dmp.gz": [
        Difference(
            "128.182.40.126:1034 > 128.182.61.120:1066",
            "longest rtt",
            pytest.approx(40.95, abs=RTT_MS),
            SACK + "data of frame 139, sent once, in frame 203",
        ),
        Difference("128.182.61.120:1066 > 128.182.40.126:1034", "least rtt", 0.0, NO_TIME),
    ],
    "single_byte_rexmit.dmp.gz": [
        Difference("67.82.9.253:80 > 30.229.118.67:37143", "retransmitted", 1, PROBE_AND_FIN),
        Difference("67.82.9.253:80 > 30.229.118.67:37143", "filled holes", 2, PROBE_AND_FIN),
    ],
    "zwnd.dmp.gz": [
        Difference("132.235.3.154:58213 > 132.235.3.151:5001", "least rtt", 0.0, NO_TIME),
    ],
}


def ends_by_tcptrace(text: str) -> dict[str, dict[str, float]]:
    """Read the facts of each end of each connection from the output of `tcptrace -lnrW`."""
    found: dict[str, dict[str, float]] = {}
    for section in re.split(r"^TCP connection \d+:$", text, flags=re.MULTILINE)[1:]:
        a, b = re.findall(r"host \w+: +(\S+)", section)
        rows = re.findall(r"^ {5}(\S.*?): +(\S+).*? {5,}(\S.*?): +(\S+)", section, re.MULTILINE)
        for end, other, side in ((a, b, 0), (b, a, 2)):
            fields = {row[side]: row[side + 1] for row in rows}
            found[name_of(end, other, found)] = {
                "retransmitted": int(fields["rexmt data pkts"]),
                "filled holes": int(fields["outoforder pkts"]),
                "probes": int(fields["zwnd probe pkts"]),
                "least rtt": float(fields.get("RTT min", "nan")),
                "longest rtt": float(fields.get("RTT max", "nan")),
                CAPTURED_TWICE: int(fields.get(CAPTURED_TWICE, "0")),
            }
    return found


def ends_by_giscope(path: Path, folder: Path) -> dict[str, dict[str, float | None]]:
    """Return the same facts of the data sent to each subscriber; every end is a subscriber."""
    partition = read_partition(path, folder)
    if partition is None:
        return {}
    tables = {table.name: rows(partition).to_pylist() for table, rows in ROWS.items()}
    retransmitted = [row for row in tables["retransmissions"] if not row["new_data"]]
    repeated = Counter(row["flow_id"] for row in retransmitted if row["original_frame"] is not None)
    filling = Counter(row["flow_id"] for row in retransmitted if row["original_frame"] is None)
    found: dict[str, dict[str, float | None]] = {}
    for flow in sorted(tables["flows"], key=lambda row: row["start_ts"]):
        end, other = (f"{flow[a]}:{flow[f'{a}_port']}" for a in ("server", "user"))
        found[name_of(end, other, found)] = {
            "retransmitted": repeated[flow["flow_id"]],
            "filled holes": filling[flow["flow_id"]],
            "probes": flow["window_probes_down"],
            "least rtt": _ms(flow["rtt_access_min"]),
            "longest rtt": _ms(flow["rtt_access_max"]),
        }
    return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def differences(theirs: dict[str, dict], ours: dict[str, dict]) -> dict[tuple[str, str], object]:
    """Return our value of each (end, field) in which tcptrace's differs. Its RTTs are those of each
    segment whose end an ACK names, SYNs and FINs too; ours, of data alone, lie among them."""
    assert ours.keys() == theirs.keys()
    found = {}
    for end, expected in theirs.items():
        if expected[CAPTURED_TWICE]:
            continue
        mine = ours[end]
        for name in ("retransmitted", "filled holes", "probes"):
            if mine[name] != expected[name]:
                found[end, name] = mine[name]
        for name, sign in (("least rtt", 1), ("longest rtt", -1)):
            if mine[name] is not None and sign * (expected[name] - mine[name]) > RTT_MS:
                found[end, name] = pytest.approx(mine[name], abs=RTT_MS)
    return found


@pytest.mark.skipif(not PUBLISHED, reason=f"no captures in {FOLDER}")
@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_retransmissions_and_rtts_agree_with_tcptrace(path, tmp_path):
    theirs = ends_by_tcptrace(Path(f"{path}.long").read_text())
    explained = {(d.end, d.field): d.ours for d in DIFFERENCES.get(path.name, [])}
    assert differences(theirs, ends_by_giscope(path, tmp_path)) == explained
