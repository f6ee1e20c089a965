"""Time-sequence graph of one direction, as by tcptrace and xplot.

It also shows causes of retransmissions, spurious retransmissions, and losses.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from spark_jobs.estimators.tcp import FIN, RST, SYN
from spark_jobs.figures.page_elements import TEXT
from spark_jobs.report.connection_packets import KINDS, Stream
from spark_jobs.report.plot_elements import (
    ACCESS,
    ACK_LINE,
    DATA,
    DSACK,
    INTERNET,
    SACK,
    WINDOW,
    Trace,
    place_in,
    points,
    step_line,
    typed_array,
)

KIND_LABELS = {
    "new": ("data", DATA),
    "rto": ("retransmission: RTO expiry", "#c0302b"),
    "slow_start": ("retransmission: slow start", "#d98200"),
    "fast": ("fast retransmission", "#0067a3"),
    "tlp": ("loss probe", "#a8457f"),
    "pmtu": ("retransmission: path MTU", "#2f7d4f"),
    "retransmission": ("retransmission", "#8c6d46"),
    "synack": ("SYN ACK retransmission", "#8c6d46"),
    "probe": ("window probe", "#5c5f66"),
    "keepalive": ("keep-alive", "#5c5f66"),
}
"""By kind of segments, in the order of the legend: label and colour."""
WIDE_WINDOW = 2
"""A window is wide if it exceeds the sent bytes by this factor."""


def sequence(stream: Stream, other: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """Yield the traces of the time-sequence graph; other: the stream in the opposite direction."""
    yield from _lines(stream)
    data = stream.segments[stream.segments["size"] > 0]
    kinds = np.array(KINDS)[data["kind"]]
    for kind, (label, colour) in KIND_LABELS.items():
        segments = data[kinds == kind]
        if len(segments):
            yield _strokes(segments, captures, label, colour)
    spurious = data[data["spurious"]]
    if len(spurious):
        middle = spurious["low"] + spurious["size"] / 2
        label = "spurious: data had arrived"
        yield points("sequence", spurious["time"], middle, label) | {
            "mode": "markers",
            "marker": {"symbol": "circle-open", "size": 9, "color": TEXT, "line": {"width": 1.3}},
            **hover_text(spurious, captures, label),
        }
    yield from _sack_strokes(stream, captures)
    for internet, label, symbol, colour in (
        (False, "lost on the access side", "x", ACCESS),
        (True, "lost on the Internet side", "diamond", INTERNET),
    ):
        losses = stream.losses[stream.losses["internet"] == internet]
        if len(losses):
            yield _loss_marks(losses, label, symbol, colour)
    yield from _flag_marks(stream, captures)
    yield from _other_end_flags(stream, other, captures)


def _lines(stream: Stream) -> Iterator[Trace]:
    """Yield the lines of the cumulative ACKs and of the right edge of the advertised window."""
    acks = stream.acks
    if not len(acks):
        return
    edge = acks["number"] + acks["window"]
    if not np.isnan(edge).all():
        yield step_line("sequence", acks["time"], edge, "window edge", WINDOW) | {
            "visible": window_visibility(stream),
            "customdata": typed_array(acks["window"]),
            "hovertemplate": "%{x:.6f} s<br>window %{customdata:,} B, up to %{y:,}<extra></extra>",
        }
    yield step_line("sequence", acks["time"], acks["number"], "ACKs", ACK_LINE) | {
        "customdata": typed_array(np.column_stack([acks["frame"], acks["window"]])),
        "hovertemplate": "%{x:.6f} s, frame %{customdata[0]:.0f}<br>ACK of %{y:,}<extra></extra>",
    }


def window_visibility(stream: Stream) -> bool | str:
    """Return "legendonly" if the windows are so wide that they would hide everything else."""
    sent_bytes = (stream.segments["low"] + stream.segments["size"]).max(initial=0)
    return (
        bool(np.nanmax(stream.acks["window"]) <= WIDE_WINDOW * max(sent_bytes, 1)) or "legendonly"
    )


def _strokes(segments: np.ndarray, captures: Sequence[str], label: str, colour: str) -> Trace:
    """Return a vertical stroke for each segment, from its first byte to its last."""
    half = segments["size"] / 2
    return points("sequence", segments["time"], segments["low"] + half, label) | {
        "mode": "markers",
        "marker": {"size": 3, "color": colour},
        "error_y": {
            "type": "data",
            "array": typed_array(half),
            "color": colour,
            "thickness": 1.6,
            "width": 2,
        },
        **hover_text(segments, captures, label),
    }


def hover_text(rows: np.ndarray, captures: Sequence[str], label: str) -> Trace:
    """Return a trace's properties for the text at the pointer; rows: SEGMENT[K]."""
    columns = [rows[name].astype(float) for name in ("frame", "low", "size", "seq")]
    hover: Trace = {
        "customdata": typed_array(np.column_stack([*columns, rows["low"] + rows["size"]])),
        "hovertemplate": "%{x:.6f} s, frame %{customdata[0]:.0f}"
        + _of_capture(rows, captures)
        + "<br>bytes %{customdata[1]:,} to %{customdata[4]:,} (%{customdata[2]:,} B)"
        + "<br>seq in the packet %{customdata[3]:.0f}<br>"
        + label
        + "<extra></extra>",
    }
    if len(captures) > 1:
        hover["text"] = [captures[code] for code in rows["capture"].tolist()]
    return hover


