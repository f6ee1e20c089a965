"""The packet log of Zeek (zeek_scripts/) to runs of packet rows: TSV or JSON, plain, gzip, zstd.

Columns go by the header's names, in any order. A line that cannot be read is counted and named,
the others are kept.
"""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from schemas.zeek import ADDRESSES, LOG_COLUMNS, REQUIRED
from spark_jobs.capture import decode
from spark_jobs.capture.addresses import MAPPED_PREFIX, AddressTable, find_or_add
from spark_jobs.capture.reader import RUN_PACKETS, Reading, Run
from spark_jobs.capture.stream import CaptureStream
from spark_jobs.errors import UserError

TCP_COLUMNS = ("tcp_flags", "seq", "ack", "window", "payload_len")
_HAS = {
    decode.HAS_PORTS: ("user_port", "server_port"),
    decode.HAS_IP_ID: ("ip_id",),
    decode.HAS_TCP: TCP_COLUMNS,
    decode.HAS_MSS: ("mss",),
    decode.HAS_WINDOW_SCALE: ("window_scale",),
    decode.HAS_TIMESTAMPS: ("ts_val", "ts_ecr"),
}
_NUMBERS = frozenset(decode.ROW.names or ()) - {"ts", *ADDRESSES}
_ADDRESS = pa.dictionary(pa.int32(), pa.string())
_VALUES = {
    column.name: pa.float64()
    if pa.types.is_timestamp(column.type)
    else _ADDRESS
    if column.name in ADDRESSES
    else column.type
    for column in LOG_COLUMNS
}
"""As they are parsed: a time is seconds since 1970, of which a double holds every microsecond."""

Parse = Callable[[bytes], pa.Table]
"""Whole lines to one row a line; raises pa.ArrowInvalid where one of them is malformed."""


def is_zeek_log(path: Path) -> bool:
    """Whether a file begins as a log of Zeek does."""
    with CaptureStream(path) as stream:
        stream.more()
        head = stream.window[stream.start : min(stream.end, stream.start + 16)].tobytes()
    return head.startswith((b"#separator", b"#fields", b"{"))


def read_zeek_log(
    path: Path, prefixes: np.ndarray, reading: Reading, run_packets: int = RUN_PACKETS
) -> Iterator[Run]:
    """The packets of a log's subscribers, in runs of about `run_packets` rows.

    prefixes: see addresses.subscriber_prefixes. A packet's frame is the number of its row in the
    log. `reading` is kept up to date as runs come. Raises UserError where the file is no packet
    log of Zeek.
    """
    run = _Filling(path, prefixes, reading)
    with CaptureStream(path) as stream:
        log = _Log(path, reading)
        for block in _blocks(stream, log):
            for table, numbers, lines in log.tables(block):
                run.add(table, numbers, lines)
            reading.content = stream.content
            if run.n >= run_packets:
                yield run.finished()
                run.restart()
        log.end()
        if stream.broken:
            reading.skipped["corrupt_compression"] += 1
            reading.note(path, log.line, stream.broken)
        if run.n:
            yield run.finished()


def _blocks(stream: CaptureStream, log: "_Log") -> Iterator[bytes]:
    """Whole lines, some megabytes at a time. A last line without its end is counted, not given."""
    while stream.more():
        held = stream.window[stream.start : stream.end].tobytes()
        whole = held.rfind(b"\n") + 1
        if not whole and not stream.ended:
            raise UserError(f"{log.path}:{log.line + 1}: a line of more than {len(held)} bytes")
        stream.start += whole
        if whole:
            yield held if whole == len(held) else held[:whole]
    if stream.start < stream.end:
        log.cut()


def _next_meta(block: bytes, at: int) -> int:
    """Where the next `#` line begins; to look for the one character first is many times faster."""
    if block.find(b"#", at) < 0:
        return len(block)
    return block.find(b"\n#", at) + 1 or len(block)


@dataclass
class _Header:
    """What the `#` lines before the rows say."""

    fields: list[str]
    separator: str = "\t"
    unset: str = "-"
    set_separator: str = ","


