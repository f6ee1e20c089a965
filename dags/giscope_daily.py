"""giscope's daily job: for each network wait for its captures, then make and check its tables.

Each network is a mapped task group, so a network that waits or fails does not stop the others.
Within a network Spark distributes the capture files, and the user partitions, over its tasks. Each
step is a giscope command that makes the tables that are not up to date, and publishes them in one
transaction. So repeated runs, and two runs at once, have the same result as one run.
"""

import os
import subprocess
import time
import tomllib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import apprise
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.apprise.hooks.apprise import AppriseHook
from airflow.sdk import Asset, dag, task, task_group
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from by_day import ByDay
from landing import complete_folders, day_range, incomplete_reason

APPLICATION = Path(__file__).resolve().parents[1] / "infra/spark/giscope.py"
WAREHOUSE = os.environ["GISCOPE_WAREHOUSE"]
NETWORKS = os.environ["GISCOPE_NETWORKS"]
LANDING = Path(os.environ["GISCOPE_LANDING"])
FIRST_DAY, LAST_DAY = day_range(os.environ, datetime.now(UTC).date())
QUIET_S = 60 * float(os.environ.get("GISCOPE_QUIET_MINUTES", "30"))
TIMEOUT = timedelta(minutes=float(os.environ.get("GISCOPE_WAIT_MINUTES", "1200")))
POLL_INTERVAL = timedelta(seconds=float(os.environ.get("GISCOPE_LOOK_SECONDS", "300")))
FOLLOW_LINKS = os.environ.get("GISCOPE_FOLLOW_LINKS", "0") == "1"
LATE_DAYS = int(os.environ.get("GISCOPE_LATE_DAYS", "7"))
WAREHOUSE_ARGUMENTS = ["--warehouse", WAREHOUSE]
SPARK, ALERTS, POOL = "giscope_spark", "giscope_alerts", "giscope"
EXIT_WITH_REASON = 2
"""Exit status of a giscope command that prints its reason in one line."""
NO_WAREHOUSE = "no such warehouse"
"""Part of that reason before the first day is published."""
MIDNIGHT = datetime.min.time().replace(tzinfo=UTC)

PACKETS, FLOWS, MARTS = (Asset(f"giscope_{table}") for table in ("packets", "flows", "marts"))


def network_arguments(network: Any) -> list[Any]:
    """Return the arguments of commands for one network of the networks file."""
    return [*WAREHOUSE_ARGUMENTS, "--networks", NETWORKS, "--network", network]


def name_network_and_day(context: Any, result: Any = None) -> None:
    """Add the network and the day to the events of assets, which cover all networks and days."""
    for asset in context["task"].outlets:
        changed = {"network": context["task"].name, "date": context["ds"]}
        context["outlet_events"][asset].extra = changed


def giscope_task(task_id: str, network: Any, arguments: Any, **options: Any) -> SparkSubmitOperator:
    """Return a task that runs a giscope command for a network, by spark-submit."""
    return SparkSubmitOperator(
        task_id=task_id,
        application=str(APPLICATION),
        conn_id=SPARK,
        name=network,
        application_args=arguments,
        map_index_template="{{ task.name }}",
        pool=POOL,
        post_execute=name_network_and_day,
        **options,
    )


