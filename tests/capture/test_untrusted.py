"""Whatever bytes a file has: its parser raises the reader's own error or none, and a bad line costs
itself alone."""

import gzip
import struct
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from conftest import NETWORKS_FILE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.zeek import MONITOR_LOG, PACKET_LOG, Log
from spark_jobs.base.errors import UserError
from spark_jobs.capture import FrontEnd, untrusted, zeek_kinds, zeek_lines
from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.operator_logs import read_operator_log
from spark_jobs.capture.reader import ReadStats, read_capture
from spark_jobs.capture.zeek_kinds import is_zeek_log, log_kind
from spark_jobs.capture.zeek_log import read_zeek_log
from spark_jobs.ingest.files import find_captures
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import load_networks
from tests.helpers.capture_files import pcap, pcapng, timed
from tests.helpers.damage import damaged
from tests.helpers.hostile_texts import HOSTILE, KINDS, PACKET, ROWS, TEXTS, in_json, in_tsv
from tests.helpers.layers import DATA, SYN
from tests.helpers.user_names import keys_of

PREFIXES = subscriber_prefixes([ip_network("10.64.0.0/14")])
TEXTS |= {"conn_state", "result", "proto", "service", "method", "uid", "id.orig_h", "id.resp_h"}


def rows_of(kind: Log) -> Callable[[Path], object]:
    """Return the parser of a kind of log, without the decorator that catches its errors."""
    if kind is PACKET_LOG:
        return lambda path: sum(
            len(run.rows) for run in read_zeek_log.__wrapped__(path, PREFIXES, ReadStats())
        )

    def read(path: Path) -> int:
        keys = keys_of("10.64.0.0/14", secret=b"k" * 32)
        found = read_operator_log.__wrapped__(path, kind, PREFIXES, ReadStats(), "c", 4, keys)
        return sum(map(len, found))

    return read


PARSERS: dict[str, Callable[[Path], object]] = {
    "is_zeek_log": is_zeek_log.__wrapped__,
    "log_kind": log_kind.__wrapped__,
    "captures": lambda path: list(read_capture.__wrapped__(path, PREFIXES, ReadStats())),
    "networks file": load_networks,
} | {name: rows_of(kind) for name, kind in KINDS.items()}
FRAMES = timed([SYN, DATA[:72]] * 5)
LOG_SEEDS = {
    f"{kind}, {form.__name__}": form(kind, *[row] * 5)
    for kind, row in ROWS.items()
    for form in (in_tsv, in_json)
}
SEEDS = LOG_SEEDS | {
    "pcap": pcap(FRAMES),
    "pcapng": pcapng(FRAMES),
    "gzip": gzip.compress(pcap(FRAMES)),
    "zstd": zstandard.compress(pcapng(FRAMES)),
    "gzip of a log": gzip.compress(LOG_SEEDS["conn, in_tsv"]),
    "zstd of a log": zstandard.compress(LOG_SEEDS["conn, in_json"]),
    "networks file": NETWORKS_FILE.read_bytes(),
}
BYTES = [*(text.encode() for text in HOSTILE), b"\xff\xfe", b"\xed\xa0\x80", b"[" * 60_000]
BYTES += [b'{"a":' * 20_000, struct.pack("<I", 2**32 - 1), zstandard.compress(b""), b"\x1f\x8b"]

fuzz = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.integration
@fuzz
@pytest.mark.parametrize("parser", PARSERS)
@given(data=st.one_of(st.binary(max_size=600), damaged(SEEDS, BYTES)))
def test_any_bytes_raise_the_readers_own_error_or_none(tmp_path, parser, data):
    path = tmp_path / "file.log"
    path.write_bytes(data)
    with suppress(UserError):
        PARSERS[parser](path)


@pytest.mark.integration
@settings(fuzz, max_examples=40)
@pytest.mark.parametrize("form", [in_tsv, in_json])
@pytest.mark.parametrize("kind", ROWS)
@given(data=st.data())
def test_a_hostile_line_costs_itself_alone(tmp_path, kind, form, data):
    """Wherever it stands, also first."""
    good, names = ROWS[kind], sorted(ROWS[kind])
    texts = st.sampled_from([t for t in HOSTILE if not set(t) & set("\t\n")])
    bad = good | data.draw(st.dictionaries(st.sampled_from(names), texts, min_size=1, max_size=3))
    before = data.draw(st.integers(0, 2))
    path = tmp_path / "file.log"
    path.write_bytes(form(kind, *[good] * before, bad, *[good] * (3 - before)))
    assert PARSERS[kind](path) >= (0 if kind == MONITOR_LOG.path else 3)


