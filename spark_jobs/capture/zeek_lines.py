"""Conversion of Zeek logs to Arrow tables: TSV or JSON, plain, gzip or zstd.

Columns are identified by the names in the header, in any order. A line that cannot be read is
counted and reported; the others are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from schemas.zeek import Log
from spark_jobs.base.errors import UserError
from spark_jobs.capture.address_text import parse_address
from spark_jobs.capture.addresses import AddressTable
from spark_jobs.capture.decode import LATEST_TS_US
from spark_jobs.capture.reader import MAX_NOTES, ReadStats
from spark_jobs.capture.stream import CaptureStream
from spark_jobs.capture.zeek_kinds import HEAD_BYTES, head_of

ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")

ParseLines = Callable[[bytes], pa.Table]
"""Function that parses whole lines to one row per line; raises PARSE_ERRORS."""
PARSE_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
ParsedRows = tuple[pa.Table, np.ndarray, np.ndarray]
"""Parsed rows, their numbers among the log's rows from 1, and their line numbers."""


def read_log_rows(path: Path, log: Log, stats: ReadStats) -> Iterator[Iterator[ParsedRows]]:
    """Yield the rows of a log: one iterator for every few megabytes.

    Each iterator must be used up before the next is requested. `stats` is updated as rows are read.
    """
    with CaptureStream(path) as stream:
        lines = _LineReader(path, log, stats)
        for block in _read_blocks(stream, lines):
            stats.content_hash = stream.content_hash
            yield lines.tables(block)
        lines.finish()
        if stream.compression_error:
            stats.skipped["corrupt_compression"] += 1
            stats.add_note(path, lines.line, stream.compression_error)