class _Log:
    """Reads blocks of lines, keeping where it is and what the header said."""

    def __init__(self, path: Path, reading: Reading):
        self.line = 0
        self.path, self._reading = path, reading
        self._parse: Parse | None = None
        self._header = _Header([])
        self._begun = self._json = self._open = False

    def tables(self, block: bytes) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        """Parsed rows, their numbers among the log's rows, and their lines."""
        if not self._begun:
            self._begin(block)
        at = 0
        while at < len(block):
            if block[at : at + 1] == b"#" and not self._json:
                end = block.index(b"\n", at) + 1
                self.line += 1
                self._meta(block[at : end - 1].rstrip(b"\r").decode("utf-8", "replace"))
            else:
                end = len(block) if self._json else _next_meta(block, at)
                yield from self._rows(block[at:end])
            at = end

    def cut(self) -> None:
        """To be called where the last line lacks its end."""
        self._reading.skipped["truncated_file"] += 1
        self._reading.note(self.path, self.line + 1, "the last line is cut; it is left out")

    def end(self) -> None:
        """To be called behind the last block."""
        if not self._begun:
            raise UserError(f"{self.path}: the file is empty")
        if self._open:
            self._reading.skipped["not_closed"] += 1
            self._reading.note(self.path, self.line, "no #close: the log was not closed")

    def _begin(self, block: bytes) -> None:
        self._begun, self._json = True, block.startswith(b"{")
        if self._json:
            self._parse = _parse_json
            self._know_json(block)
        elif not block.startswith(b"#"):
            head = block[:4].hex(" ")
            raise UserError(f"{self.path}:1: not a log of Zeek (it begins with {head})")

    def _know_json(self, block: bytes) -> None:
        try:
            fields = json.loads(block.split(b"\n", 1)[0])
        except ValueError:
            return
        self._judge(list(fields), 1)

    def _meta(self, line: str) -> None:
        if line.startswith("#separator"):
            self._header = _Header([], line.split(" ", 1)[1].encode().decode("unicode_escape"))
            self._parse = None
            return
        key, *values = line.split(self._header.separator)
        if key == "#unset_field" and values:
            self._header.unset = values[0]
        elif key == "#set_separator" and values:
            self._header.set_separator = values[0]
        elif key == "#fields":
            self._header.fields, self._open = values, True
            sound = self._judge(values, self.line)
            self._parse = _tsv_parser(self._header) if sound else None
        elif key == "#close":
            self._open = False

    def _judge(self, fields: list[str], line: int) -> bool:
        """Whether rows with these fields can be used; a UserError where the first ones cannot."""
        missing = [name for name in REQUIRED if name not in fields]
        twice = sorted({name for name in fields if fields.count(name) > 1})
        unknown = [name for name in fields if name not in _VALUES]
        if missing or twice:
            what = f"no column {', '.join(missing)}" if missing else f"{', '.join(twice)} twice"
            if not self._reading.frames:
                raise UserError(f"{self.path}:{line}: {what}; not a packet log of giscope")
            self._reading.note(self.path, line, f"{what}; the rows below are left out")
            return False
        absent = [name for name in _VALUES if name not in fields]
        if absent and not self._json:
            self._reading.note(self.path, line, f"no column {', '.join(absent)}: null in all rows")
        if unknown:
            self._reading.note(self.path, line, f"columns not known: {', '.join(unknown)}")
        return True

    def _rows(self, lines: bytes) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        n = lines.count(b"\n")
        if self._parse is None:
            if not self._header.fields:
                raise UserError(f"{self.path}:{self.line + 1}: rows without a #fields line")
            self._reading.skipped["malformed_line"] += n
        else:
            for table, first in _parsed(self._parse, lines, n, self._malformed):
                numbers = first + np.arange(len(table))
                yield table, numbers + self._reading.frames + 1, numbers + self.line + 1
        self._reading.frames += n
        self.line += n

    def _malformed(self, first: int, why: str) -> None:
        self._reading.skipped["malformed_line"] += 1
        self._reading.note(self.path, self.line + first + 1, why)


