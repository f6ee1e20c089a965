"""Each figure, as the report and the dashboards show it, against the tables.

Other tests compare with the tables:

- peak against off-peak: test_differences_are_those_of_the_flows (tests/report/test_compare.py),
  test_of_the_demo (tests/dashboards/test_peak.py)
- peaks of Fig. 7: test_intervals_of_fig07_agree_with_resampled_users (tests/report/test_report.py)
- effects of options: tests/report/test_option_effects.py
- held days: test_page_lists_days_that_are_held_back (tests/report/test_compare.py),
  test_held_days_are_shown_with_reasons_and_so_is_that_there_are_none, test_every_day_has_a_state
  (tests/dashboards/test_assets.py)
- suppressed groups: tests/jobs/test_suppressed_groups.py
"""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from schemas import (
    CHANNEL_RATES,
    INGEST_LOG,
    LINKS,
    QUIC_FLOWS,
    QUIC_SETUP_CLASSES,
    RETRANSMISSIONS,
    RTO_VALUES,
    RTT_SAMPLES,
    STALLS,
)
from schemas.flows import LIMITS
from spark_jobs.figures.fig03_setup_delay.numbers import CATEGORIES
from spark_jobs.figures.fig04_round_trip_time.numbers import SIDES
from spark_jobs.figures.fig08_bottleneck.figure import FIGURE as FIG_8
from spark_jobs.figures.fig10_throughput_by_loss.figure import CLASSES
from spark_jobs.figures.fig10_throughput_by_loss.figure import FIGURE as FIG_10
from spark_jobs.figures.fig13_user_throughput.numbers import LEVELS
from spark_jobs.figures.limits_by_window.numbers import LIMIT_LABELS
from spark_jobs.figures.quic_beside_tcp.numbers import SETUP_CLASSES, SPIN_LABELS, TIME_LABELS
from spark_jobs.figures.recovery_by_restart.figure import INTERRUPTIONS, RESTARTED_BY
from spark_jobs.figures.retransmissions_by_cause.numbers import CAUSE_LABELS, TIMER_CAUSES
from spark_jobs.figures.rto_by_options.dashboard import RTO_DISTRIBUTION
from spark_jobs.figures.stalls_by_class.numbers import STALL_LABELS
from tests.helpers.report_and_dashboards import (
    CONNECTION,
    ReportAndDashboards,
    Shown,
    chart_named,
)
from tests.helpers.report_page import shows, value, value_and_interval

Value = Callable[[pd.DataFrame], float]
IsBelow = Callable[[pd.DataFrame, float], pd.Series]
ALL_HOURS, BY_HOURS = ["network"], ["network", "hours"]


def agree(
    rows: pd.DataFrame, keys: list[str], expected: Value, shown: Shown | pd.Series, rel: float = 0
) -> None:
    """Assert that what is shown, as texts or numbers, of each group of rows is its expected value.

    keys: columns of the groups; of those, what is shown is a function, or they are its index. What
    is not shown is of few users. rel: by how much texts may differ, if not by rounding only.
    """
    compared = 0
    for key, part in rows.groupby(keys):
        if isinstance(shown, pd.Series):
            found = shown.get(key if len(keys) > 1 else key[0])
        else:
            found = shown(*key)
        if found is None or found == "too few" or found != found:
            assert part["user"].nunique() < 8, (key, len(part))
            continue
        compared += 1
        if isinstance(found, str) and rel:
            assert value(found) == pytest.approx(expected(part), rel), key
        elif isinstance(found, str):
            assert shows(found, expected(part)), (key, found, expected(part))
        else:
            assert found == pytest.approx(expected(part), rel=1e-6, abs=1e-9), key
    assert compared >= 3


def agree_below(
    rows: pd.DataFrame, keys: list[str], is_below: IsBelow, shown: pd.Series, weight: str = ""
) -> None:
    """Assert that of each group of rows the share below an edge, about the median, is shown.

    is_below: of the rows and an edge. shown: shares of a cumulative distribution by edge and keys.
    weight: column of the rows' weights.
    """
    groups, compared = dict(list(rows.groupby(keys))), 0
    for key, curve in shown.dropna().groupby(level=keys):
        below = curve.droplevel(keys).sort_index().cumsum()
        edge = below.index[below >= 0.5][0]
        weights = groups[key][weight] if weight else pd.Series(1, groups[key].index)
        expected = weights[is_below(groups[key], edge)].sum() / weights.sum()
        assert below[edge] == pytest.approx(expected), key
        compared += 1
    assert compared >= 3


def shares(sums: pd.Series) -> pd.Series:
    """Return each sum by network, hours and label in % of those of network and hours."""
    sums = sums.astype(float)
    return 100 * sums / sums.groupby(level=BY_HOURS).transform("sum")


def usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of peak and off-peak, the only ones in the report's sections by hours."""
    return rows[rows["hours"] != "other"]


