"""What the graphs of a connection are made of: where they stand, arrays of points, lines."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.report.connection import Connection

Trace = dict[str, Any]

DATA, ACK_LINE, WINDOW, CWND = "#30475e", "#00795a", "#b58900", "#0067a3"
ACCESS, INTERNET, TIMER, STALL = "#c0302b", "#7d3fb0", "#5c5f66", "#5c5f66"
REPORTED, TWICE = "#7b4fb5", "#1f8fb8"
"""Colours."""


@dataclass(frozen=True)
class Row:
    """One of the graphs: its height (px), what its axis says."""

    height: int
    title: str
    axis: str
    legend: str


ROWS = {
    "held_up": Row(58, "", "y", "legend"),
    "sequence": Row(430, "sequence number [B]", "y2", "legend2"),
    "outstanding": Row(170, "outstanding [B]", "y3", "legend3"),
    "times": Row(200, "round trip, timeout [s]", "y4", "legend4"),
    "rate": Row(120, "rate [kbit/s]", "y5", "legend5"),
}


def placed(row: str) -> Trace:
    """In which of ROWS a trace stands."""
    return {"xaxis": "x", "yaxis": ROWS[row].axis, "legend": ROWS[row].legend}


def points(row: str, x: np.ndarray, y: np.ndarray, name: str) -> Trace:
    """Points at float64[K] times (s) and values."""
    return placed(row) | {"type": "scatter", "x": array(x), "y": array(y), "name": name}


def steps(row: str, x: np.ndarray, y: np.ndarray, name: str, colour: str) -> Trace:
    """A line of values that each hold until the next."""
    return points(row, x, y, name) | {
        "mode": "lines" if len(x) > 1 else "markers",
        "marker": {"color": colour},
        "line": {"shape": "hv", "width": 1.3, "color": colour},
        "hovertemplate": "%{x:.3f} s<br>%{y:,.3~f} " + name + "<extra></extra>",
    }


def array(values: np.ndarray) -> Trace:
    """Numbers as Plotly's typed arrays: exact, and without a text for each."""
    values = np.ascontiguousarray(values, "<f8")
    compressed: Trace = {"dtype": "f8", "bdata": b64encode(values.tobytes()).decode()}
    if values.ndim > 1:
        compressed["shape"] = ", ".join(map(str, values.shape))
    return compressed


def seconds(rows: pa.Table, name: str, connection: Connection) -> np.ndarray:
    """A column of times, as seconds after the connection's first packet."""
    start = round(connection.flow["start_ts"].timestamp() * 1e6)
    return (rows[name].cast("int64").to_numpy() - start) / 1e6


def duration(connection: Connection) -> float:
    """How long the connection duration (s)."""
    return (connection.flow["end_ts"] - connection.flow["start_ts"]).total_seconds()
