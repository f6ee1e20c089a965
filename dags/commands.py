"""Airflow's tasks of giscope: they run its commands, and say in one line why they failed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin
from urllib.request import ProxyHandler, Request, build_opener

from airflow.configuration import AIRFLOW_HOME, conf
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
)
from landing import complete_folders, incomplete_reason

APPLICATION = Path(__file__).resolve().parents[1] / "infra/spark/giscope.py"
SPARK = "giscope_spark"
ON_SPARK = {"ingest", "flows", "marts"}
"""Commands whose tasks Spark runs, if there is a connection giscope_spark."""
EXIT_WITH_REASON = 2
"""Exit status of a giscope command that prints its reason, in lines that begin with PREFIX."""
NO_WAREHOUSE = "no such warehouse"
"""Part of that reason before the first day is published."""
PREFIX = "giscope: "
ALL_ELSE = "everything else is done"
"""The last reason of a command that withheld something, and published the rest."""
ADMINISTRATOR = "admin"
"""Airflow's account that writes notes."""
PATIENCE_S = 30
"""Time that a command gets to end, before it is killed."""
MAX_WATCH_S = 7 * 24 * 3600
"""Maximum time for which a day is watched (s)."""
REASON = "reason"
"""Key of the XCom with the reason of a failed attempt."""
MAX_NOTE = 1000
"""Characters of a note in Airflow."""


