"""Figure of a connection: graphs above each other over one time axis.

From the top: limits and stalls, time-sequence graph, bytes in flight, RTT and RTO, and rate.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spark_jobs.estimators.sender.state import LIMITS
from spark_jobs.figures.examples.sentences import counted
from spark_jobs.figures.limits_by_window.numbers import LIMIT_COLOURS, LIMIT_LABELS, LIMIT_WORDS
from spark_jobs.figures.page_elements import FONT, GRID, TEXT
from spark_jobs.report.connection import Connection
from spark_jobs.report.connection_packets import KINDS, ConnectionPackets, Stream
from spark_jobs.report.plot_elements import (
    ACCESS,
    ACK_LINE,
    CWND,
    DATA,
    GRAPHS,
    INTERNET,
    STALL,
    TIMER,
    WINDOW,
    Trace,
    duration,
    place_in,
    points,
    seconds,
    step_line,
    typed_array,
)
from spark_jobs.report.plot_sequence import hover_text, sequence, window_visibility

MAX_DRAWN = 2000
"""Maximum number of segments of one kind in view; of more, the browser draws every n-th."""
MAX_SHADED = 300
"""Maximum number of shaded stalls; the longest are shaded."""
RATE_PERIODS = 200
"""Approximate number of periods of the rate."""
GAP, TOP, BOTTOM, LEFT, RIGHT = 22, 12, 52, 86, 218
"""Gap between graphs and margins of the figure (px)."""


def figure(packets: ConnectionPackets, connection: Connection) -> dict[str, Any]:
    """Return the figure as Plotly's JSON.

    Both directions have traces; at first only one is visible (see first_direction). A trace's
    `meta` contains its direction and its visibility when the reader selects that direction.
    """
    first = first_direction(packets)
    traces = [*_limits_and_stalls(packets, connection), *_rtt_and_rto(packets, connection)]
    for direction, stream, other in (
        ("down", packets.down, packets.up),
        ("up", packets.up, packets.down),
    ):
        stream_traces = [*sequence(stream, other, packets.captures), *_in_flight(stream)]
        if direction == "down":
            stream_traces += _cwnd(packets)
        for trace in (*stream_traces, *_rates(stream, connection)):
            visible = trace.get("visible", True)
            at_first = visible if direction == first else False
            traces.append(trace | {"meta": [direction, visible], "visible": at_first})
    return {"data": traces, "layout": _layout(traces, connection)}


def first_direction(packets: ConnectionPackets) -> str:
    """Return the direction with more data, or without data, that with more packets."""
    down, up = (
        (stream.segments["size"].sum(), len(stream.segments))
        for stream in (packets.down, packets.up)
    )
    return "up" if up > down else "down"


def limit_legend(packets: ConnectionPackets) -> list[tuple[str, str, str]]:
    """Return (name, label, colour) of each limit in the first graph."""
    codes = set(packets.intervals["limit"].tolist())
    return [
        (LIMIT_LABELS[name], LIMIT_WORDS[name], LIMIT_COLOURS[name])
        for code, name in enumerate(LIMITS)
        if code in codes
    ]


def thinning_notes(packets: ConnectionPackets) -> list[str]:
    """Return a note if the figure does not draw all segments at first."""
    longer = max((packets.down.segments, packets.up.segments), key=len)
    if len(longer) <= MAX_DRAWN:
        return []
    return [
        f"There are {len(longer):,} segments in one direction. With more than {MAX_DRAWN:,} of one "
        "kind in view, the figure draws only every n-th. Zoom in to see all."
    ]


def _limits_and_stalls(packets: ConnectionPackets, connection: Connection) -> Iterator[Trace]:
    """Yield bars along the time axis: limits, and below them stalls."""
    for code, name in enumerate(LIMITS):
        intervals = packets.intervals[packets.intervals["limit"] == code]
        if len(intervals):
            label = f"{LIMIT_LABELS[name]}: {LIMIT_WORDS[name]}"
            yield _bars("limit", intervals["start"], intervals["end"], LIMIT_COLOURS[name]) | {
                "name": name,
                "hovertemplate": "%{base:.3f} s, for %{x:.3f} s<br>" + label + "<extra></extra>",
            }
    stalls = connection.stalls
    if len(stalls):
        start, end = (seconds(stalls, name, connection) for name in ("start_ts", "end_ts"))
        yield _bars("stall", start, end, STALL) | {
            "name": "stall",
            "customdata": [_stall_text(row) for row in stalls.to_pylist()],
            "hovertemplate": "%{base:.3f} s, for %{x:.3f} s<br>%{customdata}<extra></extra>",
        }


def _bars(lane: str, start: np.ndarray, end: np.ndarray, colour: str) -> Trace:
    return place_in("limits") | {
        "type": "bar",
        "orientation": "h",
        "base": typed_array(start),
        "x": typed_array(end - start),
        "y": [lane] * len(start),
        "width": 0.86,
        "showlegend": False,
        "marker": {"color": colour, "line": {"width": 0}},
    }


def _stall_text(stall: dict[str, Any]) -> str:
    parts = [stall["class"].replace("_", " ")]
    if stall["interruption"]:
        parts.append(f"interruption of the link ({stall['interruption']})")
    parts.append(f"{counted(stall['segments'], 'segment')} in flight")
    if stall["lost"] is not None:
        parts.append(f"{stall['lost']} of them lost")
    parts.append(f"ended by the {stall['ended_by']}")
    if stall["recovery"] is not None:
        parts.append(f"recovered after {stall['recovery']:.3f} s")
    return "<br>".join(parts)


def _in_flight(stream: Stream) -> Iterator[Trace]:
    """Yield the bytes in flight and the other end's advertised window."""
    windows = stream.acks[~np.isnan(stream.acks["window"])]
    if len(windows):
        changes = windows[np.diff(windows["window"], prepend=-1.0) != 0]
        time = np.append(changes["time"], windows["time"][-1])
        size = np.append(changes["window"], windows["window"][-1])
        yield step_line("in_flight", time, size, "advertised window", WINDOW) | {
            "visible": window_visibility(stream)
        }
    if len(stream.in_flight):
        rows = stream.in_flight
        yield step_line("in_flight", rows["time"], rows["bytes"], "in flight", DATA) | {
            "fill": "tozeroy",
            "fillcolor": "rgba(48,71,94,0.13)",
        }