def is_true(column: pd.Series) -> pd.Series:
    """Return whether the values are true, not false or null."""
    return column.eq(True)


LINK = re.compile(r'<a href="http://127.0.0.1:8765(/connections/[^/]+/[^/]+/(\d+))".*>\2</a>')
"""A link to a connection's page on a dashboard: its path, and the connection's ID."""


def seconds_of(rows: pd.DataFrame) -> pd.Series:
    return (rows["end_ts"] - rows["start_ts"]).dt.total_seconds()


def mean_of(column: str, scale: float = 1) -> Value:
    return lambda rows: scale * rows[column].mean()


def median_of(column: str, scale: float = 1) -> Value:
    return lambda rows: scale * rows[column].quantile(0.5, "lower")


def ratio_of(part: str, whole: str, scale: float = 1) -> Value:
    return lambda rows: scale * rows[part].sum() / rows[whole].sum()


def test_table_1_is_of_the_flows(pages):
    flows = pages.flows.assign(sack=is_true(pages.flows["sack"]))
    sack, size = mean_of("sack", 100), len
    agree(flows, ALL_HOURS, sack, pages.printed_by_network("table1", "SACK enabled"))
    agree(flows, BY_HOURS, sack, pages.chart("Table I. Summary", "sack", *BY_HOURS))
    hours = ["network", "hour"]
    agree(flows, hours, size, pages.chart("TCP connections by local hour", "flows", *hours))


def test_fig03_is_of_the_flows(pages):
    flows = pages.flows.dropna(subset="setup_delay")
    single = (flows["syn_count"] == 1) & (flows["synack_count"] == 1)
    labels = {category: label for label, category in CATEGORIES.items()}
    pairs = zip(single, flows["setup_background"], strict=True)
    flows = flows.assign(category=[labels[pair] for pair in pairs])
    delay, keys = mean_of("setup_delay", 1000), ["network", "category"]
    overall = flows.assign(category="overall")
    for shown in (overall, flows):
        agree(shown, keys, delay, pages.printed("fig03", cell=1))
        agree(shown, keys, median_of("setup_delay", 1000), pages.printed("fig03", cell=2), 0.02)
    first = flows.assign(first=flows["category"] == next(iter(CATEGORIES)))
    shown = {
        row[0]: row[2] for row in pages.page.rows["fig03"] if row[1].replace(",", "").isdigit()
    }
    agree(first, ALL_HOURS, mean_of("first", 100), shown.get)
    shown = pages.chart("Fig. 3. Mean", "mean_delay", *keys, "hours")
    agree(flows, [*keys, "hours"], delay, 1000 * shown)


@pytest.mark.parametrize("side", ["access", "internet"])
def test_fig04_is_of_the_flows(pages, side):
    rtt, x = f"rtt_{side}", "rtt_ms_below"
    flows, keys = pages.flows.dropna(subset=rtt).assign(side=SIDES[side]), [*BY_HOURS, "side"]
    agree(usual(flows), keys, mean_of(rtt, 1000), pages.printed("fig04", cell=1))
    agree(usual(flows), keys, median_of(rtt, 1000), pages.printed("fig04", cell=3), 0.02)
    shown = pages.chart(f"Fig. 4. CDF of the RTT. {side.title()}", "share", x, *BY_HOURS)

    def is_below(flows, edge):
        return np.floor(100 * flows[rtt]) < round(edge / 10)

    agree_below(flows, BY_HOURS, is_below, shown)


def test_fig05_is_of_the_flows(pages):
    area, node = "optimal: 1 SYN, 1 SYN ACK", "\N{EM SPACE}" * 2 + "Optimal: 1 SYN, 1 SYN ACK"
    flows = pages.flows.dropna(subset="setup_class")
    flows = flows.assign(optimal=flows["setup_class"] == "optimal")
    optimal = flows[flows["optimal"]]
    share, delay = mean_of("optimal", 100), mean_of("setup_delay", 1000)
    agree(flows, ALL_HOURS, share, pages.printed("fig05", node, cell=1))
    agree(optimal, ALL_HOURS, delay, pages.printed("fig05", node, cell=2))
    drawn = shares(pages.chart("Fig. 5. Connection set-up cat", "flows", "area", *BY_HOURS))
    agree(flows, BY_HOURS, share, drawn[area])
    texts = pages.chart("Fig. 5. Mean", "mean_delay", "area", "background", *BY_HOURS)
    alone = optimal[~is_true(optimal["setup_background"])]
    agree(alone, BY_HOURS, delay, texts[area, "no background"])


