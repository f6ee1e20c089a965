"""The page on connection set-up and RTT (Figs. 3 to 5)."""

from spark_jobs.dashboards.charts import bars, cumulative, histogram, pivot, share_bars
from spark_jobs.dashboards.common import FILTERS, FLOWS, KEYS, USER_GROUPS, share_of_series, sum_by
from spark_jobs.dashboards.intervals import Ratio, estimate_table, text_metric, user_group_sums
from spark_jobs.dashboards.parts import (
    Dashboard,
    Dataset,
    Metric,
    histogram_outline,
    if_enough_data,
    label_sql,
)
from spark_jobs.report import fig03, fig04, fig05

CATEGORY_WHENS = " ".join(
    f"when single = {single} and background = {background} then '{label}'"
    for label, (single, background) in fig03.CATEGORIES.items()
    if single is not None
)
SETUP_DELAY = Dataset(
    "setup_delay",
    histogram_outline(
        f"{KEYS}, user_groups, case {CATEGORY_WHENS} end as category",
        ["flows", "delay_sum"],
        "fig03_setup_delay",
        f"least(bin, {fig03.SHOWN_S})",
        str(fig03.BIN_S),
        "delay",
    ),
    [
        FLOWS,
        sum_by("series", "flows", "set-ups"),
        share_of_series("flows", "share of set-ups"),
        Metric(
            "mean_delay",
            if_enough_data("sum(delay_sum) / nullif(sum(flows), 0)", "flows"),
            "mean set-up delay [s]",
            ",.2f",
        ),
    ],
)
RTT_SAMPLES = Dataset(
    "rtt",
    histogram_outline(
        f"{KEYS}, side, user_groups",
        ["flows"],
        "fig04_round_trip_time",
        "1000 * bin",
        str(1000 * fig04.BIN_S),
        "rtt_ms",
    ),
    [FLOWS, share_of_series("flows", "share of connections")],
)
SETUP_CLASSES = {
    "optimal": "optimal",
    "slight_problem": "slight problem",
    "no_response": "no response",
    "refused": "refused",
    "serious_problem": "serious problem",
}
TREE_AREA = f"""{label_sql("setup_class", SETUP_CLASSES)}
        || case when setup_retransmission = 'premature' then ': timer too short'
            when setup_retransmission = 'lost' then ': lost'
            when setup_class <> 'serious_problem' then ''
            when setup_reset then ': RST' || case reset_by when 'mobile' then ' by the mobile'
                when 'server' then ' by the server' when 'between' then ' by a device between'
                else '' end
            else ': silent' end"""
BACKGROUND = "if(background, 'background', 'no background')"
SETUP_TREE = Dataset(
    "setup_tree",
    f"""
select {KEYS},
    if(setup_class in {fig05.CONNECTED}, 'connected', 'not connected') as outcome,
    {TREE_AREA} as area, {BACKGROUND} as background, flows, {USER_GROUPS}
from fig05_setup_tree
""",
    [FLOWS, Metric("setups", "sum(flows)", "share of set-ups", "")],
)
SETUP_DELAYS = Dataset(
    "setup_delays",
    estimate_table(
        user_group_sums(
            "fig05_setup_tree",
            ["delay_flows", "delay_sum"],
            {"area": TREE_AREA, "background": BACKGROUND},
            "delay_flows > 0",
        ),
        ["network", "country", "access", "hours", "area", "background"],
        [Ratio("mean_delay", "delay_sum", "delay_flows", "delay_flows")],
        {},
    ),
    [text_metric("mean_delay", "mean set-up delay [s]")],
)
SETUP_COLOURS = {
    "optimal": "#7fb77e",
    "slight problem": "#f2cf63",
    "slight problem: lost": "#e3b52e",
    "slight problem: timer too short": "#f0a35e",
    "no response": "#8fb4d9",
    "refused": "#b493c9",
    "serious problem: RST": "#d9735b",
    "serious problem: RST by the mobile": "#d9735b",
    "serious problem: RST by the server": "#c4573e",
    "serious problem: RST by a device between": "#e39a87",
    "serious problem: silent": "#a8452f",
}
SETUP = Dashboard(
    "Set-up and delay",
    "giscope-setup",
    filters=FILTERS,
    rows=[
        [
            histogram("Fig. 3. Connection set-up delay", SETUP_DELAY, "delay", "flows_by_series",
                      f"Set-up delay [s], last step: {fig03.SHOWN_S:.0f} s and more",
                      f"Share of set-ups per {fig03.BIN_S} s"),
            cumulative("Fig. 3. Set-up delay, peak and off-peak", SETUP_DELAY, "delay_below",
                       "Set-up delay [s]", "Cumulative share of set-ups"),
        ],
        [
            bars("Fig. 3. Share of set-ups by component", SETUP_DELAY, "category", "share",
                 "series", horizontal=True, y_title="Share of set-ups", where="flows > 0",
                 height=40),
        ],
        [
            bars("Fig. 3. Mean set-up delay by component", SETUP_DELAY, "category", "mean_delay",
                 "series", horizontal=True, where="flows > 0", height=40),
        ],
        [
            cumulative("Fig. 4. CDF of the RTT on the access side", RTT_SAMPLES,
                       "rtt_ms_below", "RTT [ms]", "Cumulative share of connections",
                       where="side = 'access'"),
            cumulative("Fig. 4. CDF of the RTT on the Internet side", RTT_SAMPLES,
                       "rtt_ms_below", "RTT [ms]", "Cumulative share of connections",
                       where="side = 'internet'"),
        ],
        [
            share_bars("Fig. 5. Connection set-up categories", SETUP_TREE, "area", "flows",
                       "Share of set-ups"),
        ],
        [
            pivot("Fig. 5. Mean set-up delay [s], with 95 % intervals", SETUP_DELAYS,
                  ["mean_delay"], rows=["area", "background"], columns=["network", "hours"],
                  text=True, height=64),
        ],
        [
            pivot("Fig. 5. Connection set-up classification tree, share of set-ups", SETUP_TREE,
                  ["setups"], rows=["outcome", "area", "background"],
                  columns=["network", "hours"], share=True, height=96),
        ],
    ],
    colours=SETUP_COLOURS,
)  # fmt: skip