class GiscopeOperator(BaseOperator):
    """Task that runs a giscope command.

    It fails by SystemExit with the command's reason: Airflow logs that in one line, whereas it logs
    the traceback of each other exception. Only a task that needs Spark imports Airflow's hook for
    it, which takes two seconds.
    """

    template_fields: Sequence[str] = ("arguments",)

    def __init__(self, *, network: str = "", arguments: Sequence[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.network = network
        self.arguments = arguments
        self.stop: Callable[[], None] | None = None

    def execute(self, context: Any) -> Any:
        """Run the command; name the network and the day in the events of the task's assets.

        What the command withheld is in the task's note; the task succeeds, so that what it did
        publish is checked and shown.
        """
        self.accept(self.run_command(self.arguments), context)
        for asset in self.outlets:
            changed = {"network": self.network, "date": context["ds"]}
            context["outlet_events"][asset].extra = changed

    def accept(self, reasons: Sequence[str], context: Any) -> None:
        """Write the reasons into the task's note if all else is done; fail with them otherwise."""
        if reasons and reasons[-1] != ALL_ELSE:
            sys.exit("; ".join(reasons))
        if reasons:
            write_note(context, "; ".join(reasons))

    def on_kill(self) -> None:
        """End the command."""
        if self.stop:
            self.stop()

    def run_command(self, arguments: Sequence[str]) -> list[str]:
        """Run a giscope command; return its reasons if its exit status is EXIT_WITH_REASON."""
        if arguments[0] in ON_SPARK and _has_connection(SPARK):
            return self._run_by_spark(arguments)
        said: list[str] = []
        with subprocess.Popen(
            ["giscope", *arguments], stderr=subprocess.PIPE, text=True
        ) as process:
            self.stop = process.terminate
            assert process.stderr
            try:
                for line in process.stderr:
                    print(line, end="")
                    said.append(line)
            except BaseException:  # the task's time is over, or Airflow stops it
                _end(process)
                raise
        if not process.returncode:
            return []
        failed = f"giscope {arguments[0]}: exit status {process.returncode}"
        if process.returncode == EXIT_WITH_REASON:
            return _reasons(said) or [failed]
        raise RuntimeError(": ".join([failed, *said[-1:]]).strip())

    def _run_by_spark(self, arguments: Sequence[str]) -> list[str]:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        hook = SparkSubmitHook(conn_id=SPARK, name=self.network, application_args=list(arguments))
        self.stop = hook.on_kill
        try:
            hook.submit(str(APPLICATION))
        except AirflowException as failed:  # its text ends with the last lines of the output
            reasons = _reasons(str(failed).splitlines())
            if not reasons or f"Error code is: {EXIT_WITH_REASON}." not in str(failed):
                raise
            return reasons
        return []


def _end(process: subprocess.Popen) -> None:
    """End a command, if need be by force."""
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _has_connection(name: str) -> bool:
    try:
        BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return False
    return True


def _reasons(lines: Sequence[str]) -> list[str]:
    """Return the lines that a command printed about its failure, without PREFIX."""
    return [line[len(PREFIX) :].strip() for line in lines if line.startswith(PREFIX)]


class IngestOperator(GiscopeOperator):
    """Task that ingests the complete folders of a day and of the days before it.

    complete_options: those of landing.complete_folders; folder: the network's landing folder
    """

    def __init__(self, *, folder: Path, complete_options: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self.folder = folder
        self.complete_options = complete_options

    def execute(self, context: Any) -> None:
        """Choose the folders and ingest them."""
        day = date.fromisoformat(context["ds"])
        folders = complete_folders(self.folder, day, now=time.time(), **self.complete_options)
        self.arguments = [*self.arguments, *map(str, folders)]
        super().execute(context)


class CheckOperator(GiscopeOperator):
    """Task that checks days; it succeeds also if days are held, and returns the reasons."""

    def execute(self, context: Any) -> list[str]:
        """Return the reasons why days are held."""
        return [reason for reason in self.run_command(self.arguments) if reason != ALL_ELSE]


class PassedOperator(GiscopeOperator):
    """Task that fails if its day is held; reasons: those of all days that are held."""

    template_fields = ("arguments", "reasons")

    def __init__(self, *, reasons: Any, **options: Any) -> None:
        super().__init__(**options)
        self.reasons = reasons

    def execute(self, context: Any) -> None:
        """Check the day again if any day is held, or could not be checked."""
        if self.reasons:
            super().execute(context)

    def accept(self, reasons: Sequence[str], context: Any) -> None:
        """Fail for any reason: a day that could not be checked has not passed."""
        if reasons:
            sys.exit("; ".join(reason for reason in reasons if reason != ALL_ELSE))


class MaintainOperator(GiscopeOperator):
    """Task that runs several commands on the warehouse, once there is one."""

    def execute(self, context: Any) -> None:
        """Run the commands."""
        for command in self.arguments:
            reasons = self.run_command(command)
            if any(NO_WAREHOUSE in reason for reason in reasons):
                return
            self.accept(reasons, context)


class CompleteSensor(BaseSensorOperator):
    """Task that waits until a day's folder is complete."""

    template_fields: Sequence[str] = ("folder",)

    def __init__(self, *, folder: str, complete_options: dict[str, Any], **options: Any) -> None:
        super().__init__(mode="reschedule", retries=0, **options)
        self.folder = folder
        self.complete_options = complete_options

    def poke(self, context: Any) -> bool:
        """Return whether the folder is complete; print the reason if it is not."""
        folder = Path(self.folder)
        self.reason = incomplete_reason(folder, time.time(), **self.complete_options)
        if self.reason:
            print(self.reason)
        return self.reason is None

    def execute(self, context: Any) -> None:
        """Look once; fail with the reason when the time is up."""
        try:
            super().execute(context)
        except AirflowSensorTimeout:
            sys.exit(f"waited {timedelta(seconds=self.timeout)}: {self.reason}")


class DeadlineSensor(BaseSensorOperator):
    """Task that waits until a network's day is published, and else sends an alert, once.

    It ends when the day is published, when a step of the day has failed, or when the deadline has
    passed. If the day is held, the step `passed` has sent an alert.

    steps: ids of the day's other tasks, in order; the last one is that of a published day, and the
    one before that of a day that passed its checks. hour: UTC hour of the deadline.
    send: sends an alert of a title and a text.
    """

    def __init__(
        self, *, network: str, steps: Sequence[str], hour: float, send: Callable, **options: Any
    ) -> None:
        super().__init__(mode="reschedule", timeout=MAX_WATCH_S, **options)
        self.network = network
        self.steps = steps
        self.hour = hour
        self.send = send

    def poke(self, context: Any) -> bool:
        """Return whether the day is published, or an alert was sent."""
        task = context["ti"]
        states = task.get_task_states(
            dag_id=task.dag_id, task_ids=[*self.steps], run_ids=[task.run_id]
        ).get(task.run_id, {})
        *_, passed, published = self.steps
        failed = [step for step in self.steps if states.get(step) == "failed"]
        begun = task.get_first_reschedule_date(context) or datetime.now(UTC)
        late_after = deadline(begun, self.hour)
        if states.get(published) == "success" or failed == [passed]:
            return True
        if failed:
            reason = task.xcom_pull(task_ids=failed[0], key=REASON) or "see its log in Airflow"
            why = f": the task {failed[0]} failed: {reason}"
        elif datetime.now(UTC) >= late_after:
            step = next(step for step in self.steps if states.get(step) != "success")
            why = f" by {late_after:%Y-%m-%d %H:%M} UTC: the task {step} is not done: "
            why += states.get(step) or "not begun"
        else:
            return False
        title = f"{PREFIX}{self.network} {context['ds']} is not published"
        self.send(title, f"{title}{why}")
        return True


def deadline(start: datetime, hour: float) -> datetime:
    """Return the first time after the start of a watch at this hour (UTC)."""
    midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    today = midnight + timedelta(hours=hour)
    return today if today > start else today + timedelta(days=1)


def note_reason(context: Any) -> None:
    """Write the reason of a failed attempt into the task's note, and keep it for an alert."""
    error = context["exception"]
    text = str(error) if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    context["ti"].xcom_push(key=REASON, value=text[:MAX_NOTE])
    write_note(context, f"attempt {context['ti'].try_number} failed: {text}")


def write_note(context: Any, note: str) -> None:
    """Write the task's note.

    Airflow's REST API is the only way for a task to write a note. The account is one of its simple
    auth manager; with another manager there is no note, and the log says so.
    """
    task = context["ti"]
    shown = note if len(note) <= MAX_NOTE else f"{note[: MAX_NOTE - 1]}…"
    run, name = quote(task.run_id, ""), quote(task.task_id, "")
    path = f"/api/v2/dags/{task.dag_id}/dagRuns/{run}/taskInstances/{name}"
    try:
        user = {"username": ADMINISTRATOR, "password": _password()}
        token = _ask("POST", "/auth/token", user, {})["access_token"]
        _ask("PATCH", path, {"note": shown}, {"Authorization": f"Bearer {token}"})
    except (OSError, ValueError, KeyError) as reason:
        print(f"no note was written: {type(reason).__name__}: {reason}")


def _password() -> str:
    generated = f"{AIRFLOW_HOME}/simple_auth_manager_passwords.json.generated"
    file = conf.get("core", "simple_auth_manager_passwords_file", fallback=None) or generated
    return str(json.loads(Path(file).read_text())[ADMINISTRATOR])


def _ask(method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
    address = urljoin(conf.get("core", "execution_api_server_url"), path)
    kind = {"Content-Type": "application/json"}
    request = Request(address, json.dumps(body).encode(), headers | kind, method=method)
    with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
        return json.load(answer)
