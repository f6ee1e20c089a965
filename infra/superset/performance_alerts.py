"""Alerts on the performance of the last day, which are made with the dashboard.

They do nothing until GISCOPE_ALERTS_TO has an address: mail, or an https:// webhook. Changes that
somebody makes in Superset stay, but for the SQL.
"""

import json
import os
from pathlib import Path

ADDRESS_VARIABLE = "GISCOPE_ALERTS_TO"
ALERTS = "alerts"
"""Key of the alerts in the file of the import."""


def make_alerts(assets: Path, owner: object) -> None:
    """Make the alerts of the import's file, or bring their SQL up to date."""
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
    for name, made in json.loads(assets.read_text())[ALERTS].items():
        alert = db.session.query(ReportSchedule).filter_by(name=name, type="Alert").one_or_none()
        if alert is None:
            alert = ReportSchedule(
                name=name,
                type=ReportScheduleType.ALERT,
                description=made["description"],
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
        alert.sql = made["sql"]
        if address and not alert.recipients:
            is_webhook = address.startswith("https://")
            kind = ReportRecipientType.WEBHOOK if is_webhook else ReportRecipientType.EMAIL
            target = json.dumps({"target": address})
            alert.recipients = [ReportRecipients(type=kind, recipient_config_json=target)]
            alert.active = True
    db.session.commit()
