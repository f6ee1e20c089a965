"""Goodput by option and by cluster of options."""

from dataclasses import dataclass

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.mart_columns import common_user_group
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import DAY_FILTERS_MARK, Numbers, mean
from spark_jobs.figures.option_pairs import PAIR_COLOURS
from spark_jobs.figures.table3_clusters.option_effects import MIN_GROUPS

LABELS = {
    "mss": {"low": "MSS low", "high": "MSS high"},
    "window": {"low": "Wnd low", "med": "Wnd med", "high": "Wnd high"},
    "sack": {"no": "no SACK", "yes": "SACK"},
    "timestamps": {"no": "no TS", "yes": "TS"},
}
OPTIONS = {
    "mss": "mss_class",
    "window": "window_class",
    "sack": "if(sack, 'yes', 'no')",
    "timestamps": "if(timestamps, 'yes', 'no')",
}
"""SQL of each option's value in the mart, by the option's name in LABELS."""
OTHER_MSS = "MSS other"
"""Label of an MSS that is neither low nor high."""
TABLE_ROWS = [
    *(("mss", label) for label in (*LABELS["mss"].values(), OTHER_MSS)),
    *(
        (option, label)
        for option in ("sack", "timestamps", "window")
        for label in LABELS[option].values()
    ),
    ("", "overall"),
]
"""Rows of Table III in order: option and label."""
OPTION_LABELS = {name: label_sql(sql, LABELS[name]) for name, sql in OPTIONS.items()}
"""SQL of the label of each option's value; null for an MSS that is neither low nor high."""
OPTION_COLOURS = {
    label: colour
    for labels in LABELS.values()
    for label, colour in zip(labels.values(), ("#7a6a9b", "#5c7f3b", "#8a5a44"), strict=False)
} | {"SACK": PAIR_COLOURS["SACK"]}
"""Colours of the labels: no network has them. The dashboard has one colour for each label."""
GOODPUT = mean("goodput", "mean goodput", "goodput_sum", KBITS)
COUNTS = {
    "flows": ("connections", "flows"),
    "rated": ("with a known channel rate", "if(rate_bin is not null, flows, 0)"),
    "goodput_sum": ("", "goodput_sum"),
    "goodput_squares": ("", "goodput_squares"),
}
DEVIATION = (
    "sqrt(greatest(sum(goodput_squares) - sum(goodput_sum) ^ 2 / sum(flows), 0)"
    " / nullif(sum(flows) - 1, 0))"
)
"""SQL of the sample standard deviation of goodput (bit/s)."""
NUMBERS = Numbers(
    mart("table3_clusters"),
    [GOODPUT],
    OPTION_LABELS,
    counts=COUNTS,
    aggregates={"deviation": DEVIATION},
)
EFFECTS_SQL = f"""
with transfers as (
    select access, network, hour, size_class, {common_user_group("table3_clusters")} as user_group,
        rate_bin, mss_class as mss,
        window_class as "window", {OPTIONS["sack"]} as sack, {OPTIONS["timestamps"]} as timestamps,
        sum(flows)::bigint as flows, sum(log_goodput_sum) as log_goodput_sum
    from table3_clusters where true {DAY_FILTERS_MARK} group by all
)
select access, generate_subscripts(effects, 1) as place, unnest(effects, recursive := true)
from (
    select access, option_effects(list(transfers order by transfers)) as effects
    from transfers group by access
)
"""
"""SQL of the effects of the options by access technology, as texts and numbers (option_effects.py).

`place` is that of the effect in the list of all effects.
"""
EFFECTS_TITLE = "Effects of TCP options on goodput, all hours"
EFFECT_HEADINGS = {
    "comparison": "comparison",
    "adjusted": "effect (95 % interval)",
    "verdict": "verdict",
    "connections": "connections, with / without",
    "rated": "with a known channel rate",
    "users": "users",
    "raw": "raw difference",
}
"""Headings of the columns of EFFECTS_SQL that report and dashboards show."""
EFFECTS_CAPTION = (
    "Effect: difference of goodput, other things equal. It comes from one regression of log "
    "goodput on all options, transfer size, network, local hour, and the channel rate of the "
    "user's link in that hour. Small windows can hide this rate. Nothing is said if transfers with "
    "a known rate differ from the others. The data support a gain or loss that is beyond chance "
    f"among all effects (Holm's rule). An effect needs {MIN_GROUPS} users on each side. Raw "
    "difference: of geometric means within networks, not adjusted. "
)


@dataclass(frozen=True)
class OptionFigure:
    """One of Figs. 14 to 17; each cluster has a bar for each value of the option."""

    anchor: str
    title: str
    option: str

    @property
    def names(self) -> list[str]:
        """Labels of the option's values."""
        return list(LABELS[self.option].values())


OPTION_FIGURES = (
    OptionFigure("fig14", "Fig. 14. The effect of MSS on goodput", "mss"),
    OptionFigure("fig15", "Fig. 15. The effect of SACK on goodput", "sack"),
    OptionFigure("fig16", "Fig. 16. The effect of timestamps on goodput", "timestamps"),
    OptionFigure("fig17", "Fig. 17. The effect of the receiver window on goodput", "window"),
)