def agree_with_rates(
    rows: pd.DataFrame, column: str, shown: pd.Series, keys: list[str], weight: str = ""
) -> None:
    """Assert that cumulative distributions of rates are right at each edge, to 1 % of the rate.

    shown: shares by keys and edge (kbit/s). Beyond the last edge but one, all rates count as the
    last.
    """
    groups, compared = dict(list(rows.groupby(keys))), 0
    for key, curve in shown.dropna().groupby(level=keys):
        below = curve.droplevel(keys).sort_index().cumsum()
        part = groups[key].sort_values(column)
        weights = part[weight] if weight else pd.Series(1.0, part.index)
        share = np.concatenate([[0], weights.cumsum() / weights.sum()])
        for edge, found in below.iloc[:-1].items():
            low, high = (
                share[np.searchsorted(part[column], 1000 * edge * factor)]
                for factor in (0.9899, 1.0101)
            )
            assert low - 1e-9 <= found <= high + 1e-9, (key, edge)
            compared += 1
        assert below.iloc[-1] == pytest.approx(1)
    assert compared >= 50


def test_fig07_is_of_the_channel_rates(pages):
    rates = pages.table(CHANNEL_RATES)
    rates = rates.assign(seconds=seconds_of(rates)).sort_values("rate")
    median = pages.printed("fig07", cell=3, columns=7)
    for network, part in rates.groupby("network"):
        half = np.searchsorted(part["seconds"].cumsum(), part["seconds"].sum() / 2)
        assert value(median(network)) == pytest.approx(part["rate"].iloc[half] / 1000, rel=0.02)
    agree(
        rates, BY_HOURS, lambda rates: 0.008 * rates["ip_bytes"].sum() / rates["seconds"].sum(),
        pages.chart("Fig. 7. Measured", "channel_rate", *BY_HOURS),
    )  # fmt: skip
    shown = pages.chart("Fig. 7. Channel rate, peak", "share", "rate_kbps_below", *BY_HOURS)
    agree_with_rates(rates, "rate", shown, BY_HOURS, "seconds")


def test_channel_rate_coverage_is_of_the_flows(pages):
    flows = pages.flows[pages.flows["payload_bytes_down"] > 102400]
    rated = flows["flow_id"].isin(pages.table(CHANNEL_RATES)["flow_id"])
    flows = flows.assign(
        rated_bytes=flows["ip_bytes_down"].where(rated, 0),
        window=flows["window_class"].fillna("unknown"),
    )
    share, keys = ratio_of("rated_bytes", "ip_bytes_down", 100), ["network", "window"]
    agree(flows, keys, share, pages.printed("channel-rate-coverage", cell=3))
    texts = pages.chart("Fig. 7. Traffic with a known", "rated_bytes", *keys, "hours")
    agree(flows, [*keys, "hours"], share, texts)


def test_table_2_is_of_the_flows(pages):
    flows = pages.flows[pages.flows["lost_access"].notna() & (pages.flows["data_packets_down"] > 0)]
    flows = flows.assign(sent=flows["data_packets_down"] + flows["lost_internet_expected"])
    for side, packets in (("access", "data_packets_down"), ("internet", "sent")):
        loss = ratio_of(f"lost_{side}_expected", packets, 100)
        label = f"loss on the {side.replace('i', 'I')} side"
        agree(flows, ALL_HOURS, loss, pages.printed_by_network("table2", label))
        texts = pages.chart("Table II. Packet loss, w", f"{side}_loss", *BY_HOURS)
        agree(flows, BY_HOURS, loss, texts)


def test_fig08_is_of_the_flows(pages):
    flows = pages.flows.dropna(subset="bottleneck")
    flows = flows.assign(access=flows["bottleneck"] == "access")
    share = mean_of("access", 100)
    agree(flows, ALL_HOURS, share, pages.printed("fig08", cell=2))
    drawn = shares(pages.chart(f"{FIG_8.title}: s", "amount_of_series", "part", *BY_HOURS))
    agree(flows, BY_HOURS, share, drawn["more on the access side"])


COUNTED = (("", "passed Gi", ""), ("_received", "arrived", " of bytes that arrived"))
"""Suffix of a rate's column, and label and title of the bytes that it counts."""


def agree_with_quantiles(
    flows: pd.DataFrame, keys: list[str], rate: str, pages: ReportAndDashboards, anchor: str
) -> None:
    """Assert that quantiles are those of the flows to 1 %, within their intervals and range."""
    for cell, level in ((2, 0.1), (3, 0.5), (4, 0.9)):

        def exact(flows: pd.DataFrame, level: float = level) -> float:
            return flows[rate].quantile(level) / 1000

        printed = pages.printed(anchor, cell=cell)
        agree(flows, keys, exact, printed, 0.01)
        for key, part in flows.groupby(keys):
            text = printed(*key)
            if text and text != "too few":
                found, low, high = value_and_interval(text)
                rounding = 0.0005 * found
                assert low - rounding <= exact(part) <= high + rounding, (key, text)
                assert found <= high <= part[rate].max() / 1000 + rounding, (key, text)


