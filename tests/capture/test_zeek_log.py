"""Zeek's packet log: the same packets as the built-in reader's; mistakes in it are reported."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from conftest import CAPTURES, ROOT, ask
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.packets import QUIC
from schemas.zeek import COLUMNS_SCRIPT, PACKET_LOG, columns_script
from spark_jobs.base.errors import UserError
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.columns import packet_tables
from spark_jobs.capture.front_end import choose_front_end, subscribers_script
from spark_jobs.capture.quic_flows import mark_quic
from spark_jobs.capture.reader import ReadStats, read_capture
from spark_jobs.capture.zeek_log import read_zeek_log
from spark_jobs.ingest.job import ingest_capture
from tests.helpers.user_names import keys_of
from tests.helpers.zeek_logs import NAMES, log, minimal_rows, site_log

POOL = "10.64.0.0/14"
FULL = ROOT.parent / "shared/zeek"
SHIPPED = ROOT / "tests/data/zeek"
LOGS = {
    "gprs-aa-peak": "aa-gprs/peak.pcap.zst",
    "gprs-aa-offpeak": "aa-gprs/off-peak.pcap.zst",
    "gprs-bb-peak": "bb-gprs/peak.pcap.zst",
    "dialup-peak": "cc-dialup/peak.pcap.zst",
}
DATA = {
    "ts": "1078224001.891451",
    "user": "10.67.1.10",
    "user_port": "49947",
    "server": "198.51.100.24",
    "server_port": "80",
    "downlink": "F",
    "ip_proto": "6",
    "ip_len": "60",
    "ip_id": "1755",
    "ttl": "64",
    "dscp": "0",
    "ecn": "0",
    "tcp_flags": "16",
    "seq": "395774032",
    "ack": "1",
    "window": "8040",
    "payload_len": "0",
    "sack": "7,9,11,13",
}
PING = {"ip_proto": "1", "ip_len": "84", "ttl": "64", "dscp": "0", "ecn": "0"} | {
    name: DATA[name] for name in ("ts", "user", "server", "downlink", "ip_id")
}

UDP = {name: DATA[name] for name in (*PING, "user_port")} | {
    "server_port": "443",
    "ip_proto": "17",
    "ip_len": "1228",
}
INITIAL = UDP | {
    "quic_form": "initial",
    "quic_coalesced": "36",
    "quic_version": "4294967295",
    "quic_dcid": "7",
    "quic_scid": "4294967294",
    "quic_length": "1182",
}
SHORT = UDP | {"quic_form": "one_rtt", "quic_spin": "T", "quic_dcid": "9"}
SHORT_WITHOUT_ID = {name: value for name, value in SHORT.items() if name != "quic_dcid"} | {
    "quic_spin": "F"
}
UNREACHABLE = UDP | {"ip_proto": "1", "quic_form": "unreachable"}


def prefixes() -> np.ndarray:
    from ipaddress import ip_network

    return subscriber_prefixes([ip_network(POOL), ip_network("2001:db8::/32")])


def read(path: Path, reader=read_zeek_log, **options) -> tuple[pa.Table, ReadStats]:
    """All rows in the file's order."""
    reading, keys = ReadStats(), keys_of(POOL, "2001:db8::/32")
    tables = [
        table
        for run in mark_quic(reader(path, prefixes(), reading, **options), reading)
        for _, table in packet_tables(run, "c", 1, keys.names_of_all(run.addresses))
    ]
    if not tables:
        return pa.table({"frame": pa.array([], pa.int64())}), reading
    return pa.concat_tables(tables).sort_by("frame"), reading


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "giscope_packets.log"
    path.write_text(text)
    return path


def as_json(rows: list[dict[str, str]]) -> str:
    def value(name: str, text: str):
        if name in ("user", "server", "quic_form"):
            return text
        if name == "sack":
            return [int(edge) for edge in text.split(",")]
        return {"T": True, "F": False}.get(text) if text in "TF" else json.loads(text)

    return "".join(
        json.dumps({name: value(name, text) for name, text in row.items() if text != "-"}) + "\n"
        for row in rows
    )


