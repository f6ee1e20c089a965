"""Logs of Zeek to Arrow tables: TSV or JSON, plain, gzip, zstd.

Columns go by the header's names, in any order. A line that cannot be read is counted and named,
the others are kept.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from schemas.zeek import LOGS, Log
from spark_jobs.capture.address_text import packed
from spark_jobs.capture.addresses import AddressTable
from spark_jobs.capture.decode import LATEST_TS_US
from spark_jobs.capture.reader import Reading
from spark_jobs.capture.stream import CaptureStream, first_bytes
from spark_jobs.capture.untrusted import parser
from spark_jobs.errors import UserError

HEAD_BYTES = 1 << 16
ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")

Parse = Callable[[bytes], pa.Table]
"""Whole lines to one row a line; raises pa.ArrowInvalid where one of them is malformed."""
Take = Callable[[bytes, int, "Header", int], tuple[int, int]]
"""Takes TSV lines at their begin: (lines, where to begin, header, the first row's number) to (how
many were taken, where the first line not taken begins)."""
Rows = tuple[pa.Table, np.ndarray, np.ndarray]
"""Parsed rows, their numbers among the log's rows from 1, and their lines."""


@parser
def is_zeek_log(path: Path) -> bool:
    """Whether a file begins as a log of Zeek does."""
    return first_bytes(path, 16).startswith((b"#separator", b"#fields", b"{"))


@parser
def log_kind(path: Path) -> Log | None:
    """Which of the known logs a file is: by its fields, else by the name it gives itself; of a JSON
    log none of whose first records can be read, by its file's name."""
    head = first_bytes(path, HEAD_BYTES)
    fields, name = _head(head)
    if not fields and head.startswith(b"{"):
        name = path.name.split(".")[0]
    by_fields = (log for log in LOGS if fields.issuperset(log.identifying_fields))
    by_name = (log for log in LOGS if log.path == name)
    return next(by_fields, next(by_name, None))


def _head(head: bytes) -> tuple[set[str], str]:
    """Fields and name in a TSV log's header; fields of a JSON log's first records."""
    fields: set[str] = set()
    name = ""
    for line in head.decode("utf-8", "replace").splitlines():
        if line.startswith("#path"):
            name = line.split()[-1]
        elif line.startswith("#fields"):
            return set(line.split("\t")[1:]), name
        elif line.startswith("{"):
            with suppress(ValueError, RecursionError):
                fields.update(json.loads(line))
    return fields, name


def read_lines(
    path: Path, log: Log, reading: Reading, take: Take | None = None
) -> Iterator[Iterator[Rows]]:
    """The rows of a log, an iterator for some megabytes each, to be used up before the next;
    `reading` is kept up to date as they come. take: gets TSV lines first."""
    with CaptureStream(path) as stream:
        lines = _Lines(path, log, reading, take)
        for block in _blocks(stream, lines):
            reading.content = stream.content
            yield lines.tables(block)
        lines.end()
        if stream.broken:
            reading.skipped["corrupt_compression"] += 1
            reading.note(path, lines.line, stream.broken)


def _blocks(stream: CaptureStream, lines: "_Lines") -> Iterator[bytes]:
    """Whole lines, some megabytes at a time. A last line without its end is counted, not given."""
    while stream.more():
        held = stream.window[stream.start : stream.end].tobytes()
        whole = held.rfind(b"\n") + 1
        if not whole and not stream.ended:
            raise UserError(f"{lines.path}:{lines.line + 1}: a line of more than {len(held)} bytes")
        stream.start += whole
        if whole:
            yield held if whole == len(held) else held[:whole]
    if stream.start < stream.end:
        lines.cut()


def _next_meta(block: bytes, at: int) -> int:
    """Where the next `#` line begins; to look for the one character first is many times faster."""
    if block.find(b"#", at) < 0:
        return len(block)
    return block.find(b"\n#", at) + 1 or len(block)


@dataclass
class Header:
    """What the `#` lines before the rows say."""

    fields: list[str]
    separator: str = "\t"
    unset: str = "-"
    empty: str = "(empty)"
    set_separator: str = ","