@pytest.mark.parametrize(
    "first", ['{"ts":"noon"}', '{"ts":' + "[" * 60_000, "{}", '{"ts":{"a":1}}', '{"ts":1']
)
@pytest.mark.parametrize("kind", ROWS)
def test_a_bad_first_line_of_a_json_log_is_counted_and_the_others_kept(tmp_path, kind, first):
    good = in_json(kind, *[ROWS[kind]] * 1000)
    path = tmp_path / f"{kind}.log"
    path.write_bytes(good)
    rows = PARSERS[kind](path)
    path.write_bytes(first.encode() + b"\n" + good)
    assert log_kind(path) is KINDS[kind]
    assert PARSERS[kind](path) == rows


@pytest.mark.parametrize("line", ["#separatorx", "#separator \\x0", "#separator \\U00110000"])
def test_an_invalid_separator_is_named_and_the_rows_are_kept(tmp_path, line):
    path = tmp_path / "giscope_packets.log"
    path.write_bytes(in_tsv(PACKET_LOG.path, PACKET).replace(b"#separator \\x09", line.encode()))
    reading = ReadStats()
    (run,) = read_zeek_log(path, PREFIXES, reading)
    assert len(run.rows) == 1
    assert reading.notes[0] == f"{path}:1: #separator is not one character: a tab is assumed"


def test_times_as_numbers_and_as_texts_in_one_log_are_both_read(tmp_path):
    path = tmp_path / "conn.log"
    text = ROWS["conn"] | {"ts": '"1970-01-01T00:00:01.500000Z"'}
    path.write_bytes(in_json("conn", ROWS["conn"], text, ROWS["conn"]))
    assert PARSERS["conn"](path) == 3


def test_a_log_that_no_parser_takes_is_found_and_named(warehouse, network, tmp_path, monkeypatch):
    """Whatever is raised while a folder is looked through, or the file is read."""
    path = tmp_path / "giscope_packets.log"
    path.write_bytes(in_tsv(PACKET_LOG.path, PACKET))

    def broken(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(zeek_kinds, "head_of", broken)
    monkeypatch.setattr(zeek_lines, "head_of", broken)
    assert find_captures(tmp_path).files == [path]
    result = ingest_capture(warehouse, network, path)
    place = f"{Path(__file__).name}:{broken.__code__.co_firstlineno + 1}"
    assert result.error == f"{path}: cannot be parsed: RecursionError in {place}"


ERRORS = [ValueError("x"), OverflowError(), RecursionError(), IndexError(), struct.error()]
ERRORS += [UnicodeError(), KeyError(1), pa.ArrowInvalid("x\ny"), zstandard.ZstdError(), TypeError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_in_parsing_becomes_the_readers_own_error(tmp_path, error):
    @untrusted.parser
    def call(path: Path) -> None:
        raise error

    @untrusted.parser
    def iterate(path: Path):
        yield 1
        raise error

    for parser in (call, lambda path: list(iterate(path))):
        with pytest.raises(UserError) as raised:
            parser(tmp_path)
        start = f"{tmp_path}: cannot be parsed: {type(error).__name__} in test_untrusted.py:"
        assert str(raised.value).startswith(start)
        assert str(raised.value).removeprefix(start).isdigit()


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError(), OSError(28, "full"), KeyboardInterrupt()]
)
def test_errors_that_are_not_of_the_bytes_are_raised_unchanged(tmp_path, error):
    with pytest.raises(type(error)), untrusted.parsing(tmp_path):
        raise error


def test_networks_nested_too_deep_are_refused_in_a_line(tmp_path):
    path = tmp_path / "networks.toml"
    path.write_text("a = " + "[" * 60_000)
    with pytest.raises(UserError, match=r"networks\.toml: not TOML: "):
        load_networks(path)


def test_every_front_end_has_the_decorator_that_catches_errors():
    from spark_jobs.capture.front_end import READERS

    assert set(READERS) == set(FrontEnd) - {FrontEnd.AUTO}
    for reader in (*READERS.values(), read_operator_log, is_zeek_log, log_kind):
        assert hasattr(reader, "__wrapped__")