@pytest.mark.integration
@pytest.mark.parametrize("folder", [SHIPPED, FULL], ids=["shipped", "40000"])
@pytest.mark.parametrize("form", ["tsv", "json"])
@pytest.mark.parametrize("name", LOGS)
def test_rows_equal_those_of_the_built_in_reader(tmp_path, folder, name, form):
    found = list(folder.glob(f"{name}.*.log.zst"))
    if not found:
        pytest.skip(f"no log of Zeek for {name} in {folder}")
    rows = minimal_rows(found[0], POOL)
    path = written(tmp_path, log(rows) if form == "tsv" else as_json(rows))
    theirs, reading = read(path)
    ours, _ = read(CAPTURES / LOGS[name], read_capture)
    assert reading.skipped == {}
    assert len(theirs) == len(rows) > 100
    for column in theirs.column_names:
        assert theirs[column].to_pylist() == ours[column][: len(rows)].to_pylist(), column


@pytest.mark.parametrize("form", [log, as_json])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_values_come_as_written_plain_or_compressed(tmp_path, form, pack):
    path = tmp_path / "l"
    path.write_bytes(pack(form([DATA, PING]).encode()))
    table, reading = read(path)
    tcp, ping = table.to_pylist()
    assert reading.skipped == {}
    assert tcp["ts"].timestamp() == 1078224001.891451
    assert (tcp["user"], tcp["user_port"], tcp["sack"]) == ("10.67.1.10", 49947, [7, 9, 11, 13])
    assert (ping["ip_len"], ping["seq"], ping["user_port"], ping["sack"]) == (84, None, None, None)


@pytest.mark.parametrize("form", ["tsv", "json"])
def test_values_of_quic_come_as_written(tmp_path, form):
    """A short header has a connection ID only if the log has it."""
    write = as_json if form == "json" else log
    down = {"downlink": "T"}
    rows = [DATA, INITIAL, INITIAL | down, SHORT, SHORT_WITHOUT_ID, UNREACHABLE, DATA]
    table, reading = read(written(tmp_path, write(rows)))
    assert reading.skipped == {}
    assert [tuple(row[name] for name in QUIC) for row in table.to_pylist()] == [
        (None,) * 7,
        ("initial", 36, 4294967295, None, 7, 4294967294, 1182),
        ("initial", 36, 4294967295, None, 7, 4294967294, 1182),
        ("one_rtt", None, None, True, 9, None, None),
        ("one_rtt", None, None, False, None, None, None),
        ("unreachable", None, None, None, None, None, None),
        (None,) * 7,
    ]
    assert table["mss"].null_count == table["ts_val"].null_count == len(rows)
    assert table["seq"].null_count == len(rows) - 2


def test_values_of_a_malformed_line_are_not_those_of_the_next_one(tmp_path):
    bad = DATA | {"payload_len": "x"}
    table, _ = read(
        written(tmp_path, log([bad, INITIAL | {"downlink": "T"}, bad, SHORT_WITHOUT_ID]))
    )
    assert table["quic_dcid"].to_pylist() == [7, None]


def test_without_a_long_header_a_log_has_quic_on_its_ports_only(tmp_path):
    elsewhere = {"server_port": "4433"}
    rows = [SHORT | elsewhere, SHORT_WITHOUT_ID, UNREACHABLE]
    table, _ = read(written(tmp_path, log(rows)))
    assert table["quic_form"].to_pylist() == [None, "one_rtt", None]
    assert table["user_port"].to_pylist() == [49947, 49947, None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"quic_form": "9"},
        {"quic_form": "-"},
        {"quic_coalesced": "256"},
        {"quic_version": "-"},
        {"quic_dcid": "4294967296"},
        {"quic_spin": "2"},
        {"user_port": "-", "server_port": "-"},
        {"mss": "1360"},
        {"window_scale": "7"},
        {"ts_val": "1", "ts_ecr": "2"},
        {name: DATA[name] for name in ("tcp_flags", "seq", "ack", "window", "payload_len")},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [log, as_json])
def test_contradictory_line_of_quic_is_counted(tmp_path, form, wrong):
    table, reading = read(written(tmp_path, form([INITIAL, INITIAL | wrong, INITIAL])))
    assert table["frame"].to_pylist() == [1, 3]
    assert reading.skipped == {"malformed_line": 1}