@pytest.mark.parametrize(("suffix", "counted", "title"), COUNTED)
def test_fig09_is_of_the_flows(pages, suffix, counted, title):
    rate, keys = f"throughput{suffix}", ["network", "counted"]
    flows = pages.flows.dropna(subset=rate).assign(counted=counted)
    agree(flows, keys, mean_of(rate, 0.001), pages.printed("fig09", cell=1))
    agree_with_quantiles(flows, keys, rate, pages, "fig09")
    shown = pages.chart(f"Fig. 9. Throughput{title}, peak", "share", "rate_kbps_below", *BY_HOURS)
    agree_with_rates(flows, rate, shown, BY_HOURS)


def test_fig10_is_of_the_flows(pages):
    flows = pages.flows.dropna(subset=["throughput", "goodput", "lost_access"])
    flows = flows[is_true(flows["single"]) & is_true(flows["request_response"])]
    lost = flows["lost_access_expected"] + flows["lost_internet_expected"]
    loss = 100 * lost / (flows["data_packets_down"] + flows["lost_internet_expected"])
    flows = flows.assign(loss=np.minimum(loss, 3).astype(int).map(CLASSES))
    keys = ["loss", *BY_HOURS]
    for cell, (column, metric, title) in enumerate((
        ("throughput", "throughput", "throughput at Gi"),
        ("throughput_received", "received", "throughput at the mobile"),
        ("goodput", "goodput", "goodput"),
    ), 1):  # fmt: skip
        rate = mean_of(column, 0.001)
        agree(flows, ["network", "loss"], rate, pages.printed("fig10", cell=cell))
        agree(flows, keys, rate, pages.chart(f"{FIG_10.title}: {title}", metric, *keys))


def test_fig11_is_of_the_flows(pages):
    flows = pages.flows.dropna(subset="user_throughput")
    share = flows["b_tcp"] / (flows["b_tcp"] + flows["b_other"])
    flows = flows.assign(second_third=(share >= 1 / 3) & (share < 2 / 3), most=share >= 0.95)
    printed = pages.printed_by_network("fig11", "1/3 to 2/3")
    agree(flows, ALL_HOURS, mean_of("second_third", 100), printed)
    drawn = shares(pages.chart("Fig. 11.", "flows_of_series", "tcp_share", *BY_HOURS))
    agree(flows, BY_HOURS, mean_of("most", 100), drawn[0.95])


@pytest.mark.parametrize(("suffix", "counted", "title"), COUNTED)
def test_fig13_is_of_the_flows(pages, suffix, counted, title):
    rate, keys = f"user_throughput{suffix}", ["level", *BY_HOURS]
    flows = pages.flows.dropna(subset=rate)
    background = flows["b_other"] / (flows["b_tcp"] + flows["b_other"])
    levels = np.minimum(3 * background, 2).astype(int).map(LEVELS)
    flows = flows.assign(level=levels, counted=counted)
    printed, kbits = ["network", "level", "counted"], mean_of(rate, 0.001)
    agree(flows, printed, kbits, pages.printed("fig13", cell=1))
    agree_with_quantiles(flows, printed, rate, pages, "fig13")
    if not title:
        shown = pages.chart("Fig. 13. User throughput, peak", "share", "rate_kbps_below", *BY_HOURS)
        agree_with_rates(flows, rate, shown, BY_HOURS)
    title = f"Fig. 13. Mean user throughput{title or ' by'}"
    agree(flows, keys, kbits, pages.chart(title, "user_throughput", *keys))


def test_table_3_is_of_the_flows(pages):
    flows = pages.flows.dropna(subset=["goodput", "mss_class", "window_class", "sack"])
    flows = flows[is_true(flows["single"]) & is_true(flows["request_response"])]
    flows = flows[flows["payload_bytes_down"] > 32768]
    access = {network.name: network.access for network in pages.selection.networks}
    flows = flows.assign(
        option=np.where(is_true(flows["sack"]), "SACK", "no SACK"),
        access=flows["network"].map(access),
    )

    def printed(access, option):
        rows = pages.page.rows[f"table3-{access}"]
        return next(row for row in rows if row[0] == option)[1:]

    def deviation(flows):
        return flows["goodput"].std() / 1000

    rate, title, keys = (
        mean_of("goodput", 0.001),
        "Table III. Goodput by TCP options, w",
        ["option", *BY_HOURS],
    )
    agree(flows, ["access", "option"], rate, lambda *key: printed(*key)[0])
    agree(flows, ["access", "option"], deviation, lambda *key: printed(*key)[1])
    agree(flows, keys, rate, pages.chart(title, "goodput", *keys))
    agree(flows, keys, deviation, pages.chart(title, "deviation", *keys))


DOWN = "IP bytes to the mobile [kB]"


