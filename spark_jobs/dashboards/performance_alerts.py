"""Alerts on the performance of the last day, against the same weekday of earlier weeks."""

from collections.abc import Sequence

from spark_jobs.figures.dashboard_parts import literal
from spark_jobs.figures.metrics.differences import UNITS_CTE

EARLIER_WEEKS, FEWEST_WEEKS, MIN_MEASURED, FACTOR = 4, 2, 100, 1.5
"""Weeks to compare with, the fewest of them, samples of a day, and the ratio that is reported."""
ALERTS = {"Set-up delay": ["setup_delay"], "Packet loss": ["loss_access", "loss_internet"]}
"""Metrics of each alert."""
DESCRIPTION = (
    f"More than {FACTOR} times the median of the same weekday of {EARLIER_WEEKS} weeks. The query "
    "names the networks and values."
)


def alert_sql(metrics: Sequence[str]) -> str:
    """Return SQL of one text with what is worse than usual, null if nothing is."""
    names = ", ".join(map(literal, metrics))
    return f"""
with {UNITS_CTE}, daily as (
    select network, metric, date, sum(numerator) / sum(denominator) as value
    from metrics where metric in ({names})
    group by all having sum(measured) >= {MIN_MEASURED}
), last_days as (
    select network, max(date) as last_day from daily group by network
), compared as (
    select network, metric, last_day,
        max(value) filter (where date = last_day) as value,
        median(value) filter (where date < last_day) as usual,
        count(*) filter (where date < last_day) as weeks
    from daily join last_days using (network)
    where last_day - date in ({", ".join(str(7 * n) for n in range(EARLIER_WEEKS + 1))})
    group by all
)
select string_agg(
    format('{{}} {{}}: {{}} {{}}, usually {{}}', network, last_day, title, value_text(value, unit),
        value_text(usual, unit)), '; ' order by network, metric) as worse
from compared join units using (metric)
where weeks >= {FEWEST_WEEKS} and value > {FACTOR} * usual
"""


def alerts() -> dict[str, dict[str, str]]:
    """Return the SQL and the description of each alert by its name."""
    return {
        f"{title} is worse than usual": {"sql": alert_sql(metrics), "description": DESCRIPTION}
        for title, metrics in ALERTS.items()
    }
