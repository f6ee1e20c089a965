"""The time-sequence graph of one way: tcptrace's and xplot's, with why each segment was retransmitted,
and where what was lost, was.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from spark_jobs.estimators.tcp import FIN, RST, SYN
from spark_jobs.report.connection_packets import KINDS, Stream
from spark_jobs.report.page_elements import TEXT
from spark_jobs.report.plot_elements import (
    ACCESS,
    ACK_LINE,
    DATA,
    INTERNET,
    REPORTED,
    TWICE,
    WINDOW,
    Trace,
    array,
    placed,
    points,
    steps,
)

KIND_WORDS = {
    "new": ("data", DATA),
    "rto": ("again: timeout", "#c0302b"),
    "slow_start": ("again: slow start", "#d98200"),
    "fast": ("again: fast retransmit", "#0067a3"),
    "tlp": ("loss probe", "#a8457f"),
    "again": ("again", "#8c6d46"),
    "synack": ("SYN ACK again", "#8c6d46"),
    "probe": ("window probe", "#5c5f66"),
    "keepalive": ("keep-alive", "#5c5f66"),
}
"""In the order of the legend."""
WIDE = 2
"""So many times what was sent is a wide window."""


def sequence(stream: Stream, other: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """The time-sequence graph."""
    yield from _lines(stream)
    data = stream.sent[stream.sent["size"] > 0]
    kinds = np.array(KINDS)[data["kind"]]
    for kind, (words, colour) in KIND_WORDS.items():
        mine = data[kinds == kind]
        if len(mine):
            yield _strokes(mine, captures, words, colour)
    needless = data[data["spurious"]]
    if len(needless):
        middle = needless["low"] + needless["size"] / 2
        words = "needless: had arrived"
        yield points("sequence", needless["at"], middle, words) | {
            "mode": "markers",
            "marker": {"symbol": "circle-open", "size": 9, "color": TEXT, "line": {"width": 1.3}},
            **hover_text(needless, captures, words),
        }
    yield from _reported(stream, captures)
    for side, words, symbol, colour in (
        (False, "lost on the access side", "x", ACCESS),
        (True, "lost on the Internet side", "diamond", INTERNET),
    ):
        lost = stream.lost[stream.lost["internet"] == side]
        if len(lost):
            yield _lost(lost, words, symbol, colour)
    yield from _flagged(stream, captures)
    yield from _flagged_by_other(stream, other, captures)


def _lines(stream: Stream) -> Iterator[Trace]:
    """The ACKs and the edge of the window that they offer."""
    heard = stream.heard
    if not len(heard):
        return
    edge = heard["number"] + heard["window"]
    if not np.isnan(edge).all():
        yield steps("sequence", heard["at"], edge, "window's edge", WINDOW) | {
            "visible": window_visibility(stream),
            "customdata": array(heard["window"]),
            "hovertemplate": "%{x:.6f} s<br>window %{customdata:,} B, to %{y:,}<extra></extra>",
        }
    yield steps("sequence", heard["at"], heard["number"], "ACKs", ACK_LINE) | {
        "customdata": array(np.column_stack([heard["frame"], heard["window"]])),
        "hovertemplate": "%{x:.6f} s, frame %{customdata[0]:.0f}<br>ACK of %{y:,}<extra></extra>",
    }


def window_visibility(stream: Stream) -> bool | str:
    """Windows are shown when asked for where they are so wide that little else would be seen."""
    sent = (stream.sent["low"] + stream.sent["size"]).max(initial=0)
    return bool(np.nanmax(stream.heard["window"]) <= WIDE * max(sent, 1)) or "legendonly"


def _strokes(sent: np.ndarray, captures: Sequence[str], words: str, colour: str) -> Trace:
    """A stroke a segment, from its first byte to its last."""
    half = sent["size"] / 2
    return points("sequence", sent["at"], sent["low"] + half, words) | {
        "mode": "markers",
        "marker": {"size": 3, "color": colour},
        "error_y": {
            "type": "data",
            "array": array(half),
            "color": colour,
            "thickness": 1.6,
            "width": 2,
        },
        **hover_text(sent, captures, words),
    }


def hover_text(rows: np.ndarray, captures: Sequence[str], words: str) -> Trace:
    """What is said of each segment under the pointer."""
    columns = [rows[name].astype(float) for name in ("frame", "low", "size", "seq")]
    told: Trace = {
        "customdata": array(np.column_stack([*columns, rows["low"] + rows["size"]])),
        "hovertemplate": "%{x:.6f} s, frame %{customdata[0]:.0f}"
        + _of_capture(rows, captures)
        + "<br>bytes %{customdata[1]:,} to %{customdata[4]:,} (%{customdata[2]:,} B)"
        + "<br>seq on the wire %{customdata[3]:.0f}<br>"
        + words
        + "<extra></extra>",
    }
    if len(captures) > 1:
        told["text"] = [captures[code] for code in rows["capture"].tolist()]
    return told


def _of_capture(rows: np.ndarray, captures: Sequence[str]) -> str:
    if len(captures) > 1:
        return " of %{text}"
    return f" of {captures[0]}" if captures else ""


def _reported(stream: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """SACK blocks, as strokes where their ACKs are."""
    for twice, words, colour in (
        (False, "SACK blocks", REPORTED),
        (True, "D-SACK: came twice", TWICE),
    ):
        blocks = stream.blocks[stream.blocks["twice"] == twice]
        if len(blocks):
            half = (blocks["high"] - blocks["low"]) / 2
            columns = [blocks[name].astype(float) for name in ("frame", "low", "high")]
            yield points("sequence", blocks["at"], blocks["low"] + half, words) | {
                "mode": "markers",
                "opacity": 0.75,
                "marker": {"size": 2, "color": colour},
                "error_y": {
                    "type": "data",
                    "array": array(half),
                    "color": colour,
                    "thickness": 1.2,
                    "width": 0,
                },
                "customdata": array(np.column_stack(columns)),
                "hovertemplate": "%{x:.6f} s, frame %{customdata[0]:.0f}<br>"
                + words[:6].strip(": ")
                + " %{customdata[1]:,} to %{customdata[2]:,}<extra></extra>",
            }


def _lost(lost: np.ndarray, words: str, symbol: str, colour: str) -> Trace:
    columns = [lost[name].astype(float) for name in ("low", "size", "probability")]
    return points("sequence", lost["at"], lost["low"] + lost["size"] / 2, words) | {
        "mode": "markers",
        "marker": {"symbol": symbol, "size": 7, "color": colour, "line": {"width": 0}},
        "customdata": array(np.column_stack(columns)),
        "hovertemplate": "%{x:.6f} s<br>%{customdata[1]:,} B from %{customdata[0]:,} on, "
        + words
        + "<br>probability %{customdata[2]:.3f}<extra></extra>",
    }


def _flagged(stream: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """Where the stream opens and closes."""
    rows = stream.sent[stream.sent["flags"] & (SYN | FIN | RST) > 0]
    if len(rows):
        yield _named(rows, rows["low"] + rows["size"], captures, "SYN, FIN, RST") | {
            "textposition": "top center",
            "marker": {"symbol": "triangle-down", "size": 7, "color": TEXT},
        }


def _flagged_by_other(stream: Stream, other: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """Where the other end closes or gives up, on the line of its ACKs."""
    rows = other.sent[other.sent["flags"] & (FIN | RST) > 0]
    if len(rows):
        before = np.searchsorted(stream.heard["at"], rows["at"], "right") - 1
        level = np.append(stream.heard["number"], 0)[before]
        yield _named(rows, level, captures, "FIN, RST of the other") | {
            "textposition": "bottom center",
            "marker": {"symbol": "triangle-up-open", "size": 7, "color": TEXT},
        }


def _named(rows: np.ndarray, level: np.ndarray, captures: Sequence[str], words: str) -> Trace:
    """Marks with the names of flags."""
    told = hover_text(rows, captures[:1], "%{text}")
    return placed("sequence") | {
        **told,
        "type": "scatter",
        "x": array(rows["at"]),
        "y": array(level),
        "name": words,
        "mode": "markers+text",
        "text": [_flag(flags) for flags in rows["flags"].tolist()],
        "textfont": {"size": 11, "color": TEXT},
        "cliponaxis": False,
    }


def _flag(flags: int) -> str:
    return "RST" if flags & RST else "FIN" if flags & FIN else "SYN"
