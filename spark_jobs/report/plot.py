"""A connection figure_html: what limited it, its time-sequence graph, what was outstanding, round trips
and timeouts, and its rate, above each other over one axis of time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spark_jobs.estimators.sender.state import LIMITS
from spark_jobs.report.connection import Connection
from spark_jobs.report.connection_packets import KINDS, ConnectionPackets, Stream
from spark_jobs.report.page_elements import FONT, GRID, TEXT
from spark_jobs.report.plot_elements import (
    ACCESS,
    ACK_LINE,
    CWND,
    DATA,
    INTERNET,
    ROWS,
    STALL,
    TIMER,
    WINDOW,
    Trace,
    array,
    duration,
    placed,
    points,
    seconds,
    steps,
)
from spark_jobs.report.plot_sequence import sequence, window_visibility, hover_text
from spark_jobs.report.why import LIMIT_COLOURS
from spark_jobs.report.why import LIMITS as LIMITED

MAX_DRAWN = 2000
"""Of more segments of one kind in view the browser draws every second, third, ..."""
MOST_SHADED = 300
"""So many stalls are shaded at most, the longest."""
BINS = 200
"""The rate is of about so many periods."""
GAP, TOP, BOTTOM, LEFT, RIGHT = 22, 12, 52, 86, 218


def figure(exchange: ConnectionPackets, connection: Connection) -> dict[str, Any]:
    """The figure as Plotly's JSON. Of the two ways one is shown at first (see first_direction); `meta`
    of their traces says which they are of, and how they are shown with it."""
    first = first_direction(exchange)
    traces = [*_held_up(exchange, connection), *_times(exchange, connection)]
    for way, stream, other in (
        ("down", exchange.down, exchange.up),
        ("up", exchange.up, exchange.down),
    ):
        of_way = [*sequence(stream, other, exchange.captures), *_outstanding(stream)]
        if way == "down":
            of_way += _cwnd(exchange)
        for trace in (*of_way, *_rates(stream, connection)):
            shown = trace.get("visible", True)
            traces.append(
                trace | {"meta": [way, shown], "visible": shown if way == first else False}
            )
    return {"data": traces, "layout": _layout(traces, connection)}


def first_direction(exchange: ConnectionPackets) -> str:
    """The way of more data, or without any of more packets."""
    down, up = (
        (stream.sent["size"].sum(), len(stream.sent)) for stream in (exchange.down, exchange.up)
    )
    return "up" if up > down else "down"


def limit_legend(exchange: ConnectionPackets) -> list[tuple[str, str, str]]:
    """(name, words, colour) of each limit in the first row."""
    there = set(exchange.intervals["limit"].tolist())
    return [
        (name.replace("_", " "), LIMITED[name], LIMIT_COLOURS[name])
        for code, name in enumerate(LIMITS)
        if code in there
    ]


def thinning_notes(exchange: ConnectionPackets) -> list[str]:
    """What is not figure_html whole at first, in words."""
    most = max((exchange.down.sent, exchange.up.sent), key=len)
    if len(most) <= MAX_DRAWN:
        return []
    return [
        f"There are {len(most):,} segments one way: where more than {MAX_DRAWN:,} of one kind are "
        "in view, some of them are left out, evenly; zoomed in, all are figure_html."
    ]


def _held_up(exchange: ConnectionPackets, connection: Connection) -> Iterator[Trace]:
    """What limited it, and below that its stalls: bars along the time."""
    for code, name in enumerate(LIMITS):
        mine = exchange.intervals[exchange.intervals["limit"] == code]
        if len(mine):
            words = f"{name.replace('_', ' ')}: {LIMITED[name]}"
            yield _bars("limit", mine["start"], mine["end"], LIMIT_COLOURS[name]) | {
                "name": name,
                "hovertemplate": "%{base:.3f} s, for %{x:.3f} s<br>" + words + "<extra></extra>",
            }
    stalls = connection.stalls
    if len(stalls):
        start, end = (seconds(stalls, name, connection) for name in ("start_ts", "end_ts"))
        yield _bars("stall", start, end, STALL) | {
            "name": "stall",
            "customdata": [_stall_words(row) for row in stalls.to_pylist()],
            "hovertemplate": "%{base:.3f} s, for %{x:.3f} s<br>%{customdata}<extra></extra>",
        }


def _bars(lane: str, start: np.ndarray, end: np.ndarray, colour: str) -> Trace:
    return placed("held_up") | {
        "type": "bar",
        "orientation": "h",
        "base": array(start),
        "x": array(end - start),
        "y": [lane] * len(start),
        "width": 0.86,
        "showlegend": False,
        "marker": {"color": colour, "line": {"width": 0}},
    }


def _stall_words(stall: dict[str, Any]) -> str:
    parts = [stall["class"].replace("_", " ")]
    if stall["interruption"]:
        parts.append(f"the link's interruption ({stall['interruption']})")
    parts.append(f"{stall['segments']} segments in flight")
    if stall["lost"] is not None:
        parts.append(f"{stall['lost']} of them lost")
    parts.append(f"ended by the {stall['ended_by']}")
    if stall["recovery"] is not None:
        parts.append(f"repaired after {stall['recovery']:.3f} s")
    return "<br>".join(parts)


def _outstanding(stream: Stream) -> Iterator[Trace]:
    """What is sent and not acknowledged, against what the other end's window lets through."""
    windows = stream.heard[~np.isnan(stream.heard["window"])]
    if len(windows):
        kept = windows[np.diff(windows["window"], prepend=-1.0) != 0]
        at = np.append(kept["at"], windows["at"][-1])
        size = np.append(kept["window"], windows["window"][-1])
        yield steps("outstanding", at, size, "window offered", WINDOW) | {
            "visible": window_visibility(stream)
        }
    if len(stream.outstanding):
        rows = stream.outstanding
        yield steps("outstanding", rows["at"], rows["bytes"], "outstanding", DATA) | {
            "fill": "tozeroy",
            "fillcolor": "rgba(48,71,94,0.13)",
        }