def _parsed(
    parse: Parse, lines: bytes, n: int, malformed: Callable[[int, str], None], first: int = 0
) -> Iterator[tuple[pa.Table, int]]:
    """Tables of the lines that can be parsed, and the place of each one's first line; the others
    are found by halving and told to `malformed`."""
    try:
        table = parse(lines)
        if len(table) != n:
            raise pa.ArrowInvalid("an empty line, or more than one record in it")
        yield table, first
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if n == 1:
            malformed(first, str(error).splitlines()[0])
            return
        middle = lines.find(b"\n", len(lines) // 2 - 1, len(lines) - 1) + 1
        middle = middle or lines.rfind(b"\n", 0, len(lines) - 1) + 1
        above = lines[:middle].count(b"\n")
        yield from _parsed(parse, lines[:middle], above, malformed, first)
        yield from _parsed(parse, lines[middle:], n - above, malformed, first + above)


def _tsv_parser(header: _Header) -> Parse:
    known = [name for name in header.fields if name in _VALUES]
    types = {name: _VALUES[name] for name in known} | {"sack": pa.string()}
    read = pa.csv.ReadOptions(column_names=header.fields, block_size=1 << 22)
    syntax = pa.csv.ParseOptions(
        delimiter=header.separator, quote_char=False, ignore_empty_lines=False
    )
    convert = pa.csv.ConvertOptions(
        column_types={name: kind for name, kind in types.items() if name in known},
        include_columns=known,
        null_values=[header.unset],
        strings_can_be_null=True,
        true_values=["T"],
        false_values=["F"],
    )

    def parse(lines: bytes) -> pa.Table:
        table = pa.csv.read_csv(pa.BufferReader(lines), read, syntax, convert)
        if "sack" in known:
            edges = _sack_edges(table["sack"], header.set_separator)
            table = table.set_column(known.index("sack"), "sack", edges)
        return table

    return parse


def _sack_edges(texts: pa.ChunkedArray, separator: str) -> pa.Array:
    """Texts of numbers to lists of them."""
    texts = texts.combine_chunks()
    texts = pa.concat_arrays(texts.chunks) if isinstance(texts, pa.ChunkedArray) else texts
    return pc.split_pattern(texts, separator).cast(pa.list_(pa.uint32()))


_JSON = pa.json.ParseOptions(
    explicit_schema=pa.schema(
        [(name, pa.string() if name in ADDRESSES else kind) for name, kind in _VALUES.items()]
    ),
    unexpected_field_behavior="ignore",
)
_JSON_READ = pa.json.ReadOptions(block_size=1 << 22)


def _parse_json(lines: bytes) -> pa.Table:
    table = pa.json.read_json(pa.BufferReader(lines), _JSON_READ, _JSON)
    for name in ADDRESSES:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].dictionary_encode())
    return table


