"""The report's part on why transfers were slow: its numbers are those of the tables, and it says
so where there are none."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from conftest import DAY, NOON

from schemas import FLOWS, LINKS, RTO_VALUES, STALLS
from spark_jobs.figures.hours import grid_of, split_by_hours
from spark_jobs.figures.retransmissions_by_cause.figure import PAPER
from spark_jobs.figures.statistics import log_quantile
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs.marts import update_marts
from spark_jobs.report.build import write_report
from spark_jobs.report.selection import select
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.made_up import flow, publish
from tests.helpers.report_page import Page

SECTIONS = (
    "ecn",
    "pages",
    "limits",
    "windows",
    "rtt-by-flight",
    "largest-rtt",
    "queues",
    "retransmissions",
    "rto",
    "stalls",
    "interruptions",
    "worst-connections",
)


def text_of(warehouse: Warehouse, folder: Path) -> str:
    """Return the text of the page of a warehouse that has its flows."""
    update_marts(warehouse)
    return write_report(warehouse, folder / "report.html").read_text(encoding="utf-8")


def page_of(warehouse: Warehouse, folder: Path) -> Page:
    return Page(text_of(warehouse, folder))


@pytest.fixture(scope="module")
def page(demo, tmp_path_factory) -> Page:
    return page_of(demo.warehouse, tmp_path_factory.mktemp("why"))


def test_papers_values_are_shown_beside_ours(page):
    shown = page.row("retransmissions", "paper (GPRS, simulated): SACK", "", "")
    assert shown[1:3] == ["3.3 %", "1.7 %"]
    assert page.row("largest-rtt", "paper: buffer of 63 s, 1 slot")[5] == "48.0 s"


# ---- networks with incomplete tables ------------------------------------------------------------


NOTHING = dict.fromkeys(c.name for c in FLOWS.columns if not c.required) | {"initiator": "mobile"}


def at(hours: float) -> datetime:
    return datetime.fromtimestamp(NOON, UTC) + timedelta(hours=hours)


def test_sections_without_data_are_one_line(demo, warehouse, network, tmp_path):
    publish_network(warehouse, network)
    publish(warehouse, network.name, DAY, {FLOWS: [flow(demo, **NOTHING)]})
    text = text_of(warehouse, tmp_path)
    others = {"channel-rate-coverage", "table2", "fig08", "fig10", "fig03", "fig04", "fig09"}
    others |= {"fig11", "fig13", "quic-shares", "quic-setups", "quic-times"}
    assert text.count("No data for this section") == len(SECTIONS) + len(others)
    assert not (others | {*SECTIONS}) & {*Page(text).rows}


def test_values_of_two_users_are_not_shown(demo, warehouse, network, tmp_path):
    """Two users' links and RTO values; and a flush that was never recovered from."""
    flows = [flow(demo, flow_id=n, user=f"u{n}", sack=True, timestamps=True) for n in range(2)]
    rto_value = dict.fromkeys(RTO_VALUES.arrow.names) | {
        "rule": "linux",
        "backed_off": False,
        "rto": 1.0,
        "duration": 1.0,
    }
    link = dict.fromkeys(LINKS.arrow.names) | {"hour": at(-2), "rtt_samples": 9, "rtt_max": 3.0}
    stall = dict.fromkeys(STALLS.arrow.names) | {
        "flow_id": 0, "start_ts": at(-2), "end_ts": at(-1.99), "class": "continuous_loss",
        "interruption": "flush", "ended_by": "server", "segments": 9, "slow_start": True,
    }  # fmt: skip
    tables = {
        FLOWS: [one | {"start_ts": at(-2), "end_ts": at(-1)} for one in flows],
        RTO_VALUES: [rto_value | {"flow_id": n, "ts": at(-2)} for n in (0, 0, 0, 1, 1, 1)],
        LINKS: [link | {"user": f"u{n}", "link": f"u{n}", "rtt_min": 1.0} for n in range(2)],
        STALLS: [stall],
    }
    publish_network(warehouse, network)
    publish(warehouse, network.name, DAY, tables)
    page, dash = page_of(warehouse, tmp_path), "\N{EN DASH}"
    assert page.row("rto", network.name, "peak", "SACK and timestamps") == [
        "6",
        *["too few"] * 5,
        dash,
        "too few",
    ]
    assert page.row("largest-rtt", network.name, "peak")[:5] == ["2", *["too few"] * 4]
    shown = page.row("interruptions", network.name, "peak", "flush (preemption)", "server, by data")
    assert shown == ["1", "1", *["too few"] * 3, *[dash] * 3]


def test_hours_of_networks_are_split_and_have_axes_of_their_own(demo):
    selection = select(demo.warehouse, None, None, None)
    rows = [
        {"network": "aa-gprs", "period": period} for period in ("other", "off_peak", "peak")
    ] + [{"network": "bb-gprs", "period": "other"}]  # fmt: skip
    found = split_by_hours(selection, rows)
    assert [hours.name for hours in found] == ["aa-gprs peak", "aa-gprs off-peak", "bb-gprs other"]
    titles, places = grid_of(found)
    assert titles == [
        ["aa-gprs peak", "aa-gprs off-peak", "aa-gprs other"],
        ["bb-gprs peak", "bb-gprs off-peak", "bb-gprs other"],
    ]
    assert [places[hours.name] for hours in found] == [(0, 0), (0, 1), (1, 2)]


def test_quantile_of_logarithmic_bins_is_interpolated():
    """Half of ten samples lie below e: eight in the bin from there on, from its beginning three
    eighths; a bin may have several rows, and a row no weight."""
    rows = np.array([[10, 5], [0, 2], [9, 0], [10, 3]], float)
    assert log_quantile(rows, 0.5) == pytest.approx(np.exp(1 + 0.1 * 3 / 8))
    assert log_quantile(np.zeros((0, 2)), 0.5) is None


def test_shares_quoted_from_the_paper_add_up_to_its_totals():
    """The study of options gives totals, too: 14.23, 5.03, 15.78 and 12.21 %."""
    totals = [round(100 * (data + timer), 2) for data, timer in PAPER.values()]
    assert totals == [14.23, 5.03, 15.78, 12.21]