def _cwnd(exchange: ConnectionPackets) -> Iterator[Trace]:
    """The server's congestion window, as it is reckoned."""
    if len(exchange.cwnd):
        cwnd = exchange.cwnd
        at = np.append(cwnd["at"], exchange.intervals["end"].max(initial=cwnd["at"][-1]))
        size = np.append(cwnd["bytes"], cwnd["bytes"][-1])
        yield steps("outstanding", at, size, "cwnd, reckoned", CWND) | {
            "line": {"shape": "hv", "width": 1, "dash": "dot", "color": CWND}
        }


def _times(exchange: ConnectionPackets, connection: Connection) -> Iterator[Trace]:
    """Round trips on either side, the timeout, and where the timer went off."""
    trips = connection.rtt_samples
    ts, rtt = seconds(trips, "ts", connection), trips["rtt"].to_numpy()
    side, delayed = (
        np.array(trips["side"].to_pylist(), str),
        np.array(trips["delayed"].to_pylist(), bool),
    )
    for name, words, colour in (
        ("access", "RTT on the access side", ACCESS),
        ("internet", "RTT on the Internet side", INTERNET),
    ):
        for waited in (False, True):
            mine = (side == name) & (delayed == waited)
            if mine.any():
                text = words + (", delayed?" if waited else "")
                yield points("times", ts[mine], rtt[mine], text) | {
                    "mode": "markers",
                    "marker": {
                        "size": 5,
                        "color": colour,
                        "symbol": "circle-open" if waited else "circle",
                    },
                    "hovertemplate": "%{x:.3f} s<br>%{y:.3f} s " + text + "<extra></extra>",
                }
    rto_values = connection.rto_values
    at, rto = seconds(rto_values, "ts", connection), rto_values["rto"].to_numpy()
    if len(at):
        last = duration(connection)
        order = np.argsort(at, kind="stable")
        at, rto = at[order], rto[order]
        yield steps(
            "times", np.append(at, max(last, at[-1])), np.append(rto, rto[-1]),
            "timeout, reckoned", TIMER,
        )  # fmt: skip
        again = exchange.down.sent[exchange.down.sent["kind"] == KINDS.index("rto")]
        for spurious, words, symbol in (
            (False, "timer went off", "triangle-down"),
            (True, "timer went off too soon", "triangle-down-open"),
        ):
            mine = again[again["spurious_rto"] == spurious]
            if len(mine):
                level = rto[np.maximum(np.searchsorted(at, mine["at"], "right") - 1, 0)]
                yield points("times", mine["at"], level, words) | {
                    "mode": "markers",
                    "marker": {"symbol": symbol, "size": 9, "color": ACCESS},
                    **hover_text(mine, exchange.captures, words),
                }


