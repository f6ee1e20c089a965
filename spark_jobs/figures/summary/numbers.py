"""The summary's sentences as SQL, for the report and the dashboards."""

from spark_jobs.figures.daily_checks.numbers import DAYS_SQL
from spark_jobs.figures.dashboard_parts import label_sql, literal
from spark_jobs.figures.format import NO_BREAK_SPACE, PERCENT
from spark_jobs.figures.limits_by_window.numbers import LIMIT_LABELS, TIMES
from spark_jobs.figures.metrics.differences import judged_sql, peak_sums_sql
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.names import ACCESS_NAMES
from spark_jobs.figures.numbers import DAY_FILTERS_MARK
from spark_jobs.figures.table2_loss.figure import NUMBERS as LOSSES
from spark_jobs.figures.table3_clusters.numbers import EFFECTS_SQL

MAX_DIFFERENCES = 3
"""Maximum number of differences of a network that the first sentence names."""
IMPACT = " ".join(
    ["case metric"]
    + [
        f"when {literal(metric)} then {shown.weight} * abs(difference)"
        + ("" if shown.unit is PERCENT else " / second")
        for metric, shown in SHOWN_METRICS.items()
    ]
    + ["end"]
)
"""SQL of what a difference means to users (see ShownMetric.weight)."""


def _joined(rows: str, otherwise: str) -> str:
    """Return SQL of one sentence; rows: SQL of its parts, as `text` sorted by `part`."""
    return f"""
select coalesce(string_agg(text, '; ' order by part) || '.', '{otherwise}') as sentence
from ({rows})
"""


AT_PEAK = _joined(
    f"""
    with {judged_sql(peak_sums_sql([("all days", 100_000)]))}, ranked as (
        select network, title, difference / second as share, significant, {IMPACT} as impact,
            replace(value_text(second, unit), '{NO_BREAK_SPACE}' || unit, '') || ' → '
                || value_text(first, unit) as levels,
            row_number() over (
                partition by network, significant and impact > 0 order by impact desc
            ) as rank
        from judged
        where firsts > 0 and seconds > 0 and second <> 0 {DAY_FILTERS_MARK}
    )
    select network as part, network || ': ' || coalesce(
        string_agg(format('{{}} {{}} ({{}})', title, levels, change_text(share, '%')), ', '
            order by rank) filter (significant and impact > 0 and rank <= {MAX_DIFFERENCES}),
        'no difference beyond chance') as text
    from ranked group by network""",
    "no network has both peak and off-peak data.",
)
LOST = LOSSES.sql("network")
LOSS = "estimate_text({{'value': {0}.value, 'low': null, 'high': null}}, '%', samples_{1})"
LOSSES_BY_SIDE = _joined(
    f"""
    select network as part, network || ': ' || {LOSS.format("access_loss", 1)}
        || ' on the access side, ' || {LOSS.format("internet_loss", 0)}
        || ' on the Internet side' as text
    from ({LOST})""",
    "no data packets in these hours.",
)
LONGEST_LIMITS = _joined(
    f"""
    select network as part, format('{{}}: {{}} ({{:,.0f}}{NO_BREAK_SPACE}% of the time)', network,
        {label_sql("longest", LIMIT_LABELS)}, 100 * share) as text
    from (
        select network, list_max(shares) as share,
            {list(LIMIT_LABELS)}[list_position(shares, list_max(shares))] as longest
        from (
            select network, [{", ".join(f"{limit}.value" for limit in LIMIT_LABELS)}] as shares
            from ({TIMES.sql("network")})
        ) where shares[1] is not null
    )""",
    "the limits of transfers are unknown.",
)
OPTIONS = _joined(
    f"""
    select access as part, {label_sql("access", ACCESS_NAMES, "access")} || ': ' || string_agg(
        comparison || ' ' || change_text(estimate, '%') || ' goodput', ', ' order by place) as text
    from ({EFFECTS_SQL}) where significant group by access""",
    "no effect of an option is beyond chance.",
)
DATA = f"""
select format('{{:,}} days held, {{:,}} days without captures, ', held, missing)
    || format('{{:,}} of {{:,}} captures unreadable.', failed, captures) as sentence
from (
    select count(*) filter (where held) as held,
        count(*) filter (where state = 'no captures') as missing
    from ({DAYS_SQL}) where true {DAY_FILTERS_MARK}
), (
    select count(*) as captures, count(*) filter (where error is not null) as failed
    from (
        select network, date, country, access, error
        from ingest_log join networks using (network)
    ) where true {DAY_FILTERS_MARK}
)
"""