class _Filling:
    """A run that is being filled."""

    def __init__(self, path: Path, prefixes: np.ndarray, reading: Reading):
        self._path, self._prefixes, self._reading = path, prefixes, reading
        self._previous_ts = -(2**62)
        self.restart()

    def restart(self) -> None:
        self._rows: list[np.ndarray] = []
        self._edges: list[np.ndarray] = []
        self._addresses = AddressTable(self._prefixes, 1 << 10)
        self._numbers: dict[str, int] = {}
        self.n = self._used = 0

    def finished(self) -> Run:
        edges = np.concatenate(self._edges) if self._edges else np.empty(0, np.uint32)
        return Run(np.concatenate(self._rows), edges, self._addresses)

    def add(self, table: pa.Table, numbers: np.ndarray, lines: np.ndarray) -> None:
        """The rows that are sound: a line is malformed where a required value is missing or one
        contradicts another."""
        rows = np.zeros(len(table), decode.ROW)
        rows["frame"] = numbers
        sound = self._fill(rows, table)
        self._leave_out("malformed_line", ~sound, lines, "a value is missing or makes no sense")
        timely = (rows["ts"] >= 0) & (rows["ts"] < decode.LATEST_TS_US)
        self._leave_out("implausible_time", sound & ~timely, lines, "the time is out of range")
        keep = sound & timely
        ours = self._addresses.entries[rows["user"], 2] != 0
        if strangers := int((keep & ~ours).sum()):
            self._reading.skipped["not_subscriber"] += strangers
        self._count_clock(rows["ts"][keep])
        rows = rows[keep & ours]
        if len(rows):
            self._rows.append(rows)
            self.n += len(rows)

    def _leave_out(self, reason: str, where: np.ndarray, lines: np.ndarray, why: str) -> None:
        if count := int(where.sum()):
            self._reading.skipped[reason] += count
            self._reading.note(self._path, int(lines[where.argmax()]), why)

    def _count_clock(self, ts: np.ndarray) -> None:
        if len(ts):
            before = np.concatenate(([self._previous_ts], ts[:-1]))
            if back := int((ts < before - decode.CLOCK_SLACK_US).sum()):
                self._reading.skipped["clock_backwards"] += back
            self._previous_ts = int(ts[-1])

    def _fill(self, rows: np.ndarray, table: pa.Table) -> np.ndarray:
        """Values into the rows; returns which rows are sound."""
        there = {name: _valid(table, name) for name in _VALUES}
        sound = np.logical_and.reduce([there[name] for name in REQUIRED])
        for name in table.column_names:
            if name in _NUMBERS:
                kind = table[name].type
                zero = False if pa.types.is_boolean(kind) else 0
                rows[name] = table[name].fill_null(zero).to_numpy()
        seconds = table["ts"].fill_null(0).to_numpy()
        finite = np.abs(seconds) < decode.LATEST_TS_US / 1e6 + 1
        rows["ts"] = np.where(finite, np.rint(np.where(finite, seconds, 0) * 1e6), -1)
        for flag, names in _HAS.items():
            each = [there[name] for name in names]
            whole = np.logical_and.reduce(each)
            rows["has"] |= np.where(whole, flag, 0).astype(np.uint16)
            sound &= whole == np.logical_or.reduce(each)
        if "sack_permitted" in table.column_names:
            permitted = table["sack_permitted"].fill_null(False).to_numpy()
            rows["has"] |= np.where(permitted, decode.HAS_SACK_PERMITTED, 0).astype(np.uint16)
        for name in ADDRESSES:
            rows[name] = self._address_numbers(table[name])
            sound &= rows[name] > 0
        if "sack" in table.column_names:
            sound &= self._sack(rows, table["sack"], there["sack"])
        return sound

    def _sack(self, rows: np.ndarray, column: pa.ChunkedArray, there: np.ndarray) -> np.ndarray:
        sound = np.ones(len(rows), bool)
        if there.any():
            counts = pc.list_value_length(column).fill_null(0).to_numpy()
            sound = ~there | ((counts % 2 == 0) & (counts > 0) & (counts <= decode.MOST_EDGES))
            edges = pc.list_flatten(column)
            sound &= ~_holds_null(column, edges)
            edges = edges.fill_null(0).to_numpy().astype(np.uint32)
            rows["sack_at"] = self._used + np.cumsum(counts) - counts
            rows["sack_edges"] = np.where(sound, counts, 0)
            rows["has"] |= np.where(there, decode.HAS_SACK, 0).astype(np.uint16)
            self._edges.append(edges)
            self._used += len(edges)
        return sound

    def _address_numbers(self, column: pa.ChunkedArray) -> np.ndarray:
        """Each row's address as its number in the AddressTable, 0 where it is none."""
        column = column.unify_dictionaries()
        if not column.num_chunks:
            return np.empty(0, np.int32)
        texts = column.chunk(0).dictionary.to_pylist()
        self._addresses.make_room(len(texts))
        place = np.array([self._number(text) for text in texts] + [0], np.int32)
        codes = [chunk.indices.fill_null(len(texts)).to_numpy() for chunk in column.chunks]
        return place[np.concatenate(codes)]

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            packed, table = _packed(text), self._addresses
            self._numbers[text] = 0
            if packed:
                high, low = (int.from_bytes(half, "big") for half in (packed[:8], packed[8:]))
                self._numbers[text] = find_or_add(
                    table.entries, table.slots, table.prefixes, np.uint64(high), np.uint64(low)
                )
        return self._numbers[text]


def _packed(text: str) -> bytes:
    """An address as 16 bytes, none where the text is no address."""
    try:
        if ":" in text:
            return socket.inet_pton(socket.AF_INET6, text)
        return MAPPED_PREFIX + socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):
        return b""


def _valid(table: pa.Table, name: str) -> np.ndarray:
    if name not in table.column_names:
        return np.zeros(len(table), bool)
    return table[name].is_valid().to_numpy()


def _holds_null(column: pa.ChunkedArray, edges: pa.ChunkedArray) -> np.ndarray:
    """bool[n]: lists with a null in them."""
    holds = np.zeros(len(column), bool)
    if edges.null_count:
        owner = pc.list_parent_indices(column).to_numpy()
        holds[owner[edges.is_null().to_numpy()]] = True
    return holds