@pytest.mark.parametrize("form", [log, as_json])
def test_unknown_form_of_quic_is_counted(tmp_path, form):
    unknown = UNREACHABLE | {"quic_form": "lost"}
    table, reading = read(written(tmp_path, form([INITIAL, unknown, INITIAL])))
    assert table["frame"].to_pylist() == [1, 3]
    assert reading.skipped == {"malformed_line": 1}


def test_fields_may_have_another_order(tmp_path):
    names = NAMES[::-1]
    backwards, _ = read(written(tmp_path, log([DATA, PING], names)))
    forwards, _ = read(written(tmp_path, log([DATA, PING])))
    assert backwards.to_pylist() == forwards.to_pylist()


def test_missing_required_column_is_named_with_file_and_line(tmp_path):
    names = [name for name in NAMES if name != "ip_len"]
    path = written(tmp_path, log([DATA], names))
    with pytest.raises(UserError, match=r"giscope_packets.log:7: no column ip_len"):
        read(path)


def test_extra_column_is_named_and_ignored(tmp_path):
    table, reading = read(written(tmp_path, log([DATA], [*NAMES, "uid"])))
    assert len(table) == 1
    assert reading.notes == [f"{tmp_path}/giscope_packets.log:7: unknown columns: 1"]


def test_cut_last_line_is_counted_and_the_rest_kept(tmp_path):
    path = written(tmp_path, log([DATA, DATA], closed=False)[:-20])
    table, reading = read(path)
    assert len(table) == 1
    assert reading.skipped == {"truncated_file": 1, "not_closed": 1}
    assert reading.notes[0] == f"{path}:10: the last line is incomplete and was skipped"


def test_missing_close_is_counted_and_all_rows_kept(tmp_path):
    table, reading = read(written(tmp_path, log([DATA, DATA], closed=False)))
    assert (len(table), reading.skipped) == (2, {"not_closed": 1})


def test_rotated_logs_in_one_file_are_each_read_by_their_own_header(tmp_path):
    names = NAMES[::-1]
    table, reading = read(written(tmp_path, log([DATA]) + log([PING], names) + log([DATA])))
    assert table["ip_len"].to_pylist() == [60, 84, 60]
    assert table["frame"].to_pylist() == [1, 2, 3]
    assert reading.skipped == {}


def test_rows_of_another_log_in_the_same_file_are_left_out_and_counted(tmp_path):
    conn = site_log("conn", [{"ts": "1.0", "proto": "tcp"}] * 2)
    path = written(tmp_path, log([DATA]) + conn + log([PING]))
    table, reading = read(path)
    assert table["ip_len"].to_pylist() == [60, 84]
    assert reading.skipped == {"malformed_line": 2}
    assert reading.notes[0].startswith(f"{path}:17: no column user")


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_port": "70000"},
        {"seq": "-1"},
        {"ip_len": "-"},
        {"user": "10.67.1"},
        {"downlink": "maybe"},
        {"sack": "7,8,9"},
        {"sack": "7,x"},
        {"ack": "-"},
        {"ttl": "1\t2"},
        {"ts": "noon"},
    ],
    ids=str,
)
def test_nonsense_line_is_named_counted_and_the_others_kept(tmp_path, wrong):
    rows = [DATA] * 20 + [DATA | wrong] + [PING] * 20
    path = written(tmp_path, log(rows))
    table, reading = read(path)
    assert table["frame"].to_pylist() == [*range(1, 21), *range(22, 42)]
    assert reading.skipped == {"malformed_line": 1}
    assert reading.notes[0].startswith(f"{path}:29: ")


@pytest.mark.parametrize("line", ["{", "[]", '{"ts": "x"}', "{}", '{"ts": 1}'])
def test_nonsense_json_line_is_named_counted_and_the_others_kept(tmp_path, line):
    path = written(tmp_path, as_json([DATA, PING]) + line + "\n" + as_json([DATA]))
    table, reading = read(path)
    assert table["frame"].to_pylist() == [1, 2, 4]
    assert reading.skipped == {"malformed_line": 1}
    assert reading.notes[0].startswith(f"{path}:3: ")


def test_time_out_of_range_is_counted(tmp_path):
    table, reading = read(written(tmp_path, log([DATA, DATA | {"ts": "-5.0"}])))
    assert (len(table), reading.skipped) == (1, {"implausible_time": 1})