def _rates(stream: Stream, connection: Connection) -> Iterator[Trace]:
    """What passes Gi, and what is acknowledged for the first time."""
    length = duration(connection)
    data = stream.sent[stream.sent["size"] > 0]
    if not len(data) or length <= 0:
        return
    width = _period(length)
    edges = np.arange(np.floor(length / width) + 2) * width
    passed = np.histogram(data["at"], edges, weights=data["size"])[0]
    yield _rate(edges, passed, f"passes Gi, per {width:g} s", DATA, width)
    if len(stream.heard) > 1:
        highest = np.maximum.accumulate(stream.heard["number"])
        gained = np.diff(highest, prepend=highest[0])
        arrived = np.histogram(stream.heard["at"], edges, weights=gained)[0]
        yield _rate(edges, arrived, "acknowledged", ACK_LINE, width)


def _period(seconds: float) -> float:
    """A round number of seconds of which there are about BINS, 0.1 s at least."""
    least = max(seconds / BINS, 0.1)
    unit = 10.0 ** np.floor(np.log10(least))
    return next(float(step * unit) for step in (1, 2, 5, 10) if step * unit >= least * 0.999)


def _rate(edges: np.ndarray, counts: np.ndarray, words: str, colour: str, width: float) -> Trace:
    rate = np.append(counts, counts[-1:]) * 8 / 1000 / width
    return steps("rate", edges, rate, words, colour) | {
        "hovertemplate": "from %{x:.1f} s on<br>%{y:,.1f} kbit/s " + words + "<extra></extra>"
    }


def _layout(traces: Sequence[Trace], connection: Connection) -> dict[str, Any]:
    """The rows that have something in them, from the top down; each has its legend beside it."""
    there = {trace["yaxis"] for trace in traces} | {ROWS["sequence"].axis}
    rows = [row for row in ROWS.values() if row.axis in there]
    inner = sum(row.height for row in rows) + GAP * (len(rows) - 1)
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
            "anchor": rows[-1].axis,
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
    for row in rows:
        axis = "yaxis" + row.axis[1:]
        layout[axis] = {
            "domain": [(top - row.height) / inner, top / inner],
            "title": {"text": row.title, "standoff": 16},
            "tickformat": "~s",
            "rangemode": "tozero",
            "gridcolor": GRID,
            "showgrid": True,
            "automargin": False,
        }
        layout[row.legend] = {
            "x": 1.008,
            "y": top / inner,
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 11.5},
            "traceorder": "normal",
            "tracegroupgap": 0,
            "itemsizing": "constant",
        }
        top -= row.height + GAP
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
    special = {"yaxis": lanes, "yaxis2": {"rangemode": "normal"}}
    special |= {axis: {"tickformat": "~g"} for axis in ("yaxis4", "yaxis5")}
    for axis, settings in special.items():
        if axis in layout:
            layout[axis] |= settings
    return layout


def _longest_stalls(connection: Connection) -> list[tuple[float, float]]:
    start, end = (seconds(connection.stalls, name, connection) for name in ("start_ts", "end_ts"))
    longest = np.argsort(start - end, kind="stable")[:MOST_SHADED]
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