def both_protocols(pages: ReportAndDashboards) -> pd.DataFrame:
    """Return the connections of both protocols in the usual hours; partial ones are left out."""
    quic = pages.table(QUIC_FLOWS)
    rows = {"TCP": pages.flows, "QUIC": quic[quic["begin_seen"]]}
    return pd.concat([usual(rows[name]).assign(protocol=name) for name in rows], ignore_index=True)


def test_quic_is_of_both_tables(pages):
    """These captures of the demo have no QUIC: its sections are empty and say so."""
    if not pages.warehouse.files(QUIC_FLOWS):
        found = {name for name in pages.sections if name.startswith("quic")}
        assert found == {"quic-shares", "quic-setups", "quic-times"}
        assert not found & {*pages.page.rows, *pages.plots}
        return
    flows = both_protocols(pages)
    for label, column in (("connections", None), (DOWN, "ip_bytes_down")):
        whole = flows[column] if column else 1
        sums = flows.assign(whole=whole, quic=whole * (flows["protocol"] == "QUIC"))
        printed = pages.printed("quic-shares", cell=3)
        share = ratio_of("quic", "whole", 100)
        agree(sums.assign(label=label), [*BY_HOURS, "label"], share, printed)
    keys = [*BY_HOURS, "protocol"]
    setups = flows.dropna(subset="setup_class")
    drawn = pages.chart("QUIC beside TCP: set-ups: share", "amount_of_series", "part", "series")
    for cell, (name, of) in enumerate(SETUP_CLASSES.items(), 1):
        found = setups.assign(found=setups["setup_class"] == name)
        printed = pages.printed("quic-setups", cell=cell)
        agree(found[found["protocol"].isin(of.protocols)], keys, mean_of("found", 100), printed)
        if of.protocols == ("TCP",):
            assert printed("dd-umts", "peak", "QUIC") == "\N{EN DASH}"
            assert drawn[of.label].filter(like=", QUIC").sum() == 0
    agree(setups, keys, len, lambda *key: drawn.groupby("series").sum()["{}, {}, {}".format(*key)])
    keys = [*BY_HOURS, "time", "protocol"]
    for column, label in TIME_LABELS.items():
        times = flows.dropna(subset=column).assign(time=label)
        agree(times, keys, mean_of(column, 1000), pages.printed("quic-times", cell=1))
        many = times.groupby(keys).filter(lambda rows: len(rows) >= 100)
        median = median_of(column, 1000)
        agree(many, keys, median, pages.printed("quic-times", cell=3), 0.02)
        shown = pages.chart("QUIC beside TCP: times, with", "quantile_1", *keys)
        agree(many, keys, median, shown, 0.02)


def test_spin_bits_are_of_the_quic_flows(pages):
    if not pages.warehouse.files(QUIC_FLOWS):
        return
    flows = both_protocols(pages).dropna(subset="spin")
    spinning = flows[flows["spin"] == "spins"].dropna(subset="spin_rtt_median")
    median = pages.printed("quic-times", cell=3, columns=7)
    agree(spinning, BY_HOURS, median_of("spin_rtt_median", 1000), median, 0.02)
    for cell, name in enumerate(SPIN_LABELS, 1):
        found = flows.assign(found=flows["spin"] == name)
        printed = pages.printed("quic-times", cell=cell, columns=3 + len(SPIN_LABELS))
        agree(found, BY_HOURS, mean_of("found", 100), printed)


def test_setups_of_quic_have_all_categories_of_the_table():
    of_quic = {name for name, of in SETUP_CLASSES.items() if "QUIC" in of.protocols}
    assert of_quic == {*QUIC_SETUP_CLASSES}


def test_limits_are_of_the_flows(pages):
    flows = usual(pages.flows.dropna(subset="limited_channel"))
    flows = flows.assign(time=flows[[f"limited_{limit}" for limit in LIMITS]].sum(axis=1))
    drawn = shares(pages.chart("Limits of transfers: s", "amount_of_series", "part", *BY_HOURS))
    for cell, (limit, label) in enumerate(LIMIT_LABELS.items(), 2):
        share = ratio_of(f"limited_{limit}", "time", 100)
        agree(flows, BY_HOURS, share, pages.printed("limits", cell=cell))
        agree(flows, BY_HOURS, share, drawn[label])


def test_throughput_by_window_is_of_the_flows(pages):
    flows = usual(pages.flows.dropna(subset=["limited_channel", "user_throughput"]))
    flows = flows[flows["payload_bytes_down"] > flows["max_ip_len"]]
    mss = flows["max_ip_len"] - np.where(flows["server"].str.contains(":"), 60, 40)
    window = 2 ** np.floor(np.log2(np.floor(flows["max_window"] / mss + 0.5)))
    flows = flows.assign(
        mss_class=np.where(mss < 700, "small", np.where(mss < 1200, "medium", "large")),
        parallels=np.where(flows["parallel"] > 1, "parallel connections", "one connection"),
        window_segments=window.astype(int),
        printed_window=window.map("{:,.0f}".format),
    )
    flows["segment"] = flows["mss_class"] + ", " + flows["hours"]
    rate = mean_of("user_throughput", 0.001)
    printed = pages.printed("windows", cell=1)
    agree(flows, [*BY_HOURS, "mss_class", "parallels", "printed_window"], rate, printed)
    keys = ["window_segments", "segment"]
    for title, one in (("one", True), ("sev", False)):
        shown = pages.chart(f"User throughput by window and MSS, {title}", "throughput", *keys)
        agree(flows[(flows["parallel"] == 1) == one], keys, rate, shown)


