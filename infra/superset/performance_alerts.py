"""Alerts on the performance of the last day, against the same weekday of earlier weeks.

They are made with the dashboard, and do nothing until GISCOPE_ALERTS_TO has an address: mail, or an
https:// webhook. Who has changed them in Superset keeps the changes.
"""

import json
import os

ADDRESS_VARIABLE = "GISCOPE_ALERTS_TO"
EARLIER_WEEKS, FEWEST_WEEKS, MIN_MEASURED, FACTOR = 4, 2, 100, 1.5
METRICS = {
    "Set-up delay": ("setup_delay",),
    "Packet loss": ("loss_access", "loss_internet"),
}
"""Metrics of each alert."""
UNITS = {"setup_delay": "ms", "loss_access": "%", "loss_internet": "%"}
TEXTS = {
    "setup_delay": "set-up delay",
    "loss_access": "loss on the access side",
    "loss_internet": "loss on the Internet side",
}


def sql(metrics: tuple[str, ...]) -> str:
    """Return SQL of one text with what is worse than usual, null if nothing is."""
    texts = ", ".join(f"('{name}', '{TEXTS[name]}', '{UNITS[name]}')" for name in metrics)
    return f"""
with named(metric, title, unit) as (values {texts}), daily as (
    select network, metric, date, sum(numerator) / sum(denominator) as value
    from metrics join named using (metric)
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
from compared join named using (metric)
where weeks >= {FEWEST_WEEKS} and value > {FACTOR} * usual
"""


def make_alerts(owner: object) -> None:
    """Make the alerts, or bring their SQL up to date."""
    from superset import db
    from superset.models.core import Database
    from superset.models.dashboard import Dashboard
    from superset.reports.models import (
        ReportCreationMethod,
        ReportDataFormat,
        ReportRecipients,
        ReportRecipientType,
        ReportSchedule,
        ReportScheduleType,
        ReportScheduleValidatorType,
    )

    address = os.environ.get(ADDRESS_VARIABLE, "")
    for title, metrics in METRICS.items():
        name = f"{title} is worse than usual"
        alert = db.session.query(ReportSchedule).filter_by(name=name, type="Alert").one_or_none()
        if alert is None:
            alert = ReportSchedule(
                name=name,
                type=ReportScheduleType.ALERT,
                description=f"More than {FACTOR} times the median of the same weekday of "
                f"{EARLIER_WEEKS} weeks. The query names the networks and values.",
                crontab="0 8 * * *",
                timezone="UTC",
                active=False,
                creation_method=ReportCreationMethod.ALERTS_REPORTS,
                report_format=ReportDataFormat.TEXT,
                validator_type=ReportScheduleValidatorType.NOT_NULL,
                validator_config_json="{}",
                database=db.session.query(Database).filter_by(database_name="giscope").one(),
                dashboard=db.session.query(Dashboard).filter_by(slug="giscope").one(),
                owners=[owner],
            )
            db.session.add(alert)
        alert.sql = sql(metrics)
        if address and not alert.recipients:
            is_webhook = address.startswith("https://")
            kind = ReportRecipientType.WEBHOOK if is_webhook else ReportRecipientType.EMAIL
            target = json.dumps({"target": address})
            alert.recipients = [ReportRecipients(type=kind, recipient_config_json=target)]
            alert.active = True
    db.session.commit()