class _Lines:
    """Reads blocks of lines, keeping where it is and what the header said."""

    def __init__(self, path: Path, log: Log, reading: Reading, take: Take | None):
        self.line = 0
        self._take = take
        self.path, self._log, self._reading = path, log, reading
        self._parse: Parse | None = None
        self._header = Header([])
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
            fields, _ = _head(block[:HEAD_BYTES])
            if fields:
                self._judge(sorted(fields), 1)
            self._parse = _json_parser(self._log)
        elif not block.startswith(b"#"):
            head = block[:4].hex(" ")
            raise UserError(f"{self.path}:1: not a log of Zeek (it begins with {head})")

    def _meta(self, line: str) -> None:
        if line.startswith("#separator"):
            self._header = Header([], self._separator(line))
            self._parse = None
            return
        key, *values = line.split(self._header.separator)
        if key == "#unset_field" and values:
            self._header.unset = values[0]
        elif key == "#empty_field" and values:
            self._header.empty = values[0]
        elif key == "#set_separator" and values:
            self._header.set_separator = values[0]
        elif key == "#fields":
            self._header.fields, self._open = values, True
            sound = self._judge(values, self.line)
            self._parse = _tsv_parser(self._log, self._header) if sound else None
        elif key == "#close":
            self._open = False

    def _separator(self, line: str) -> str:
        """What a #separator line says, as a character or as Zeek escapes it; a tab, as Zeek has it
        unless told, where that is no character that can be one."""
        text = line.partition(" ")[2]
        escaped = ESCAPED.fullmatch(text)
        text = chr(int(escaped.group(1), 16)) if escaped else text
        if len(text) == 1 and text.isascii() and text not in "\r\n":
            return text
        self._reading.note(self.path, self.line, "#separator is no character: taken for a tab")
        return "\t"

    def _judge(self, fields: list[str], line: int) -> bool:
        """Whether rows with these fields can be used; a UserError where the first ones cannot."""
        missing = [name for name in self._log.required if name not in fields]
        twice = sorted({name for name in fields if fields.count(name) > 1})
        unknown = [name for name in fields if name not in self._log.fields]
        if missing or twice:
            what = f"no column {', '.join(missing)}" if missing else f"{', '.join(twice)} twice"
            if not self._reading.frames:
                raise UserError(f"{self.path}:{line}: {what}; not {self._log.description}")
            self._reading.note(self.path, line, f"{what}; the rows below are left out")
            return False
        absent = [name for name in self._log.fields if name not in fields]
        if absent and not self._json:
            self._reading.note(self.path, line, f"no column {', '.join(absent)}: null in all rows")
        if unknown and self._log.by_giscope:
            self._reading.note(self.path, line, f"columns not known: {', '.join(unknown)}")
        return True

    def _rows(self, lines: bytes) -> Iterator[Rows]:
        """What `take` leaves is parsed here, a line at first and more as it goes on leaving it."""
        if self._take is None or self._parse is None or self._json:
            yield from self._parsed_rows(lines)
            return
        at, chunk = 0, 1
        while at < len(lines):
            first = self._reading.frames + 1
            taken, at = self._take(lines, at, self._header, first)
            self._reading.frames += taken
            self.line += taken
            chunk = 1 if taken > chunk else 2 * chunk
            end = at
            for _ in range(chunk):
                end = lines.find(b"\n", end) + 1 or len(lines)
            if at < len(lines):
                yield from self._parsed_rows(lines[at:end])
            at = end

    def _parsed_rows(self, lines: bytes) -> Iterator[Rows]:
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


def _tsv_parser(log: Log, header: Header) -> Parse:
    known = [name for name in header.fields if name in log.fields]
    lists = [name for name in known if pa.types.is_list(log.fields[name])]
    read = pa.csv.ReadOptions(column_names=header.fields, block_size=1 << 22)
    syntax = pa.csv.ParseOptions(
        delimiter=header.separator, quote_char=False, ignore_empty_lines=False
    )
    convert = pa.csv.ConvertOptions(
        column_types={
            name: pa.string() if name in lists else _parsed_type(log.fields[name]) for name in known
        },
        include_columns=known,
        null_values=[header.unset, header.empty],
        strings_can_be_null=True,
        true_values=["T"],
        false_values=["F"],
    )

    def parse(lines: bytes) -> pa.Table:
        table = pa.csv.read_csv(pa.BufferReader(lines), read, syntax, convert)
        for name in lists:
            items = _split(table[name], header.set_separator, log.fields[name])
            table = table.set_column(known.index(name), name, items)
        return table

    return parse


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """A time is parsed as seconds since 1970, of which a double holds every microsecond."""
    return pa.float64() if pa.types.is_timestamp(kind) else kind