def test_rtt_by_flight_is_of_the_rtt_samples(pages):
    samples = pages.with_flows(pages.table(RTT_SAMPLES, "ts"))
    samples = samples[samples["side"] == "access"]
    samples = samples[~is_true(samples["delayed"]) | (samples["flight"] >= 4096)]
    edges = np.array(sorted({int(2 ** (k / 2)) for k in range(60)}))
    bins = np.searchsorted(edges, samples["flight"].to_numpy().copy(), "right") - 1
    keys = ["flight", *BY_HOURS]
    rtt = mean_of("rtt")
    every, texts = usual(samples).assign(flight="all"), [*BY_HOURS, "flight"]
    agree(every, texts, rtt, pages.printed("rtt-by-flight", cell=1))
    samples = samples.assign(flight=edges[bins])
    agree(samples, keys, rtt, pages.chart("Mean RTT on the access side", "rtt", *keys))
    by_size = usual(samples).assign(flight=samples["flight"].map("{:,}".format))
    agree(by_size, texts, rtt, pages.printed("rtt-by-flight", cell=1))


def test_largest_rtts_are_of_the_links(pages):
    """To the edges of the bins, which are within 1 % of 1, 5, 10 and 30 s."""
    links = usual(pages.table(LINKS, "hour").dropna(subset="rtt_max"))
    drawn = 100 * pages.chart("Users with RTTs", "share", "above", *BY_HOURS)
    for cell, limit in enumerate((1, 5, 10, 30), 5):
        edge = np.exp(round(10 * np.log(limit)) / 10)
        longer = links.assign(longer=links["rtt_max"] >= edge)
        printed = pages.printed("largest-rtt", cell=cell, columns=11)
        agree(longer, BY_HOURS, mean_of("longer", 100), printed)
        agree(longer, BY_HOURS, mean_of("longer", 100), drawn[limit])
    longest = pages.printed("largest-rtt", cell=4, columns=11)
    agree(links, BY_HOURS, lambda links: links["rtt_max"].max(), longest, 0.01)


OPTIONS = [*BY_HOURS, "options"]


