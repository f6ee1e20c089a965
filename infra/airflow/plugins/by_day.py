"""Timetable whose runs are named after the day of their data, not the midnight that ends it."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin
from airflow.timetables.base import DataInterval
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType


class ByDay(CronDataIntervalTimetable):
    """Timetable of whole days; the run of a day is named like scheduled__2004-03-02."""

    def generate_run_id(
        self, *, run_type: DagRunType, data_interval: DataInterval | None, **others: Any
    ) -> str:
        """Return the name of a run."""
        if run_type == DagRunType.SCHEDULED and data_interval:
            return run_type.generate_run_id(suffix=data_interval.start.date().isoformat())
        return super().generate_run_id(run_type=run_type, data_interval=data_interval, **others)


class ByDayPlugin(AirflowPlugin):
    """Plugin that makes the timetable known to Airflow."""

    name = "giscope_by_day"
    timetables = [ByDay]  # noqa: RUF012