def _cwnd(packets: ConnectionPackets) -> Iterator[Trace]:
    """Yield the estimated congestion window of the server."""
    if len(packets.cwnd):
        cwnd = packets.cwnd
        time = np.append(cwnd["time"], packets.intervals["end"].max(initial=cwnd["time"][-1]))
        size = np.append(cwnd["bytes"], cwnd["bytes"][-1])
        yield step_line("in_flight", time, size, "cwnd (estimated)", CWND) | {
            "line": {"shape": "hv", "width": 1, "dash": "dot", "color": CWND}
        }


def _rtt_and_rto(packets: ConnectionPackets, connection: Connection) -> Iterator[Trace]:
    """Yield the RTT on both sides, the estimated RTO, and the RTO expiries."""
    samples = connection.rtt_samples
    ts, rtt = seconds(samples, "ts", connection), samples["rtt"].to_numpy()
    side, may_be_delayed = (
        np.array(samples["side"].to_pylist(), str),
        np.array(samples["delayed"].to_pylist(), bool),
    )
    for name, label, colour in (
        ("access", "RTT, access side", ACCESS),
        ("internet", "RTT, Internet side", INTERNET),
    ):
        for delayed in (False, True):
            chosen = (side == name) & (may_be_delayed == delayed)
            if chosen.any():
                text = label + (", delayed ACK?" if delayed else "")
                yield points("times", ts[chosen], rtt[chosen], text) | {
                    "mode": "markers",
                    "marker": {
                        "size": 5,
                        "color": colour,
                        "symbol": "circle-open" if delayed else "circle",
                    },
                    "hovertemplate": "%{x:.3f} s<br>%{y:.3f} s " + text + "<extra></extra>",
                }
    rto_values = connection.rto_values
    time, rto = seconds(rto_values, "ts", connection), rto_values["rto"].to_numpy()
    if len(time):
        last = duration(connection)
        order = np.argsort(time, kind="stable")
        time, rto = time[order], rto[order]
        yield step_line(
            "times", np.append(time, max(last, time[-1])), np.append(rto, rto[-1]),
            "RTO (estimated)", TIMER,
        )  # fmt: skip
        retransmissions = packets.down.segments[packets.down.segments["kind"] == KINDS.index("rto")]
        for spurious, label, symbol in (
            (False, "RTO expiry", "triangle-down"),
            (True, "spurious RTO expiry", "triangle-down-open"),
        ):
            segments = retransmissions[retransmissions["spurious_rto"] == spurious]
            if len(segments):
                level = rto[np.maximum(np.searchsorted(time, segments["time"], "right") - 1, 0)]
                yield points("times", segments["time"], level, label) | {
                    "mode": "markers",
                    "marker": {"symbol": symbol, "size": 9, "color": ACCESS},
                    **hover_text(segments, packets.captures, label),
                }


