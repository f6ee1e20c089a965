"""Counts, options and windows of each end of each connection agree with tcptrace: with the results
that its authors published for their sample captures, and with its output for a lab capture."""

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from conftest import CAPTURES

from schemas import FLOWS, PACKETS
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.tcptrace_truth import FOLDER, PUBLISHED, Difference, name_of, read_partition

LAB_CAPTURE = CAPTURES / "aa-gprs/peak.pcap.zst"


FIN, SYN, RST = 1, 2, 4


def _no_syn(a: str, b: str) -> list[Difference]:
    why = (
        "no SYN of the connection is in the capture. tcptrace takes options that it did not see as "
        "absent: no SACK, windows not scaled. To giscope neither is known"
    )
    return [
        Difference(end, field, None, why)
        for end in (f"{a} > {b}", f"{b} > {a}")
        for field in ("both sack", "max window")
    ]


NO_WINDOW = "it never advertised a window, which tcptrace writes as 0: its one packet is an RST"
SENT_NOTHING = "it never advertised a window, which tcptrace writes as 0: it sent no packet"

LATE_DATA = "a segment that repeats data also brings data below it: tcptrace counts no such part"
CLOCK = "frame 430 has a later time than the frames after it: giscope goes by the times"

DIFFERENCES = {
    "bad_tcp_checksum.dmp.gz": _no_syn("139.88.44.112:139", "139.88.45.93:2270"),
    "badsyns.dmp.gz": [
        Difference("132.235.67.21:9080 > 132.235.67.36:1700", "max window", None, SENT_NOTHING),
    ],
    "discard.solaris.dmp.gz": [
        Difference("132.235.1.2:9 > 132.235.1.184:35651", "max window", None, NO_WINDOW),
        Difference("132.235.2.1:9 > 132.235.1.184:35652", "max window", None, NO_WINDOW),
    ],
    "fast_reuse.dmp.gz": _no_syn("132.235.67.21:9080", "132.235.67.36:3330"),
    "first_seg_ooo.dmp.gz": [
        Difference("132.235.67.34:1150 > 132.235.67.19:80", "out of order", 1, LATE_DATA),
    ],
    "hardware_dups.dmp.gz": [
        Difference("144.16.64.141:1644 > 144.16.64.215:20", "out of order", 1, CLOCK),
    ],
    "http.dmp.gz": [
        *_no_syn("132.235.3.132:33654", "4.17.168.6:80"),
        *_no_syn("132.235.3.132:33655", "4.17.168.6:80"),
        *_no_syn("132.235.3.132:33656", "4.17.168.6:80"),
        *_no_syn("132.235.3.132:33657", "4.17.168.6:80"),
    ],
    "linux_cooked_socket.dmp.gz": _no_syn("212.38.233.159:1355", "209.10.41.242:21"),
    "urgent.dmp.gz": [
        *_no_syn("132.235.1.12:19", "132.235.3.132:57247"),
    ],
}

CAPTURED_TWICE = {
    "bad_ack_code.dmp.gz": [
        "128.224.1.148:9 > 128.224.2.23:1036",
        "128.224.1.148:19 > 128.224.2.23:1037",
    ],
    "discard.solaris.dmp.gz": ["132.235.1.184:35655 > 132.235.201.18:9"],
    "hardware_dups.dmp.gz": ["144.16.64.141:1644 > 144.16.64.215:20"],
}
CAPTURED_TWICE["pcap_v2.2.dmp.gz"] = CAPTURED_TWICE["bad_ack_code.dmp.gz"]
"""Ends whose every packet was captured twice, on either side of a router: tcptrace counts both, we
count one."""
COUNTS = ("packets", "data packets", "data bytes", "syns", "fins")


def captured_once(theirs: dict[str, dict[str, int]], ends: list[str]) -> dict[str, dict[str, int]]:
    """Halve the counts of these ends' packets, which tcptrace counts twice."""
    for end in ends:
        source, target = end.split(" > ")
        for facts, names in (
            (theirs[end], COUNTS),
            (theirs[f"{target} > {source}"], ("packets received", "data packets received")),
        ):
            for name in names:
                assert facts[name] % 2 == 0
                facts[name] //= 2
    return theirs


def ends_by_tcptrace(text: str) -> dict[str, dict[str, int]]:
    """Read the facts of each connection's ends, by their names (name_of), from `tcptrace -lnrW`."""
    found: dict[str, dict[str, int]] = {}
    for section in re.split(r"^TCP connection \d+:$", text, flags=re.MULTILINE)[1:]:
        a, b = re.findall(r"host \w+: +(\S+)", section)
        rows = re.findall(r"^ {5}(\S.*?): +(\S+).*? {5,}(\S.*?): +(\S+)", section, re.MULTILINE)
        fields_a, fields_b = ({row[i]: row[i + 1] for row in rows} for i in (0, 2))
        found[name_of(a, b, found)] = _facts_of_end(fields_a, fields_b)
        found[name_of(b, a, found)] = _facts_of_end(fields_b, fields_a)
    return found