def test_packets_of_no_subscriber_are_counted_and_not_kept(tmp_path):
    table, reading = read(written(tmp_path, log([DATA, DATA | {"user": "192.0.2.1"}])))
    assert (len(table), reading.skipped) == (1, {"not_subscriber": 1})


def test_runs_have_their_own_sack_blocks(tmp_path):
    rows = [DATA | {"sack": f"{i},{i + 1}"} for i in range(50)]
    path = written(tmp_path, "".join(log(rows[i : i + 10]) for i in range(0, 50, 10)))
    table, _ = read(path, batch_packets=7)
    assert table["sack"].to_pylist() == [[i, i + 1] for i in range(50)]


def test_ingest_reads_a_log_and_records_the_front_end(warehouse, tmp_path, network):
    path = written(tmp_path, log([DATA, DATA | {"seq": "x"}, PING]))
    result = ingest_capture(warehouse, network, path)
    assert (result.error, result.facts.packets) == (None, 2)
    row = ask(warehouse, "select front_end, skipped from ingest_log").fetchone()
    assert row == ("zeek-log", {"malformed_line": 1})


def test_automatic_front_end_depends_on_the_files_content(tmp_path):
    capture = CAPTURES / LOGS["gprs-aa-peak"]
    assert choose_front_end(FrontEnd.AUTO, capture) == FrontEnd.BUILTIN
    assert choose_front_end(FrontEnd.AUTO, written(tmp_path, log([]))) == FrontEnd.ZEEK_LOG
    assert choose_front_end(FrontEnd.AUTO, written(tmp_path, as_json([DATA]))) == FrontEnd.ZEEK_LOG


def test_columns_script_is_current():
    assert COLUMNS_SCRIPT.read_text() == columns_script(), "run: python -m schemas.zeek"
    assert {column.name for column in PACKET_LOG.columns} >= {"ts", "user", "ip_len", "sack"}


def test_subscribers_script_writes_prefixes_as_zeek_does():
    script = subscribers_script(prefixes())
    assert "\t10.64.0.0/14,\n\t[2001:db8::]/32,\n" in script


ADDRESSES = [
    "10.67.1.10",
    "0.0.0.0",
    "255.255.255.255",
    "2001:db8::1",
    "2001:DB8:0:0:0:0:0:1",
    "1:2:3:4:5:6:7:8",
    "::",
    "::1",
    "fe80::",
    "1::2:3:4:5:6:7",
    "::ffff:10.67.1.10",
]
NO_ADDRESSES = [
    "10.67.1",
    "10.67.1.256",
    "10.67.1.1.1",
    "1:2:3:4:5:6:7",
    ":::",
    "1::2::3",
    "1:",
    "g::",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_in_every_form_are_read(tmp_path, address):
    from ipaddress import ip_address

    table, reading = read(written(tmp_path, log([DATA | {"server": address}])))
    parsed = ip_address(address)
    assert table["server"].to_pylist() == [str(getattr(parsed, "ipv4_mapped", None) or parsed)]
    assert reading.skipped == {}


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_texts_that_are_no_addresses_are_malformed(tmp_path, text):
    table, reading = read(written(tmp_path, log([DATA, DATA | {"server": text}])))
    assert (len(table), reading.skipped) == (1, {"malformed_line": 1})


VALUES = st.one_of(
    st.text("0123456789.:abcfTF-,+ex ", max_size=14).filter(bool),
    st.integers(-1, 1 << 33).map(str),
    st.sampled_from(
        [*ADDRESSES, *NO_ADDRESSES, "-", "T", "F", "1,2", "1,2,3", "initial", "one_rtt"]
    ),
)


@pytest.mark.integration
@settings(deadline=None, max_examples=300)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2), min_size=1))
def test_any_text_in_any_field_harms_its_own_row_only(tmp_path_factory, changes):
    kinds = (PING, DATA, INITIAL, SHORT)
    rows = [kinds[i % 4] | change for i, change in enumerate(changes)]
    table, reading = read(written(tmp_path_factory.mktemp("log"), log(rows)))
    frames = set(table["frame"].to_pylist())
    assert frames >= {i + 1 for i, change in enumerate(changes) if not change}
    assert len(frames) + sum(reading.skipped.values()) == len(rows)