def _split(texts: pa.ChunkedArray, separator: str, kind: pa.DataType) -> pa.Array:
    """Texts of items to lists of them."""
    texts = texts.combine_chunks()
    texts = pa.concat_arrays(texts.chunks) if isinstance(texts, pa.ChunkedArray) else texts
    return pc.split_pattern(texts, separator).cast(kind)


def _json_parser(log: Log) -> Parse:
    """Times of a line are numbers or, as ISO 8601, texts: that of the last lines is tried first."""
    ways = [_json_parser_of(log, iso) for iso in (False, True)]

    def parse(lines: bytes) -> pa.Table:
        try:
            return ways[0](lines)
        except pa.ArrowInvalid as error:
            try:
                table = ways[1](lines)
            except pa.ArrowInvalid:
                raise error from None
        ways.reverse()
        return table

    return parse


def _json_parser_of(log: Log, iso: bool) -> Parse:
    """iso: times are written as ISO 8601."""
    fields = log.fields.items()
    times = [name for name, kind in fields if iso and pa.types.is_timestamp(kind)]
    coded = [name for name, kind in fields if pa.types.is_dictionary(kind)]
    types = {name: _parsed_type(kind) for name, kind in fields}
    types |= {name: log.fields[name] for name in times} | {name: pa.string() for name in coded}
    read = pa.json.ReadOptions(block_size=1 << 22)
    syntax = pa.json.ParseOptions(
        explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
    )

    def parse(lines: bytes) -> pa.Table:
        table = pa.json.read_json(pa.BufferReader(lines), read, syntax)
        table.validate(full=True)  # texts that are not UTF-8 pass the parser
        for name in coded:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table[name].dictionary_encode())
        for name in times:
            at = table.schema.get_field_index(name)
            seconds = pc.divide(table[name].cast(pa.int64()).cast(pa.float64()), 1e6)
            table = table.set_column(at, name, seconds)
        return table

    return parse


def microseconds(seconds: pa.ChunkedArray) -> np.ndarray:
    """int64[n]: times of a parsed log in us since 1970; -1 where there is none, or none that is
    plausible."""
    values = seconds.fill_null(-1).to_numpy()
    plausible = (values >= 0) & (values < LATEST_TS_US / 1e6)
    return np.where(plausible, np.rint(np.where(plausible, values, 0) * 1e6), -1).astype(np.int64)


def valid(table: pa.Table, name: str) -> np.ndarray:
    """bool[n]: which rows have a value of a field, if the log has the field."""
    if name not in table.column_names:
        return np.zeros(len(table), bool)
    return table[name].is_valid().to_numpy()


_WHY = {
    "malformed_line": "a value is missing or makes no sense",
    "implausible_time": "the time is out of range",
}


def leave_out(
    reading: Reading, path: Path, lines: np.ndarray, where: np.ndarray, reason: str
) -> None:
    """Count rows that are left out, and name the first one's line."""
    if count := int(where.sum()):
        reading.skipped[reason] += count
        reading.note(path, int(lines[where.argmax()]), _WHY[reason])


class Addresses:
    """Addresses in a log's texts as numbers in an AddressTable."""

    def __init__(self, prefixes: np.ndarray):
        self.table = AddressTable(prefixes, 1 << 10)
        self._numbers: dict[str, int] = {}

    def numbers(self, column: pa.ChunkedArray) -> np.ndarray:
        """int32[n]: each row's address as its number in the table, 0 where it is none."""
        column = column.unify_dictionaries()
        if not column.num_chunks:
            return np.empty(0, np.int32)
        texts = column.chunk(0).dictionary.to_pylist()
        self.table.make_room(len(texts))
        place = np.array([self._number(text) for text in texts] + [0], np.int32)
        codes = [chunk.indices.fill_null(len(texts)).to_numpy() for chunk in column.chunks]
        return place[np.concatenate(codes)]

    def is_subscriber(self, numbers: np.ndarray) -> np.ndarray:
        """bool[n]: which of these addresses are a subscriber's."""
        return self.table.entries[numbers, 2] != 0

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = 0
            with suppress(ValueError):
                address = packed(text)
                high, low = (int.from_bytes(half, "big") for half in (address[:8], address[8:]))
                self._numbers[text] = self.table.number(high, low)
        return self._numbers[text]