def check_message(network: str, day: str | None) -> str | None:
    """Run `giscope check`; return its message on held days, or None.

    It reports the held days among those that it checks again, and this day.
    """
    command = ["giscope", "check", *network_arguments(network), "--date", str(day)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    print(done.stderr)
    if done.returncode == EXIT_WITH_REASON:
        return done.stderr.strip()
    done.check_returncode()
    return None


def send_alert(context: Any) -> None:
    """Send the reasons why days are held, if there is a connection giscope_alerts."""
    arguments = context["task"].op_kwargs
    if not arguments["reasons"]:
        return
    hook, services = AppriseHook(ALERTS), apprise.Apprise()
    try:
        hook.set_config_from_conn(hook.get_connection(ALERTS), services)
    except AirflowNotFoundException:
        print(f"no alert was sent: Airflow has no connection {ALERTS}")
        return
    title = f"giscope: {arguments['network']} is held back"
    if not services.notify(arguments["reasons"], title, apprise.NotifyType.FAILURE):
        raise RuntimeError(f"{ALERTS}: an alert could not be sent: {arguments['reasons']}")


@dag(
    schedule=ByDay("@daily", timezone="UTC"),
    start_date=datetime.combine(FIRST_DAY, MIDNIGHT),
    end_date=datetime.combine(LAST_DAY, MIDNIGHT) if LAST_DAY else None,
    catchup=True,
    max_active_runs=LATE_DAYS + 1,
    doc_md=__doc__,
    tags=["giscope"],
)
def giscope_daily() -> None:
    """Define the tasks of a day."""

    @task
    def networks() -> list[str]:
        """Return the names of the networks in the networks file."""
        return [entry["name"] for entry in tomllib.loads(Path(NETWORKS).read_text())["network"]]

    @task_group(default_args={"map_index_template": "{{ task.op_kwargs.network }}"})
    def network_day(network: str) -> None:
        @task.sensor(mode="reschedule", poke_interval=POLL_INTERVAL, timeout=TIMEOUT, retries=0)
        def complete(network: str, ds: str | None = None) -> bool:
            """Wait until the day's folder is complete."""
            folder = LANDING / network / str(ds)
            reason = incomplete_reason(folder, time.time(), QUIET_S, FOLLOW_LINKS)
            if reason:
                print(reason)
            return reason is None

        @task
        def folders(network: str, ds: str | None = None) -> list[str]:
            """Return the arguments of `giscope ingest`: folders of the day and of late files."""
            day = date.fromisoformat(str(ds))
            chosen = complete_folders(
                LANDING / network, day, LATE_DAYS, time.time(), QUIET_S, FOLLOW_LINKS
            )
            options = ["--keep-going", *(["--follow-links"] if FOLLOW_LINKS else [])]
            return ["ingest", *options, *network_arguments(network), *map(str, chosen)]

        @task(pool=POOL)
        def check(network: str, ds: str | None = None) -> str | None:
            """Check the day, and each day whose flows changed."""
            return check_message(network, ds)

        @task(on_success_callback=send_alert, on_failure_callback=send_alert)
        def passed(network: str, reasons: str | None, ds: str | None = None) -> None:
            """Fail if the day is held; for other held days only send an alert."""
            if reasons and (own := check_message(network, ds)):
                raise AirflowFailException(own)

        @task(outlets=[MARTS])
        def published(network: str, ds: str | None = None, outlet_events: Any = None) -> None:
            """Notify other DAGs that the day's marts are published."""
            outlet_events[MARTS].extra = {"network": network, "date": ds}

        read = folders(network=network)
        ingest = giscope_task("ingest", network, read, outlets=[PACKETS])
        flows = giscope_task(
            "flows", network, ["flows", *network_arguments(network)], outlets=[FLOWS]
        )
        checked = check(network=network)
        marts = giscope_task(
            "marts", network, ["marts", *WAREHOUSE_ARGUMENTS, "--network", network, "--checked"]
        )
        complete(network=network) >> read >> ingest >> flows >> checked >> marts
        [marts, passed(network=network, reasons=checked)] >> published(network=network)

    @task(pool=POOL)
    def maintain() -> None:
        """Remove data after its retention, merge small files, remove superseded files.

        `giscope maintain` also prints the size of the warehouse.
        """
        purge = ["giscope", "purge", *WAREHOUSE_ARGUMENTS, "--networks", NETWORKS]
        done = subprocess.run(purge, stderr=subprocess.PIPE, text=True, check=False)
        print(done.stderr)
        if done.returncode == EXIT_WITH_REASON and NO_WAREHOUSE in done.stderr:
            return
        done.check_returncode()
        subprocess.run(["giscope", "maintain", *WAREHOUSE_ARGUMENTS], check=True)

    maintain()
    network_day.expand(network=networks())


giscope_daily()
