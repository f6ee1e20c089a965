"""giscope's day: for each network wait for its captures, then packets, flows, checks, marts.

Networks are mapped task groups: one that waits or fails stops no other. Within a network Spark
spreads the capture files, and the buckets of users, over its tasks. Every step is a giscope command
that makes what is not up to date and publishes it whole: repeated runs, and two at once, give what
one gives.
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
from landing import complete_folders, missing

APPLICATION = Path(__file__).resolve().parents[1] / "infra/spark/giscope.py"
WAREHOUSE = os.environ["GISCOPE_WAREHOUSE"]
NETWORKS = os.environ["GISCOPE_NETWORKS"]
LANDING = Path(os.environ["GISCOPE_LANDING"])
FIRST_DAY = datetime.fromisoformat(os.environ["GISCOPE_FIRST_DAY"]).replace(tzinfo=UTC)
LAST_DAY = os.environ.get("GISCOPE_LAST_DAY")
QUIET_S = 60 * float(os.environ.get("GISCOPE_QUIET_MINUTES", "30"))
WAIT = timedelta(minutes=float(os.environ.get("GISCOPE_WAIT_MINUTES", "1200")))
LOOK_EVERY = timedelta(seconds=float(os.environ.get("GISCOPE_LOOK_SECONDS", "300")))
FOLLOW_LINKS = os.environ.get("GISCOPE_FOLLOW_LINKS", "0") == "1"
LATE_DAYS = int(os.environ.get("GISCOPE_LATE_DAYS", "7"))
STORE = ["--warehouse", WAREHOUSE]
SPARK, ALERTS, POOL = "giscope_spark", "giscope_alerts", "giscope"
REFUSED = 2
"""Exit status of a giscope command that says why in a line."""

PACKETS, FLOWS, MARTS = (Asset(f"giscope_{table}") for table in ("packets", "flows", "marts"))


def known(network: Any) -> list[Any]:
    """The arguments of commands for a network of the networks file."""
    return [*STORE, "--networks", NETWORKS, "--network", network]


def say_which(context: Any, result: Any = None) -> None:
    """Assets cover all networks and days: their events tell which one changed."""
    for asset in context["task"].outlets:
        which = {"network": context["task"].name, "date": context["ds"]}
        context["outlet_events"][asset].extra = which


def giscope(task_id: str, network: Any, arguments: Any, **options: Any) -> SparkSubmitOperator:
    """A giscope command for a network, by the connection's spark-submit."""
    return SparkSubmitOperator(
        task_id=task_id,
        application=str(APPLICATION),
        conn_id=SPARK,
        name=network,
        application_args=arguments,
        map_index_template="{{ task.name }}",
        pool=POOL,
        post_execute=say_which,
        **options,
    )


def held(network: str, day: str | None) -> str | None:
    """What giscope check says of days that it holds back: of those that it judged anew, and of this
    one; null where it holds none."""
    command = ["giscope", "check", *known(network), "--date", str(day)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    print(done.stderr)
    if done.returncode == REFUSED:
        return done.stderr.strip()
    done.check_returncode()
    return None


def tell(context: Any) -> None:
    """Why days are held back, to whom the connection giscope_alerts names, if there is one."""
    told = context["task"].op_kwargs
    if not told["reasons"]:
        return
    hook, services = AppriseHook(ALERTS), apprise.Apprise()
    try:
        hook.set_config_from_conn(hook.get_connection(ALERTS), services)
    except AirflowNotFoundException:
        print(f"nobody is told: no connection {ALERTS}")
        return
    title = f"giscope: {told['network']} is held back"
    if not services.notify(told["reasons"], title, apprise.NotifyType.FAILURE):
        raise RuntimeError(f"{ALERTS}: not all could be told that {told['reasons']}")


@dag(
    schedule=ByDay("@daily", timezone="UTC"),
    start_date=FIRST_DAY,
    end_date=datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) if LAST_DAY else None,
    catchup=True,
    max_active_runs=LATE_DAYS + 1,
    doc_md=__doc__,
    tags=["giscope"],
)
def giscope_daily() -> None:
    @task
    def networks() -> list[str]:
        """The names in the networks file."""
        return [entry["name"] for entry in tomllib.loads(Path(NETWORKS).read_text())["network"]]

    @task_group(default_args={"map_index_template": "{{ task.op_kwargs.network }}"})
    def network_day(network: str) -> None:
        @task.sensor(mode="reschedule", poke_interval=LOOK_EVERY, timeout=WAIT, retries=0)
        def complete(network: str, ds: str | None = None) -> bool:
            """Wait until the day's folder is complete."""
            reason = missing(LANDING / network / str(ds), time.time(), QUIET_S, FOLLOW_LINKS)
            if reason:
                print(reason)
            return reason is None

        @task
        def folders(network: str, ds: str | None = None) -> list[str]:
            """What to ingest: the day's folder, and earlier ones, for files that came late."""
            day = date.fromisoformat(str(ds))
            chosen = complete_folders(
                LANDING / network, day, LATE_DAYS, time.time(), QUIET_S, FOLLOW_LINKS
            )
            options = ["--keep-going", *(["--follow-links"] if FOLLOW_LINKS else [])]
            return ["ingest", *options, *known(network), *map(str, chosen)]

        @task(pool=POOL)
        def check(network: str, ds: str | None = None) -> str | None:
            """Judge the day, and each whose flows changed."""
            return held(network, ds)

        @task(on_success_callback=tell, on_failure_callback=tell)
        def passed(network: str, reasons: str | None, ds: str | None = None) -> None:
            """Red where the day is held back; of others it is only told."""
            if reasons and (own := held(network, ds)):
                raise AirflowFailException(own)

        @task(outlets=[MARTS])
        def published(network: str, ds: str | None = None, outlet_events: Any = None) -> None:
            """Tell other DAGs that the day's marts may be used."""
            outlet_events[MARTS].extra = {"network": network, "date": ds}

        read = folders(network=network)
        ingest = giscope("ingest", network, read, outlets=[PACKETS])
        flows = giscope("flows", network, ["flows", *known(network)], outlets=[FLOWS])
        checked = check(network=network)
        marts = giscope("marts", network, ["marts", *STORE, "--network", network, "--checked"])
        complete(network=network) >> read >> ingest >> flows >> checked >> marts
        [marts, passed(network=network, reasons=checked)] >> published(network=network)

    @task(pool=POOL)
    def maintain() -> None:
        """Remove what the networks file keeps no longer; merge small files, forget what earlier
        days' runs replaced, say how much there is."""
        if "://" in WAREHOUSE or Path(WAREHOUSE).is_dir():
            subprocess.run(["giscope", "purge", *STORE, "--networks", NETWORKS], check=True)
            subprocess.run(["giscope", "maintain", *STORE], check=True)

    maintain()
    network_day.expand(network=networks())


giscope_daily()