def _of_capture(rows: np.ndarray, captures: Sequence[str]) -> str:
    if len(captures) > 1:
        return " of %{text}"
    return f" of {captures[0]}" if captures else ""


def _sack_strokes(stream: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """Yield SACK blocks as strokes at the time of their ACKs."""
    for dsack, label, colour in (
        (False, "SACK blocks", SACK),
        (True, "D-SACK: data arrived twice", DSACK),
    ):
        blocks = stream.sack_blocks[stream.sack_blocks["dsack"] == dsack]
        if len(blocks):
            half = (blocks["high"] - blocks["low"]) / 2
            columns = [blocks[name].astype(float) for name in ("frame", "low", "high")]
            yield points("sequence", blocks["time"], blocks["low"] + half, label) | {
                "mode": "markers",
                "opacity": 0.75,
                "marker": {"size": 2, "color": colour},
                "error_y": {
                    "type": "data",
                    "array": typed_array(half),
                    "color": colour,
                    "thickness": 1.2,
                    "width": 0,
                },
                "customdata": typed_array(np.column_stack(columns)),
                "hovertemplate": "%{x:.6f} s, frame %{customdata[0]:.0f}<br>"
                + label[:6].strip(": ")
                + " %{customdata[1]:,} to %{customdata[2]:,}<extra></extra>",
            }


def _loss_marks(losses: np.ndarray, label: str, symbol: str, colour: str) -> Trace:
    columns = [losses[name].astype(float) for name in ("low", "size", "probability")]
    return points("sequence", losses["time"], losses["low"] + losses["size"] / 2, label) | {
        "mode": "markers",
        "marker": {"symbol": symbol, "size": 7, "color": colour, "line": {"width": 0}},
        "customdata": typed_array(np.column_stack(columns)),
        "hovertemplate": "%{x:.6f} s<br>%{customdata[1]:,} B from %{customdata[0]:,}, "
        + label
        + "<br>probability %{customdata[2]:.3f}<extra></extra>",
    }


def _flag_marks(stream: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """Yield marks of the stream's SYN, FIN and RST."""
    rows = stream.segments[stream.segments["flags"] & (SYN | FIN | RST) > 0]
    if len(rows):
        yield _flag_labels(rows, rows["low"] + rows["size"], captures, "SYN, FIN, RST") | {
            "textposition": "top center",
            "marker": {"symbol": "triangle-down", "size": 7, "color": TEXT},
        }


def _other_end_flags(stream: Stream, other: Stream, captures: Sequence[str]) -> Iterator[Trace]:
    """Yield marks of the other end's FIN and RST, on the line of its ACKs."""
    rows = other.segments[other.segments["flags"] & (FIN | RST) > 0]
    if len(rows):
        before = np.searchsorted(stream.acks["time"], rows["time"], "right") - 1
        level = np.append(stream.acks["number"], 0)[before]
        yield _flag_labels(rows, level, captures, "FIN, RST of the other end") | {
            "textposition": "bottom center",
            "marker": {"symbol": "triangle-up-open", "size": 7, "color": TEXT},
        }


def _flag_labels(rows: np.ndarray, level: np.ndarray, captures: Sequence[str], label: str) -> Trace:
    """Return marks labelled with the names of flags."""
    hover = hover_text(rows, captures[:1], "%{text}")
    return place_in("sequence") | {
        **hover,
        "type": "scatter",
        "x": typed_array(rows["time"]),
        "y": typed_array(level),
        "name": label,
        "mode": "markers+text",
        "text": [_flag(flags) for flags in rows["flags"].tolist()],
        "textfont": {"size": 11, "color": TEXT},
        "cliponaxis": False,
    }


def _flag(flags: int) -> str:
    return "RST" if flags & RST else "FIN" if flags & FIN else "SYN"