def _read_blocks(stream: CaptureStream, lines: "_LineReader") -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time.

    An incomplete last line is counted and dropped.
    """
    while stream.read_more():
        data = stream.window[stream.start : stream.end].tobytes()
        complete = data.rfind(b"\n") + 1
        if not complete and not stream.at_eof:
            raise UserError(f"{lines.path}:{lines.line + 1}: a line of more than {len(data)} bytes")
        stream.start += complete
        if complete:
            yield data if complete == len(data) else data[:complete]
    if stream.start < stream.end:
        lines.note_cut_line()


def _next_meta(block: bytes, pos: int) -> int:
    """Return the position of the next `#` line.

    The search for the single character comes first, because it is many times faster.
    """
    if block.find(b"#", pos) < 0:
        return len(block)
    return block.find(b"\n#", pos) + 1 or len(block)


@dataclass
class Header:
    """Contents of the `#` lines before the rows."""

    fields: list[str]
    separator: str = "\t"
    unset: str = "-"
    empty: str = "(empty)"
    set_separator: str = ","


class _LineReader:
    """Parser of blocks of lines that keeps the line number and the header."""

    def __init__(self, path: Path, log: Log, stats: ReadStats):
        self.line = 0
        self.path, self._log, self._stats = path, log, stats
        self._parse: ParseLines | None = None
        self._header = Header([])
        self._has_begun = self._is_json = self._is_open = False

    def tables(self, block: bytes) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        """Yield parsed rows, their numbers among the log's rows, and their line numbers."""
        if not self._has_begun:
            self._detect_format(block)
        pos = 0
        while pos < len(block):
            if block[pos : pos + 1] == b"#" and not self._is_json:
                end = block.index(b"\n", pos) + 1
                self.line += 1
                self._read_header_line(
                    block[pos : end - 1].rstrip(b"\r").decode("utf-8", "replace")
                )
            else:
                end = len(block) if self._is_json else _next_meta(block, pos)
                yield from self._rows(block[pos:end])
            pos = end

    def note_cut_line(self) -> None:
        """Count an incomplete last line."""
        self._stats.skipped["truncated_file"] += 1
        self._stats.add_note(
            self.path, self.line + 1, "the last line is incomplete and was skipped"
        )

    def finish(self) -> None:
        """Check the log after its last block."""
        if not self._has_begun:
            raise UserError(f"{self.path}: the file is empty")
        if self._is_open:
            self._stats.skipped["not_closed"] += 1
            self._stats.add_note(self.path, self.line, "no #close: the log was not closed")

    def _detect_format(self, block: bytes) -> None:
        self._has_begun, self._is_json = True, block.startswith(b"{")
        if self._is_json:
            fields, _ = head_of(block[:HEAD_BYTES])
            if fields:
                self._check_fields(sorted(fields), 1)
            self._parse = self._parser(self._columns())
        elif not block.startswith(b"#"):
            raise UserError(f"{self.path}:1: not a log of Zeek: it begins with neither # nor {{")

    def _columns(self) -> list[str]:
        """Return the columns that are read."""
        return [n for n in self._log.fields if self._is_json or n in self._header.fields]

    def _parser(self, names: list[str]) -> ParseLines:
        if self._is_json:
            return _json_parser(self._log, names)
        return _tsv_parser(self._log, self._header, names)

    def _read_header_line(self, line: str) -> None:
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
            self._header.fields, self._is_open = values, True
            is_usable = self._check_fields(values, self.line)
            self._parse = self._parser(self._columns()) if is_usable else None
        elif key == "#close":
            self._is_open = False

    def _separator(self, line: str) -> str:
        """Return the separator of a #separator line, which is a character or escaped.

        If it cannot be a separator, returns a tab, which is Zeek's default.
        """
        text = line.partition(" ")[2]
        escaped = ESCAPED.fullmatch(text)
        text = chr(int(escaped.group(1), 16)) if escaped else text
        if len(text) == 1 and text.isascii() and text not in "\r\n":
            return text
        self._stats.add_note(
            self.path, self.line, "#separator is not one character: a tab is assumed"
        )
        return "\t"

    def _check_fields(self, fields: list[str], line: int) -> bool:
        """Return whether rows with these fields can be used.

        Raises UserError if the first rows cannot.
        """
        missing = [name for name in self._log.required if name not in fields]
        repeated = [name for name in self._log.fields if fields.count(name) > 1]
        unknown = sum(name not in self._log.fields for name in fields)
        if missing or repeated:
            problem = (
                f"no column {', '.join(missing)}" if missing else f"{', '.join(repeated)} twice"
            )
            if not self._stats.frames:
                raise UserError(f"{self.path}:{line}: {problem}; not {self._log.description}")
            self._stats.add_note(self.path, line, f"{problem}; the rows below are skipped")
            return False
        absent = [name for name in self._log.fields if name not in fields]
        if absent and not self._is_json:
            self._stats.add_note(
                self.path, line, f"no column {', '.join(absent)}: null in all rows"
            )
        if unknown and self._log.by_giscope:
            self._stats.add_note(self.path, line, f"unknown columns: {unknown}")
        return True

    def _rows(self, lines: bytes) -> Iterator[ParsedRows]:
        n = lines.count(b"\n")
        if self._parse is None:
            if not self._header.fields:
                raise UserError(f"{self.path}:{self.line + 1}: rows without a #fields line")
            self._stats.skipped["malformed_line"] += n
        else:
            for table, first in _parse_rows(self._parse, lines, n, self._report_malformed):
                numbers = first + np.arange(len(table))
                yield table, numbers + self._stats.frames + 1, numbers + self.line + 1
        self._stats.frames += n
        self.line += n

    def _report_malformed(self, first: int, line: bytes) -> None:
        self._stats.skipped["malformed_line"] += 1
        if len(self._stats.notes) < MAX_NOTES:
            self._stats.add_note(self.path, self.line + first + 1, self._fault(line))

    def _fault(self, line: bytes) -> str:
        """Return what is wrong with a malformed line, without its content.

        Arrow's message has the content. So each column is parsed alone to find the wrong ones.
        """
        values, columns = line.count(self._header.separator.encode()) + 1, len(self._header.fields)
        if not self._is_json and values != columns:
            return f"{values:,} values in a line of {columns:,} columns"
        names = self._columns()
        bad = [name for name in names if not _is_row(self._parser([name]), line)]
        return "the line is not one record" if bad in ([], names) else _invalid(bad)


