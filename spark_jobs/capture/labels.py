"""Labels of users, read from the attributes of RADIUS messages (TS 29.061, 16.4.7; see LABELS)."""

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from schemas.arrow_types import ARROW_TYPES
from schemas.labels import LABELS, RATS
from spark_jobs.capture.reader import ReadStats
from spark_jobs.settings.networks import Area, Device

MALFORMED = "malformed_label"
"""Reason in ingest_log.skipped of values that are no labels."""
OPERATOR_SUFFIX = re.compile(r"\.mnc\d{3}\.mcc\d{3}\.gprs$")
AREAS = {
    0: (("CGI", 2, 2),), 1: (("SAI", 2, 2),), 2: (("RAI", 2, 1),),
    128: (("TAI", 2, 0),), 129: (("ECGI", 0, 4),), 130: (("TAI", 2, 0), ("ECGI", 0, 4)),
    131: (("eNB", 0, 3),), 132: (("TAI", 2, 0), ("eNB", 0, 3)),
    133: (("eNB", 0, 3),), 134: (("TAI", 2, 0), ("eNB", 0, 3)),
    135: (("NCGI", 0, 5),), 136: (("TAI", 3, 0),), 137: (("TAI", 3, 0), ("NCGI", 0, 5)),
    138: (("gNB", 0, 5),), 139: (("TAI", 3, 0), ("gNB", 0, 5)),
}  # fmt: skip
"""Fields of 3GPP-User-Location-Info by its type: kind, and bytes of the codes of area and cell.

A network's code of three bytes precedes these. The area of a CGI or SAI is a location area.
"""
CELLS = ("CGI", "SAI", "ECGI", "NCGI")

Parse = Callable[[str], str | int | None]


def label_columns(
    rows: pa.RecordBatch, area: Area, device: Device, stats: ReadStats
) -> dict[str, pa.Array]:
    """Return the columns of LABELS, from the columns of the same names of a log.

    A value in another form than the standards' is null and counted; `area` and `device` say what
    else is null.
    """
    parsers: dict[str, Parse] = {
        "apn": _apn,
        "rat": lambda text: RATS[int(text, 16)],
        "area": partial(_area, is_cell_wanted=area == "cell"),
        "device": lambda text: _matched(r"\d{8}", text),
        "home": _network,
        "visited": _network,
        "qci": _qci,
    }
    left_out = {"area": area == "none", "device": device == "none"}
    columns = {}
    for column in LABELS:
        name, kind = column.name, ARROW_TYPES[column.type]
        if left_out.get(name) or rows[name].null_count == len(rows):
            columns[name] = pa.nulls(len(rows), kind)
            continue
        encoded = rows[name].cast(pa.string()).dictionary_encode()
        counts = np.bincount(encoded.indices.drop_null(), minlength=len(encoded.dictionary))
        values: list[str | int | None] = []
        for text, count in zip(encoded.dictionary.to_pylist(), counts.tolist(), strict=True):
            try:
                values.append(parsers[name](text))
            except (ValueError, KeyError):
                values.append(None)
                stats.skipped[MALFORMED] += count
        columns[name] = pa.array(values, kind).take(encoded.indices)
    return columns


def _matched(pattern: str, text: str) -> str:
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError
    return text


def _apn(text: str) -> str:
    return _matched(r"[a-z0-9][a-z0-9.-]{0,99}", OPERATOR_SUFFIX.sub("", text.lower()))


def _network(digits: str) -> str:
    _matched(r"\d{5,6}", digits)
    return f"{digits[:3]}-{digits[3:]}"


def _qci(text: str) -> int | None:
    """Return the class of a bearer of EPS or 5GS, which follows the bearer's priority.

    Bearers of earlier releases have other classes.
    """
    release, _, profile = text.partition("-")
    _matched(r"([0-9A-Fa-f]{2}){2,}", profile)
    if release in ("98", "99", "05", "07"):
        return None
    if release not in ("08", "15") or not 1 <= (qci := int(profile[2:4], 16)) <= 254:
        raise ValueError
    return qci


def _area(text: str, is_cell_wanted: bool) -> str | None:
    """Return the area or cell of 3GPP-User-Location-Info, which is given as hexadecimal digits."""
    data = bytes.fromhex(text)
    place, offset, found = AREAS[data[0]] if data else (), 1, {}
    for kind, area_bytes, cell_bytes in place:
        network = _network(_network_digits(data[offset : offset + 3]))
        area = data[offset + 3 : offset + 3 + area_bytes].hex()
        offset += 3 + area_bytes + cell_bytes
        cell = data[offset - cell_bytes : offset].hex()
        found[kind] = f"{kind} {' '.join(filter(None, (network, area, cell)))}"
        if kind in ("CGI", "SAI"):
            found["LAI"] = f"LAI {network} {area}"
    # The last byte of a routing area's code is spare, and may be missing.
    if not place or len(data) - offset not in ((0, 1) if data[0] == 2 else (0,)):
        raise ValueError
    cells = [found[kind] for kind in CELLS if kind in found and is_cell_wanted]
    areas = [found[kind] for kind in ("LAI", "RAI", "TAI") if kind in found]
    return next(iter(cells + areas), None)


def _network_digits(code: bytes) -> str:
    """Return the country's and network's digits, of which each byte has two (TS 24.008, 10.5.1.3).

    The first digit of a byte is in its lower half. The network's last digit is the upper half of
    the second byte, f if there is none.
    """
    a, b, third, c, d, e = (digit for byte in code.hex(" ").split() for digit in reversed(byte))
    return f"{a}{b}{third}{d}{e}{c.replace('f', '')}"
