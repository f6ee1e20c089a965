"""Elements of a connection's graphs: their places, colours, arrays of points, lines."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.report.connection import Connection

Trace = dict[str, Any]

DATA, ACK_LINE, WINDOW, CWND = "#30475e", "#00795a", "#b58900", "#0067a3"
ACCESS, INTERNET, TIMER, STALL = "#c0302b", "#7d3fb0", "#5c5f66", "#5c5f66"
SACK, DSACK = "#7b4fb5", "#1f8fb8"
"""Colours of marks and lines."""


@dataclass(frozen=True)
class Graph:
    """A graph: height (px), title of its vertical axis, and Plotly's names of axis and legend."""

    height: int
    title: str
    axis: str
    legend: str


GRAPHS = {
    "limits": Graph(58, "", "y", "legend"),
    "sequence": Graph(430, "sequence number [B]", "y2", "legend2"),
    "in_flight": Graph(170, "in flight [B]", "y3", "legend3"),
    "times": Graph(200, "RTT, RTO [s]", "y4", "legend4"),
    "rate": Graph(120, "rate [kbit/s]", "y5", "legend5"),
}


def place_in(graph: str) -> Trace:
    """Return a trace's properties that place it in one of GRAPHS."""
    return {"xaxis": "x", "yaxis": GRAPHS[graph].axis, "legend": GRAPHS[graph].legend}


def points(graph: str, x: np.ndarray, y: np.ndarray, name: str) -> Trace:
    """Return a trace with points at float64[K] times (s) and values."""
    return place_in(graph) | {
        "type": "scatter",
        "x": typed_array(x),
        "y": typed_array(y),
        "name": name,
    }


def step_line(graph: str, x: np.ndarray, y: np.ndarray, name: str, colour: str) -> Trace:
    """Return a step line: each value holds until the next."""
    return points(graph, x, y, name) | {
        "mode": "lines" if len(x) > 1 else "markers",
        "marker": {"color": colour},
        "line": {"shape": "hv", "width": 1.3, "color": colour},
        "hovertemplate": "%{x:.3f} s<br>%{y:,.3~f} " + name + "<extra></extra>",
    }


def typed_array(values: np.ndarray) -> Trace:
    """Return numbers as Plotly's base64 array: exact, and shorter than text."""
    values = np.ascontiguousarray(values, "<f8")
    array: Trace = {"dtype": "f8", "bdata": b64encode(values.tobytes()).decode()}
    if values.ndim > 1:
        array["shape"] = ", ".join(map(str, values.shape))
    return array


def seconds(rows: pa.Table, name: str, connection: Connection) -> np.ndarray:
    """Return a column of times as seconds after the connection's first packet."""
    start = round(connection.flow["start_ts"].timestamp() * 1e6)
    return (rows[name].cast("int64").to_numpy() - start) / 1e6


def duration(connection: Connection) -> float:
    """Return the connection's duration (s)."""
    return (connection.flow["end_ts"] - connection.flow["start_ts"]).total_seconds()
