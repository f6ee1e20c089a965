"""Run Superset's alerts and reports when they are due, minute by minute: `alerts.py`.

Superset's own worker (Celery) needs a message queue, and fails on metadata in SQLite. One process
without a queue is enough here. Superset's code decides what an alert or a report does.
"""

import logging
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from superset.app import create_app

MINUTE = timedelta(minutes=1)
LOG = logging.getLogger("giscope.alerts")


def run_due(minute: datetime) -> None:
    """Run the alerts and reports that are due in a minute; the log has each failure."""
    from superset.commands.exceptions import CommandException
    from superset.commands.report.execute import AsyncExecuteReportScheduleCommand
    from superset.commands.report.log_prune import AsyncPruneReportScheduleLogCommand
    from superset.daos.report import ReportScheduleDAO
    from superset.tasks.cron_util import cron_schedule_window

    for schedule in ReportScheduleDAO.find_active():
        number, name = schedule.id, schedule.name
        for due in cron_schedule_window(minute, schedule.crontab, schedule.timezone):
            try:
                AsyncExecuteReportScheduleCommand(str(uuid4()), number, due).run()
                LOG.info("%s: done", name)
            except CommandException as error:
                LOG.error("%s: %s", name, error)
    AsyncPruneReportScheduleLogCommand().run()


def main() -> None:
    """Run what is due in each minute that begins from now on; late if an earlier one takes long."""
    app = create_app()
    LOG.info("alerts and reports are checked every minute")
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    while True:
        minute += MINUTE
        time.sleep(max(0.0, (minute - datetime.now(UTC)).total_seconds()))
        with app.app_context():
            try:
                run_due(minute)
            except Exception:
                LOG.exception("nothing more is run for %s; the next minute follows", minute)


if __name__ == "__main__":
    main()