def _facts_of_end(fields: dict[str, str], other_fields: dict[str, str]) -> dict[str, int]:
    syns, fins = fields["SYN/FIN pkts sent"].split("/")
    scaled, stamped = fields.get("req 1323 ws/ts", "N/N").split("/")
    other_stamped = other_fields.get("req 1323 ws/ts", "N/N").split("/")[1]
    both_sack = fields.get("req sack") == other_fields.get("req sack") == "Y"
    return {
        "packets": int(fields["total packets"]),
        "packets received": int(other_fields["total packets"]),
        "unique bytes": int(fields["unique bytes sent"]),
        "unique bytes received": int(other_fields["unique bytes sent"]),
        "data packets": int(fields["actual data pkts"]),
        "data packets received": int(other_fields["actual data pkts"]),
        "data bytes": int(fields["actual data bytes"]),
        "syns": int(syns),
        "fins": int(fins),
        "window scale": scaled == "Y",
        "timestamps": stamped == "Y",
        "both timestamps": stamped == other_stamped == "Y",
        "sack": fields.get("req sack") == "Y",
        "both sack": both_sack,
        "mss": int(fields["mss requested"]),
        "max window": int(fields["max win adv"]),
        "max segment": int(fields["max segm size"]),
        "out of order": int(fields["outoforder pkts"]),
        "zero windows": int(fields["zero win adv"]),
    }


def ends_by_giscope(path: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Return the same facts from flows and, where flows have no column for them, from packets."""
    partition = read_partition(path, folder)
    if partition is None:
        return {}
    files = Warehouse(folder).files(PACKETS)
    table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    sent = {row["frame"]: row for row in table.to_pylist() if not row["downlink"]}
    flows = ROWS[FLOWS](partition).to_pylist()
    order = partition.packets.frame[partition.segments.place]
    packets = [order[low:high] for low, high in pairwise(partition.connections.first)]
    found: dict[str, dict[str, int]] = {}
    for flow, frames in sorted(zip(flows, packets, strict=True), key=lambda c: c[0]["start_ts"]):
        end, other = (f"{flow[a]}:{flow[f'{a}_port']}" for a in ("user", "server"))
        found[name_of(end, other, found)] = _facts_of_flow(
            flow, [row for f in frames.tolist() if (row := sent[f])["user"] == flow["user"]]
        )
    return found


def _facts_of_flow(flow: dict, sent: list[dict]) -> dict[str, int]:
    initiator = flow["initiator"] == "mobile"
    data = [p["payload_len"] for p in sent if p["payload_len"] and not p["tcp_flags"] & RST]
    syns = [p for p in sent if p["tcp_flags"] & SYN]
    return {
        "packets": flow["packets_up"],
        "packets received": flow["packets_down"],
        "unique bytes": flow["payload_bytes_up"],
        "unique bytes received": flow["payload_bytes_down"],
        "data packets": len(data),
        "data packets received": flow["data_packets_down"],
        "data bytes": sum(data),
        "syns": flow["syn_count"] if initiator else flow["synack_count"],
        "fins": sum(p["tcp_flags"] & FIN != 0 for p in sent),
        "window scale": any(p["window_scale"] is not None for p in syns),
        "timestamps": any(p["ts_val"] is not None for p in sent),
        "both timestamps": flow["timestamps"],
        "sack": any(p["sack_permitted"] for p in syns),
        "both sack": flow["sack"],
        "mss": max((p["mss"] for p in syns), default=0),
        "max window": flow["max_window"],
        "max segment": max(data, default=0),
        "out of order": flow["out_of_order_up"],
        "zero windows": flow["zero_windows_up"],
    }


def differences(theirs: dict[str, dict], ours: dict[str, dict]) -> dict[tuple[str, str], object]:
    """Return our value of each (end, field) in which tcptrace's differs."""
    assert ours.keys() == theirs.keys()
    return {
        (end, name): ours[end][name]
        for end, facts in theirs.items()
        for name, value in facts.items()
        if ours[end][name] != value
    }


@pytest.mark.skipif(not PUBLISHED, reason=f"no captures in {FOLDER}")
@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_sample_captures_agree_with_tcptrace(path, tmp_path):
    theirs = ends_by_tcptrace(Path(f"{path}.long").read_text())
    theirs = captured_once(theirs, CAPTURED_TWICE.get(path.name, []))
    explained = {(d.end, d.field): d.ours for d in DIFFERENCES.get(path.name, [])}
    assert differences(theirs, ends_by_giscope(path, tmp_path)) == explained


@pytest.mark.skipif(not shutil.which("tcptrace"), reason="tcptrace is not installed")
def test_lab_capture_agrees_with_tcptrace(tmp_path):
    path = tmp_path / "peak.pcap"
    with LAB_CAPTURE.open("rb") as source, path.open("wb") as target:
        zstandard.ZstdDecompressor().copy_stream(source, target)
    output = subprocess.run(["tcptrace", "-lnrW", path], capture_output=True, text=True, check=True)
    theirs = ends_by_tcptrace(output.stdout)
    silent_ends = [end for end, facts in theirs.items() if not facts["syns"]]
    explained = {(end, "max window"): None for end in silent_ends}  # see SENT_NOTHING, NO_WINDOW
    assert differences(theirs, ends_by_giscope(path, tmp_path / "warehouse")) == explained