def _parse_rows(
    parse: ParseLines,
    lines: bytes,
    n: int,
    report_malformed: Callable[[int, bytes], None],
    first: int = 0,
) -> Iterator[tuple[pa.Table, int]]:
    """Yield tables of the lines that can be parsed, with the index of each table's first line.

    Lines that cannot be parsed are found by bisection and passed to `report_malformed`.
    """
    try:
        table = parse(lines)
        if len(table) != n:
            raise pa.ArrowInvalid("not one record in each line")
        yield table, first
    except PARSE_ERRORS:
        if n == 1:
            report_malformed(first, lines)
            return
        middle = lines.find(b"\n", len(lines) // 2 - 1, len(lines) - 1) + 1
        middle = middle or lines.rfind(b"\n", 0, len(lines) - 1) + 1
        upper_count = lines[:middle].count(b"\n")
        yield from _parse_rows(parse, lines[:middle], upper_count, report_malformed, first)
        yield from _parse_rows(
            parse, lines[middle:], n - upper_count, report_malformed, first + upper_count
        )


def _is_row(parse: ParseLines, line: bytes) -> bool:
    try:
        return len(parse(line)) == 1
    except PARSE_ERRORS:
        return False


def _invalid(names: Iterable[str]) -> str:
    return f"column {', '.join(names)}: a value is missing, invalid or out of range"


def _tsv_parser(log: Log, header: Header, names: list[str]) -> ParseLines:
    """Return a parser of some columns of TSV lines."""
    lists = [name for name in names if pa.types.is_list(log.fields[name])]
    read = pa.csv.ReadOptions(column_names=header.fields, block_size=1 << 22)
    syntax = pa.csv.ParseOptions(
        delimiter=header.separator, quote_char=False, ignore_empty_lines=False
    )
    convert = pa.csv.ConvertOptions(
        column_types={
            name: pa.string() if name in lists else _parsed_type(log.fields[name]) for name in names
        },
        include_columns=names,
        null_values=[header.unset, header.empty],
        strings_can_be_null=True,
        true_values=["T"],
        false_values=["F"],
    )

    def parse(lines: bytes) -> pa.Table:
        table = pa.csv.read_csv(pa.BufferReader(lines), read, syntax, convert)
        for name in lists:
            items = _split(table[name], header.set_separator, log.fields[name])
            table = table.set_column(names.index(name), name, items)
        return table

    return parse


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a field is parsed as.

    A time is parsed as seconds since 1970; a double holds every microsecond of them.
    """
    return pa.float64() if pa.types.is_timestamp(kind) else kind


def _split(texts: pa.ChunkedArray, separator: str, kind: pa.DataType) -> pa.Array:
    """Split texts into lists of items."""
    texts = texts.combine_chunks()
    texts = pa.concat_arrays(texts.chunks) if isinstance(texts, pa.ChunkedArray) else texts
    return pc.split_pattern(texts, separator).cast(kind)


def _json_parser(log: Log, names: list[str]) -> ParseLines:
    """Return a parser of some columns of JSON lines.

    Times are numbers, or texts in ISO 8601. The form of the last lines is tried first.
    """
    parsers = [_json_parser_of({n: log.fields[n] for n in names}, iso) for iso in (False, True)]

    def parse(lines: bytes) -> pa.Table:
        try:
            return parsers[0](lines)
        except pa.ArrowInvalid as error:
            try:
                table = parsers[1](lines)
            except pa.ArrowInvalid:
                raise error from None
        parsers.reverse()
        return table

    return parse


def _json_parser_of(fields: dict[str, pa.DataType], iso: bool) -> ParseLines:
    """Return a parser of JSON lines with one form of times; iso: they are texts in ISO 8601."""
    times = [name for name, kind in fields.items() if iso and pa.types.is_timestamp(kind)]
    coded = [name for name, kind in fields.items() if pa.types.is_dictionary(kind)]
    types = {name: _parsed_type(kind) for name, kind in fields.items()}
    types |= {name: fields[name] for name in times} | {name: pa.string() for name in coded}
    read = pa.json.ReadOptions(block_size=1 << 22)
    syntax = pa.json.ParseOptions(
        explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
    )

    def parse(lines: bytes) -> pa.Table:
        table = pa.json.read_json(pa.BufferReader(lines), read, syntax)
        table.validate(full=True)  # the parser accepts texts that are not UTF-8
        for name in coded:
            index = table.schema.get_field_index(name)
            table = table.set_column(index, name, table[name].dictionary_encode())
        for name in times:
            index = table.schema.get_field_index(name)
            seconds = pc.divide(table[name].cast(pa.int64()).cast(pa.float64()), 1e6)
            table = table.set_column(index, name, seconds)
        return table

    return parse


def to_microseconds(seconds: pa.ChunkedArray) -> np.ndarray:
    """Return the times of a parsed log in µs since 1970: int64[n], -1 if null or implausible."""
    values = seconds.fill_null(-1).to_numpy()
    plausible = (values >= 0) & (values < LATEST_TS_US / 1e6)
    return np.where(plausible, np.rint(np.where(plausible, values, 0) * 1e6), -1).astype(np.int64)


def has_value(table: pa.Table, name: str) -> np.ndarray:
    """Return which rows have a value of a field: bool[n]; none if the log lacks the field."""
    if name not in table.column_names:
        return np.zeros(len(table), bool)
    return table[name].is_valid().to_numpy()


def skip_rows(
    stats: ReadStats, path: Path, lines: np.ndarray, valid: Mapping[str, np.ndarray], reason: str
) -> np.ndarray:
    """Count rows with invalid columns, and note the first one; return which rows are valid."""
    is_valid = np.logical_and.reduce(list(valid.values()))
    if count := int((~is_valid).sum()):
        first = int(is_valid.argmin())
        stats.skipped[reason] += count
        bad = [name for name, of_column in valid.items() if not of_column[first]]
        stats.add_note(path, int(lines[first]), _invalid(bad))
    return is_valid


class AddressNumbers:
    """Numbers in an AddressTable for the addresses in a log's texts."""

    def __init__(self, prefixes: np.ndarray):
        self.table = AddressTable(prefixes, 1 << 10)
        self._numbers: dict[str, int] = {}

    def numbers(self, column: pa.ChunkedArray) -> np.ndarray:
        """Return each row's address number: int32[n], 0 if the text is no address."""
        column = column.unify_dictionaries()
        if not column.num_chunks:
            return np.empty(0, np.int32)
        texts = column.chunk(0).dictionary.to_pylist()
        self.table.reserve(len(texts))
        number_of_code = np.array([self._number(text) for text in texts] + [0], np.int32)
        codes = [chunk.indices.fill_null(len(texts)).to_numpy() for chunk in column.chunks]
        return number_of_code[np.concatenate(codes)]

    def number_of(self, address: IPv6Address) -> int:
        """Return the number of an address."""
        self.table.reserve(1)
        return self.table.add(*divmod(int(address), 1 << 64))

    def is_subscriber(self, numbers: np.ndarray) -> np.ndarray:
        """Return which of these addresses belong to subscribers: bool[n]."""
        return self.table.entries[numbers, 2] != 0

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = 0
            with suppress(ValueError):
                address = parse_address(text)
                high, low = (int.from_bytes(half, "big") for half in (address[:8], address[8:]))
                self._numbers[text] = self.table.add(high, low)
        return self._numbers[text]