def _rates(stream: Stream, connection: Connection) -> Iterator[Trace]:
    """Yield the rate at Gi, and the rate of newly acknowledged bytes."""
    length = duration(connection)
    data = stream.segments[stream.segments["size"] > 0]
    if not len(data) or length <= 0:
        return
    width = _period(length)
    edges = np.arange(np.floor(length / width) + 2) * width
    passed = np.histogram(data["time"], edges, weights=data["size"])[0]
    yield _rate(edges, passed, f"at Gi, per {width:g} s", DATA, width)
    if len(stream.acks) > 1:
        highest = np.maximum.accumulate(stream.acks["number"])
        newly_acked = np.diff(highest, prepend=highest[0])
        acked = np.histogram(stream.acks["time"], edges, weights=newly_acked)[0]
        yield _rate(edges, acked, "acknowledged", ACK_LINE, width)


def _period(seconds: float) -> float:
    """Return a round number of seconds, at least 0.1, so that there are about RATE_PERIODS."""
    min_period = max(seconds / RATE_PERIODS, 0.1)
    unit = 10.0 ** np.floor(np.log10(min_period))
    return next(float(step * unit) for step in (1, 2, 5, 10) if step * unit >= min_period * 0.999)


def _rate(edges: np.ndarray, counts: np.ndarray, label: str, colour: str, width: float) -> Trace:
    rate = np.append(counts, counts[-1:]) * 8 / 1000 / width
    return step_line("rate", edges, rate, label, colour) | {
        "hovertemplate": "from %{x:.1f} s<br>%{y:,.1f} kbit/s " + label + "<extra></extra>"
    }


def _layout(traces: Sequence[Trace], connection: Connection) -> dict[str, Any]:
    """Return the layout of the graphs that have traces, from the top; each has its own legend."""
    axes = {trace["yaxis"] for trace in traces} | {GRAPHS["sequence"].axis}
    graphs = [graph for graph in GRAPHS.values() if graph.axis in axes]
    inner = sum(graph.height for graph in graphs) + GAP * (len(graphs) - 1)
    length = duration(connection) or 1.0
    layout: dict[str, Any] = {
        "font": {"family": FONT, "size": 13, "color": TEXT},
        "height": inner + TOP + BOTTOM,
        "margin": {"l": LEFT, "r": RIGHT, "t": TOP, "b": BOTTOM},
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
        "barmode": "overlay",
        "dragmode": "zoom",
        "uirevision": "kept",
        "shapes": [_shade(start, end) for start, end in _longest_stalls(connection)],
        "xaxis": {
            "title": {"text": "seconds after the first packet"},
            "anchor": graphs[-1].axis,
            "range": [-0.01 * length, 1.015 * length],
            "gridcolor": GRID,
            "showgrid": True,
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "spikethickness": 1,
            "spikedash": "solid",
            "spikecolor": "#9aa0a6",
            "hoverformat": ".6~f",
        },
    }
    top = inner
    for graph in graphs:
        axis = "yaxis" + graph.axis[1:]
        layout[axis] = {
            "domain": [(top - graph.height) / inner, top / inner],
            "title": {"text": graph.title, "standoff": 16},
            "tickformat": "~s",
            "rangemode": "tozero",
            "gridcolor": GRID,
            "showgrid": True,
            "automargin": False,
        }
        layout[graph.legend] = {
            "x": 1.008,
            "y": top / inner,
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 11.5},
            "traceorder": "normal",
            "tracegroupgap": 0,
            "itemsizing": "constant",
        }
        top -= graph.height + GAP
    lanes = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": ["stall", "limit"],
        "range": [-0.5, 1.5],
        "fixedrange": True,
        "showgrid": False,
        "ticks": "",
        "tickformat": "",
    }
    axis_settings = {"yaxis": lanes, "yaxis2": {"rangemode": "normal"}}
    axis_settings |= {axis: {"tickformat": "~g"} for axis in ("yaxis4", "yaxis5")}
    for axis, settings in axis_settings.items():
        if axis in layout:
            layout[axis] |= settings
    return layout


def _longest_stalls(connection: Connection) -> list[tuple[float, float]]:
    start, end = (seconds(connection.stalls, name, connection) for name in ("start_ts", "end_ts"))
    longest = np.argsort(start - end, kind="stable")[:MAX_SHADED]
    return list(zip(start[longest].tolist(), end[longest].tolist(), strict=True))


def _shade(start: float, end: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": start,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "line": {"width": 0},
        "fillcolor": "rgba(92,95,102,0.12)",
    }
