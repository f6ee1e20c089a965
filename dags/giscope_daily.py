"""giscope's daily job: for each network wait for its captures, then make and check its tables.

Each network has a task group of its name, and one that waits or fails does not stop the others.
Within a network, processes of this machine, or Spark, share the capture files and the user
partitions. Each step is a giscope command that makes the tables that are not up to date, and
publishes them in one transaction. So repeated runs, and two runs at once, have the same result as
one run.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apprise
from airflow.providers.apprise.hooks.apprise import AppriseHook
from airflow.sdk import Asset, ExceptionRetryPolicy, RetryAction, RetryRule, TaskGroup, dag, task
from airflow.sdk.exceptions import AirflowNotFoundException
from by_day import ByDay
from commands import (
    PREFIX,
    CheckOperator,
    CompleteSensor,
    DeadlineSensor,
    GiscopeOperator,
    IngestOperator,
    MaintainOperator,
    PassedOperator,
    note_reason,
)
from landing import network_names, settings_of

WAREHOUSE = os.environ["GISCOPE_WAREHOUSE"]
NETWORKS = Path(os.environ["GISCOPE_NETWORKS"])
LANDING = Path(os.environ["GISCOPE_LANDING"])
SETTINGS = settings_of(os.environ, datetime.now(UTC).date())
COMPLETE = {"quiet_s": SETTINGS.quiet_s, "follow_links": SETTINGS.follow_links}
"""When a folder is complete: see landing.incomplete_reason."""
ALERTS, POOL = "giscope_alerts", "giscope"
MIDNIGHT = datetime.min.time().replace(tzinfo=UTC)

PACKETS, FLOWS, MARTS = (Asset(f"giscope_{table}") for table in ("packets", "flows", "marts"))


def send_held(context: Any) -> None:
    """Send the reasons why days are held."""
    task = context["task"]
    if task.reasons:
        send(f"{PREFIX}{task.network} is held back", PREFIX + f"\n{PREFIX}".join(task.reasons))


def send(title: str, text: str) -> None:
    """Send an alert, if there is a connection giscope_alerts."""
    hook, services = AppriseHook(ALERTS), apprise.Apprise()
    try:
        hook.set_config_from_conn(hook.get_connection(ALERTS), services)
    except AirflowNotFoundException:
        print(f"no alert was sent: Airflow has no connection {ALERTS}")
        return
    if not services.notify(text, title, apprise.NotifyType.FAILURE):
        raise RuntimeError(f"{ALERTS}: an alert could not be sent: {text}")


def network_day(network: str) -> None:
    """Define the tasks of a day for one network."""
    at = ["--warehouse", WAREHOUSE]
    of_network = [*at, "--networks", str(NETWORKS), "--network", network]
    links = ["--follow-links"] if SETTINGS.follow_links else []
    check_day = ["check", *of_network, "--date", "{{ ds }}"]

    complete = CompleteSensor(
        task_id="complete",
        folder=str(LANDING / network / "{{ ds }}"),
        complete_options=COMPLETE,
        poke_interval=SETTINGS.look,
        timeout=SETTINGS.wait,
    )
    ingest = IngestOperator(
        task_id="ingest",
        network=network,
        arguments=["ingest", "--keep-going", *links, *of_network],
        folder=LANDING / network,
        complete_options=COMPLETE | {"days_back": SETTINGS.late_days},
        pool=POOL,
        outlets=[PACKETS],
    )
    flows = GiscopeOperator(
        task_id="flows",
        network=network,
        arguments=["flows", *of_network],
        pool=POOL,
        outlets=[FLOWS],
    )
    check = CheckOperator(task_id="check", arguments=check_day, pool=POOL)
    marts = GiscopeOperator(
        task_id="marts", arguments=["marts", *at, "--network", network, "--checked"], pool=POOL
    )
    passed = PassedOperator(
        task_id="passed",
        network=network,
        arguments=check_day,
        reasons=check.output,
        on_success_callback=send_held,
        on_failure_callback=[note_reason, send_held],
        retry_policy=ExceptionRetryPolicy([RetryRule(SystemExit, RetryAction.FAIL)]),
    )

    @task(outlets=[MARTS])
    def published(ds: str | None = None, outlet_events: Any = None) -> None:
        """Notify other DAGs that the day's marts are published."""
        outlet_events[MARTS].extra = {"network": network, "date": ds}

    last = published()
    complete >> ingest >> flows >> check >> marts
    [marts, passed] >> last
    steps = [complete, ingest, flows, check, marts, passed]
    DeadlineSensor(
        task_id="deadline",
        network=network,
        steps=[*(step.task_id for step in steps), last.operator.task_id],
        hour=SETTINGS.deadline_hour,
        send=send,
        poke_interval=SETTINGS.look,
        execution_timeout=None,
    )


@dag(
    schedule=ByDay("@daily", timezone="UTC"),
    start_date=datetime.combine(SETTINGS.first_day, MIDNIGHT),
    end_date=datetime.combine(SETTINGS.last_day, MIDNIGHT) if SETTINGS.last_day else None,
    catchup=True,
    max_active_runs=SETTINGS.late_days + 1,
    default_args={
        "on_failure_callback": note_reason,
        "on_retry_callback": note_reason,
        "execution_timeout": SETTINGS.task,
    },
    doc_md=__doc__,
    tags=["giscope"],
)
def giscope_daily() -> None:
    """Define the tasks of a day."""
    MaintainOperator(
        task_id="maintain",
        arguments=[
            ["purge", "--warehouse", WAREHOUSE, "--networks", str(NETWORKS)],
            ["maintain", "--warehouse", WAREHOUSE],
        ],
        pool=POOL,
    )
    for network in network_names(NETWORKS):
        with TaskGroup(network.replace(".", "-dot-"), group_display_name=network):
            network_day(network)


giscope_daily()