def with_options(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with known options, with the pair that their connection uses."""
    rows = rows.dropna(subset=["sack", "timestamps"])
    sack, timestamps = is_true(rows["sack"]), is_true(rows["timestamps"])
    either = np.where(timestamps, "timestamps", np.where(sack, "SACK", "neither"))
    return rows.assign(options=np.where(sack & timestamps, "SACK and timestamps", either))


def test_retransmissions_are_of_the_table(pages):
    flows = pages.flows.dropna(subset="retransmissions").set_index(CONNECTION, drop=False)
    again = pages.table(RETRANSMISSIONS, "ts").set_index(CONNECTION)
    again = again[(again["cause"] != "synack") & ~is_true(again["new_data"])]
    causes, spurious = again["cause"].fillna("unknown"), again["needed"].eq(False)

    def with_part(which: pd.Series) -> pd.DataFrame:
        """Return the connections with the number of their chosen retransmissions."""
        counts = again[which].groupby(level=CONNECTION).size()
        return flows.assign(part=counts.reindex(flows.index, fill_value=0)).reset_index(drop=True)

    share = ratio_of("part", "data_packets_down", 100)
    drawn = 100 * pages.chart("Retransmissions by cause;", "share", "cause", *BY_HOURS)
    for cause, label in CAUSE_LABELS.items():
        for is_spurious, suffix in ((False, ""), (True, ", spurious")):
            of_cause = with_part((causes == cause) & (spurious == is_spurious))
            agree(of_cause, BY_HOURS, share, drawn[label + suffix])
    by_options = with_options(with_part(causes.isin(TIMER_CAUSES)))
    agree(usual(by_options), OPTIONS, share, pages.printed("retransmissions", cell=2))
    texts = pages.chart("Retransmissions by cause and TCP", "timer", *OPTIONS)
    agree(by_options, OPTIONS, share, texts)


def test_rtos_are_of_the_table(pages):
    rtos = with_options(pages.with_flows(pages.table(RTO_VALUES, "ts"), "sack", "timestamps"))
    is_backed_off = is_true(rtos["backed_off"])
    rtos = rtos.assign(backed_off=rtos["duration"].where(is_backed_off, 0))
    share = ratio_of("backed_off", "duration", 100)
    agree(usual(rtos), OPTIONS, share, pages.printed("rto", cell=7))

    def is_below(rtos, edge):
        return np.floor(10 * np.log(rtos["rto"])) < round(10 * np.log(edge))

    shown = pd.concat({
        hours: pages.chart(f"RTO by TCP options, {hours}", "share", "options", "rto_below")
        for hours in ("peak", "off-peak")
    })  # fmt: skip
    shown.index.names = ["hours", "options", "rto_below"]
    agree_below(rtos[~is_backed_off], ["hours", "options"], is_below, shown, "duration")
    by_hours = usual(rtos[~is_backed_off]).groupby(["hours", "options"])["duration"].sum()
    rows = pages.selection.rows(RTO_DISTRIBUTION.sql)
    drawn = pd.DataFrame(rows).groupby(["hours", "options"])["seconds"].sum()
    assert dict(drawn.drop("other", errors="ignore")) == pytest.approx(dict(by_hours))
    assert 54 < max(row["rto_below"] or 0 for row in rows) <= 60


def test_stalls_are_of_the_table(pages):
    stalls = pages.with_flows(pages.table(STALLS))
    stalls = stalls.assign(seconds=seconds_of(stalls), cause=stalls["class"].str.replace("_", " "))
    duration, keys = mean_of("seconds"), ["cause", *BY_HOURS]
    agree(usual(stalls), [*BY_HOURS, "cause"], duration, pages.printed("stalls", cell=3))
    shown = pages.chart("Causes of stalls: n", "mean", "class", *BY_HOURS)
    agree(stalls, keys, duration, shown)
    drawn = shares(pages.chart("Causes of stalls: s", "seconds_of_series", "class", *BY_HOURS))
    totals = stalls.groupby(BY_HOURS)["seconds"].transform("sum")
    stalls["share"] = 100 * stalls["seconds"] / totals
    agree(stalls, keys, lambda stalls: stalls["share"].sum(), drawn)


def test_recoveries_are_of_the_stalls(pages):
    stalls = pages.with_flows(pages.table(STALLS))
    stalls = stalls[stalls["segments"] > 0]
    stalls = stalls.assign(
        interruption=stalls["interruption"].map(INTERRUPTIONS).fillna("none"),
        ended_by=stalls["ended_by"].map(RESTARTED_BY),
    )
    keys, share = [*BY_HOURS, "interruption", "ended_by"], ratio_of("lost", "segments", 100)
    for cell, metric, expected in ((4, "lost", share), (5, "recovery", mean_of("recovery"))):
        agree(usual(stalls), keys, expected, pages.printed("interruptions", cell=cell))
        agree(stalls, keys, expected, pages.chart("Interruptions of the link", metric, *keys))


def test_examples_are_the_connections_delayed_most(pages):
    """On the report for each cause; on the dashboard for each cause in each hour."""
    stalls = pages.table(STALLS).drop(columns=["hour", "hours"])
    stalls = pages.with_flows(stalls, "hour", "initiator")
    stalls = stalls[stalls["initiator"] == "mobile"]
    causes = "stall: " + stalls["class"].map(STALL_LABELS)
    parts = [stalls.assign(cause=causes, seconds=seconds_of(stalls))]
    for limit, label in LIMIT_LABELS.items():
        flows = pages.flows[pages.flows["limited_by"] == limit]
        parts.append(flows.assign(cause=f"limit: {label}", seconds=flows[f"limited_{limit}"]))
    delayed = pd.concat(parts)
    at = ["network", "date", "hour", "cause"]
    delays = delayed.groupby([*at, "flow_id"])["seconds"].sum()
    longest = delays.groupby(at).max()
    rows = pages.selection.rows(chart_named("Examples").dataset.sql)
    assert len(rows) == len(longest)
    assert not {"user", "server", "user_port"} & {*rows[0]}
    for row in rows:
        key = row["network"], str(row["date"]), row["hour"], row["cause"]
        flow_id = int(LINK.fullmatch(row["connection"])[2])
        assert delays[(*key, flow_id)] == pytest.approx(longest[key])
        assert row["time [s]"] == pytest.approx(longest[key], abs=0.0501)
    delayed["cause"] = delayed["cause"].str.split(": ").str[1]
    delays = delayed.groupby(["cause", *CONNECTION])["seconds"].sum()
    longest = delays.groupby("cause").max()
    printed = [row for row in pages.page.rows["examples"] if row[0] != "cause"]
    assert len(printed) == len(longest)
    for words, seconds, network, date, flow_id, _ in printed:
        cause = words.split(": ")[0]
        assert delays[cause, network, date, int(flow_id)] == pytest.approx(longest[cause])
        assert shows(seconds, longest[cause])


def test_worst_connections_are_those_of_the_tables(pages):
    """On the report of all hours; on the dashboard also of one hour of one network."""
    stalls = pages.table(STALLS)
    stalled = stalls.assign(stalled=seconds_of(stalls)).groupby(CONNECTION)["stalled"].sum()
    flows = pages.flows.merge(stalled, on=CONNECTION, how="left").fillna({"stalled": 0.0})
    lost = flows["lost_access_expected"] + flows["lost_internet_expected"]
    flows["loss"] = lost / (flows["data_packets_down"] + flows["lost_internet_expected"])
    worst = {
        "Slowest": (flows[flows["payload_bytes_down"] > 32768], "goodput", True),
        "Most stalled": (flows[flows["stalled"] > 0], "stalled", False),
        "Most lossy": (
            flows[(flows["data_packets_down"] >= 20) & (flows["loss"] > 0)],
            "loss",
            False,
        ),
    }
    printed = [row for row in pages.page.rows["worst-connections"] if row[0] != "connection"]
    assert len(printed) == 60
    for title, (rows, column, ascending) in worst.items():
        expected = rows.dropna(subset=[column]).sort_values(column, ascending=ascending)
        chart = chart_named(title)
        [condition] = [f["sqlExpression"] for f in chart.form_data["adhoc_filters"][1:]]
        for shown, of in (
            (printed[:20], expected),
            (None, expected),
            (None, expected[(expected["network"] == "aa-gprs") & (expected["hour"] == 11)]),
        ):
            if shown is None:
                where = "true" if of is expected else "network = 'aa-gprs' and hour = 11"
                order = f"{column}{'' if ascending else ' desc'}"
                rows = pages.selection.rows(f"""
                    select * from ({chart.dataset.sql}) where {condition} and {where}
                    order by {order} limit {chart.form_data["row_limit"]}
                """)
                ids = [int(LINK.fullmatch(row["connection"])[2]) for row in rows]
                assert [row[column] for row in rows] == pytest.approx([*of[column][:20]])
                assert {row["network"] for row in rows} == {*of["network"][:20]}
            else:
                ids = [int(row[0]) for row in shown]
            values = of.set_index("flow_id")[column]
            assert [values[flow_id] for flow_id in ids] == pytest.approx([*of[column][:20]])
        printed = printed[20:]


def test_captures_are_of_the_log(pages):
    log, days = pages.table(INGEST_LOG, "first_ts"), ["date", "network"]

    def packets(log):
        return log["packets"].sum()

    agree(log, ALL_HOURS, packets, pages.printed("quality", cell=2, columns=7))
    agree(log, days, packets, pages.chart("Data quality: captures", "packets", *days))
    kept = pages.chart("Data quality: frames", "frames", "fate", "network")
    agree(log, ALL_HOURS, packets, kept["kept as packets"])


METRICS = {
    "Set-up delay [ms]": ("setup_delay", lambda delays: 1000 * delays.mean()),
    "Set-ups that fail [%]": (
        "setup_class", lambda found: 100 * (~found.isin(["optimal", "slight_problem"])).mean()
    ),
    "RTT on the access side [ms]": ("rtt_access", lambda rtts: 1000 * rtts.mean()),
}  # fmt: skip
"""The metrics with which the first plot of a network's days begins: column and value."""


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_by_day_and_hour_are_of_the_flows(pages, metric):
    """Lines and heat maps; the report has them of several days."""
    column, value_of = METRICS[metric]
    flows = pages.flows.dropna(subset=column)
    flows["local_hour"] = flows["hour"].map("{:02d} h".format)

    def expected(flows):
        return value_of(flows[column])

    where = f"metric = '{metric}'"
    lines = pages.chart("Metric by day, at", "value", "date", *BY_HOURS, where=where)
    agree(usual(flows), ["date", *BY_HOURS], expected, lines)
    fields = pd.concat({
        network: expected(mine) * pages.chart(
            "Metric by day and", "share_of_mean", "date", "local_hour",
            where=f"{where} and network = '{network}'",
        )
        for network, mine in flows.groupby("network")
    }, names=["network"])  # fmt: skip
    agree(flows, ["network", "date", "local_hour"], expected, fields)
    at = 3 * list(METRICS).index(metric)
    for network in pages.networks:
        for plot in pages.plots.get(f"days-{network}", [])[:1]:
            *by_day, heat = plot["data"][at : at + 3]
            for line in by_day:
                drawn = lines.xs((network, line["name"]), level=BY_HOURS)
                assert dict(zip(line["x"], line["y"], strict=True)) == pytest.approx(dict(drawn))
            drawn = pd.DataFrame(heat["z"], [f"{hour:02d} h" for hour in range(24)], heat["x"])
            drawn = drawn.T.stack().astype(float)
            its = fields[network].dropna()
            assert dict(drawn.dropna()) == pytest.approx(dict(its))
