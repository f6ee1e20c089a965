"""docker-compose.yml, what it builds and what it starts: all that can be checked without Docker.

`make compose-test` starts it (tests/compose).
"""

import itertools
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose
from conftest import ROOT
from test_spark_sql import SPARK, WAIT_S, asked, free_port
from test_warehouse import publish

from spark_jobs.warehouse.store import Warehouse
from tests.compose.stand_ins import official_images

COMPOSE = (ROOT / "docker-compose.yml").read_text()
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}")
ONE_SHOT = {"airflow-init", "superset-init", "zeek-init"}
CAPABILITIES = {"zeek": ["NET_ADMIN", "NET_RAW"]}
"""Zeek opens an interface, so it also runs as root."""
JAVA = {"giscope-airflow", "giscope-spark"}
SECRETS = "/run/secrets"
CONNECTED = {
    *(("postgres", other) for other in (
        "airflow-api-server", "airflow-dag-processor", "airflow-init", "airflow-scheduler",
        "airflow-triggerer", "spark-thrift", "superset", "superset-init",
    )),
    ("airflow-api-server", "airflow-scheduler"),  # its tasks report there; it reads their logs
    ("airflow-api-server", "airflow-dag-processor"),  # their health checks ask it
    ("airflow-api-server", "airflow-triggerer"),
    ("object-store", "airflow-scheduler"), ("object-store", "spark-worker"),
    ("spark-master", "spark-worker"),
    ("spark-master", "airflow-scheduler"), ("spark-worker", "airflow-scheduler"),
    ("spark-master", "spark-thrift"), ("spark-worker", "spark-thrift"),
}  # fmt: skip
"""Services of which one connects to the other."""
SPARK_NETWORK = {"spark-master", "spark-worker", "spark-thrift", "airflow-scheduler"}
"""All of one network: a worker's executors listen on one address, for both drivers."""
AIRFLOW_SERVICES = {
    f"airflow-{name}" for name in ("api-server", "dag-processor", "init", "scheduler", "triggerer")
}
USERS_OF_SECRET = {
    "airflow_admin_password": {"airflow-init"},
    "airflow_api_secret_key": AIRFLOW_SERVICES,
    "airflow_db_password": AIRFLOW_SERVICES | {"postgres"},
    "airflow_fernet_key": AIRFLOW_SERVICES,
    "airflow_jwt_secret": AIRFLOW_SERVICES,
    "giscope_db_password": {"airflow-scheduler", "postgres", "spark-thrift"},
    "giscope_key": {"airflow-scheduler", "spark-worker"},
    "object_store_key": {"airflow-scheduler", "object-store", "spark-worker"},
    "object_store_secret": {"airflow-scheduler", "object-store", "spark-worker"},
    "postgres_password": {"postgres"},
    "spark-defaults.conf": SPARK_NETWORK,
    "superset_admin_password": {"superset-init"},
    "superset_db_password": {"postgres", "superset", "superset-init"},
    "superset_secret_key": {"superset", "superset-init"},
}
"""The services that use a secret. The key of the pseudonyms: Airflow's tasks, which are giscope's
drivers, and Spark's executors."""
DOCKERFILES = sorted((ROOT / "infra/docker").rglob("Dockerfile"))
STAGES = dict(
    re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)",
               (ROOT / "infra/docker/Dockerfile").read_text(), re.MULTILINE | re.DOTALL)
)  # fmt: skip
"""The stages of the Dockerfile with giscope, Airflow and Superset."""
USERS_OF_IMAGES = {"postgres": {"postgres"}, "chrislusf/seaweedfs": {"1000"}}
"""Users that official images have."""


def settings(file: Path) -> dict[str, str]:
    """Read the variables that an .env file sets."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def made_env(folder: Path) -> str:
    """Make .env and the secrets in a folder by infra/env.sh; returns its output."""
    command = ["sh", ROOT / "infra/env.sh", folder]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def env_file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    made_env(folder)
    return folder / ".env"


@pytest.fixture(scope="session")
def secrets(env_file) -> Path:
    """The folder of the secrets."""
    return env_file.parent / "secrets"


@pytest.fixture(scope="session")
def compose(env_file) -> dict:
    """The file as Compose reads it with the .env that infra/env.sh makes."""
    known = settings(env_file)

    def value(match: re.Match) -> str:
        name, kind, other = match.groups()
        return known[name] if kind == "?" else known.get(name, other or "")

    return yaml.safe_load(VARIABLE.sub(value, COMPOSE))


def arguments(dockerfile: Path, instruction: str) -> list[str]:
    """Return the arguments of each use of an instruction, continued lines joined."""
    text = dockerfile.read_text().replace("\\\n", " ")
    return re.findall(rf"^{instruction} (.*)$", text, re.MULTILINE)


def test_secrets_are_random_and_for_their_owner_only(tmp_path):
    """Each is readable by whatever user a container has, in a folder that only its owner enters."""
    values = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        made_env(folder)
        assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / "secrets").stat().st_mode) == 0o700
        assert {path.name for path in folder.iterdir()} == {".env", "secrets"}
        files = sorted((folder / "secrets").iterdir())
        assert [path.name for path in files] == sorted(USERS_OF_SECRET)
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o444}
        values += [path.read_text() for path in files]
    assert all(len(value) >= 44 for value in values)
    assert len(set(values)) == len(values)
    assert not [value for value in values if value.endswith("\n") and "spark" not in value]


def test_values_in_env_are_never_overwritten(tmp_path):
    """And secrets that an old .env holds are kept."""
    (tmp_path / ".env").write_text("MINE=1\nGISCOPE_KEY=0123\nAIRFLOW_DB_PASSWORD=old\n")
    output = made_env(tmp_path)
    assert "exists, not changed" in output
    assert "remove the passwords and keys from it" in output
    made = {path: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert made[tmp_path / "secrets/giscope_key"] == "0123"
    assert made[tmp_path / "secrets/airflow_db_password"] == "old"
    made_env(tmp_path)
    assert {path: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made
    assert (tmp_path / ".env").read_text().startswith("MINE=1\n")


@pytest.mark.parametrize(
    "service", sorted({name for who in USERS_OF_SECRET.values() for name in who})
)
def test_a_service_has_the_secrets_that_it_uses_and_no_others(compose, service):
    has = compose["services"][service]["secrets"]
    assert sorted(has) == sorted(name for name, who in USERS_OF_SECRET.items() if service in who)
    text = str({k: v for k, v in compose["services"][service].items() if k != "secrets"})
    named = set(re.findall(rf"{SECRETS}/([\w.-]*\w)", text))
    assert named <= set(has)


def test_no_other_service_has_a_secret(compose):
    having = {name for name, service in compose["services"].items() if service.get("secrets")}
    assert having == set().union(*USERS_OF_SECRET.values())
    assert set(compose["secrets"]) == set(USERS_OF_SECRET)
    for name, secret in compose["secrets"].items():
        assert secret == {"file": f"./secrets/{name}"}


def test_no_secret_is_in_the_file_or_its_environment(compose, secrets):
    """`docker inspect` and `docker compose config` show both."""
    text = yaml.safe_dump(compose)
    for path in secrets.iterdir():
        values = [word for word in path.read_text().split() if len(word) >= 40]
        assert [value for value in values if value in text] == [], path.name
    names = {name for name, *_ in VARIABLE.findall(COMPOSE)}
    assert [name for name in names if re.search("PASSWORD|SECRET(?!S$)|KEY|TOKEN", name)] == []
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY|CREDENTIAL|TOKEN", variable):
                assert variable.endswith(("_FILE", "_CMD")), (name, variable)
                assert SECRETS in value or variable.endswith("PASSWORDS_FILE"), (name, variable)


def test_services_share_a_network_only_where_they_talk(compose):
    services = compose["services"]
    of = {name: set(service.get("networks") or ()) for name, service in services.items()}
    connected = {frozenset(pair) for pair in CONNECTED}
    assert set().union(*of.values()) == set(compose["networks"])
    for one, other in itertools.combinations(services, 2):
        shared = of[one] & of[other]
        if {one, other} <= SPARK_NETWORK:
            assert shared == {"spark"}, (one, other)
        else:
            assert len(shared) == (frozenset((one, other)) in connected), (one, other)
    assert {name for name in of if "spark" in of[name]} == SPARK_NETWORK
    alone = {name for name in services if not of[name]}
    assert {name: services[name]["network_mode"] for name in alone} == {
        "zeek": "host", "zeek-init": "none",
    }  # fmt: skip
    assert all(len([n for n in of if network in of[n]]) >= 2 for network in compose["networks"])


def test_services_that_are_named_by_others_share_a_network_with_them(compose):
    """Every service that an environment or a command names is on a network with it."""
    services = compose["services"]
    for name, service in services.items():
        text = str([service.get("command"), service.get("environment")])
        for other in re.findall(r"://(?:[^@/\s]*@)?([a-z][\w-]*)", text):
            if other in services and other != name:
                assert set(service["networks"]) & set(services[other]["networks"]), (name, other)


def test_spark_listens_on_the_network_of_spark(compose):
    """Each at an address by which all others of that network, and nobody else, reach it: a
    container of several networks has several."""
    services = compose["services"]
    assert services["spark-master"]["networks"] == ["spark"]
    names = {"spark-worker": "worker", "spark-thrift": "thrift", "airflow-scheduler": "scheduler"}
    for service, name in names.items():
        assert services[service]["networks"]["spark"] == {"aliases": [f"{name}.spark"]}
    worker = services["spark-worker"]["command"]
    assert worker[worker.index("--host") + 1] == "worker.spark"
    for service in ("spark-thrift", "airflow-scheduler"):
        asked = services[service]["environment"]["SPARK_LOCAL_HOSTNAME"]
        assert asked == f"{names[service]}.spark"
    assert services["spark-master"]["command"][3] == services["spark-master"]["hostname"]


def test_spark_asks_for_its_secret(compose, secrets):
    """Its settings are where all four look for them; none is on a command line."""
    lines = (secrets / "spark-defaults.conf").read_text().splitlines()
    found = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert len(found.pop("spark.authenticate.secret")) == 64
    assert found == {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.master.rest.enabled": "false",
        "spark.ui.killEnabled": "false",
    }
    for name in SPARK_NETWORK:
        assert compose["services"][name]["environment"]["SPARK_CONF_DIR"] == SECRETS
        assert "authenticate" not in str(compose["services"][name]["command"])


def test_file_follows_the_compose_specification(compose):
    assert set(PyCompose.from_yaml(yaml.safe_dump(compose)).service_names()) == set(
        compose["services"]
    )


def test_docker_compose_accepts_the_file(env_file):
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("needs the command `docker compose`, but no engine")
    command = [docker, "compose", "--env-file", env_file, "--profile", "zeek", "config", "--quiet"]
    subprocess.run(command, cwd=ROOT, check=True)


def test_required_variables_are_those_that_env_has(env_file):
    asked = {name for name, kind, _ in VARIABLE.findall(COMPOSE) if kind == "?"}
    assert asked == set(settings(env_file)) == {"GISCOPE_FIRST_DAY"}


def test_every_service_that_keeps_running_has_a_health_check(compose):
    for name, service in compose["services"].items():
        assert ("healthcheck" in service) == (name not in ONE_SHOT), name


def test_services_start_after_the_services_that_they_need(compose):
    """Healthy where it serves, completed where it is run once; nothing waits in a circle."""
    after = {name: service.get("depends_on", {}) for name, service in compose["services"].items()}
    for name, others in after.items():
        for other, how in others.items():
            expected = "completed_successfully" if other in ONE_SHOT else "healthy"
            assert how["condition"] == f"service_{expected}", (name, other)
    started: set[str] = set()
    while ready := {
        n for n, others in after.items() if n not in started and set(others) <= started
    }:
        started |= ready
    assert started == set(compose["services"])


def test_ports_are_published_on_loopback_only(compose):
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)
    hosts = [name for name, s in compose["services"].items() if s.get("network_mode") == "host"]
    assert hosts == ["zeek"]


def test_volumes_are_named_and_mounted_where_they_are_used(compose):
    mounts = [m for s in compose["services"].values() for m in s.get("volumes", [])]
    named = {mount.split(":")[0] for mount in mounts if not mount.startswith(".")}
    assert named == set(compose["volumes"])
    files = {mount.split(":")[0] for mount in mounts if mount.startswith(".")}
    assert all((ROOT / file).is_file() for file in files)
    assert all(mount.endswith(":ro") for mount in mounts if mount.startswith("."))


def test_giscope_folders_lie_at_one_place_in_all_containers(compose):
    """The views' paths are absolute."""
    for service in compose["services"].values():
        for mount in service.get("volumes", []):
            name, place = mount.split(":")[:2]
            if name in ("warehouse", "landing", "airflow"):
                assert place == f"/srv/giscope/{name}"


def test_containers_are_not_root(compose):
    """By the file, or by the last user of the stage that they are built from; zeek is."""
    for name, service in compose["services"].items():
        stage = STAGES.get(service["image"].removeprefix("giscope-"), "")
        users = re.findall(r"^USER (\S+)", stage, re.MULTILINE)
        user = service.get("user") or (users[-1] if users else "root")
        assert (user in ("root", "0", "0:0")) == (name == "zeek"), name


def test_users_are_known_in_their_images(compose):
    """Hadoop's log-in, for one, fails for a user without a name."""
    made = set(re.findall(r"useradd --uid (\d+)", "".join(STAGES.values())))
    for name, service in compose["services"].items():
        if user := service.get("user"):
            known = USERS_OF_IMAGES.get(service["image"].split(":")[0], made)
            assert user.split(":")[0] in known, name


def test_memory_and_logs_are_bounded(compose):
    for name, service in compose["services"].items():
        assert re.fullmatch(r"\d+g", service["mem_limit"]), name
        assert {"max-size", "max-file"} <= set(service["logging"]["options"]), name


def test_settings_of_the_dag_reach_airflow(compose):
    """Each variable that dags/ reads is in the containers, or passed on from .env."""
    read = set(
        re.findall(r'"(GISCOPE_\w+)"', "".join(p.read_text() for p in (ROOT / "dags").glob("*.py")))
    )
    assert "GISCOPE_LATE_DAYS" in read
    for name in AIRFLOW_SERVICES:
        assert read <= set(compose["services"][name]["environment"]), name
    assert compose["services"]["airflow-scheduler"]["environment"][
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"
    ] == "false"  # fmt: skip


def test_containers_have_no_rights_and_write_to_volumes_only(compose):
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service.get("cap_add", []) == CAPABILITIES.get(name, []), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert ("/tmp:exec" if service["image"] in JAVA else "/tmp") in service["tmpfs"], name
        assert not {"privileged", "devices", "pid", "ipc", "userns_mode"} & set(service), name
        assert not [mount for mount in service["volumes"] if mount.startswith(("/", "~"))], name


def test_writers_of_the_warehouse_are_one_user(compose):
    """Their lock files are opened for writing."""
    users = {
        service["user"]
        for service in compose["services"].values()
        if "warehouse:/srv/giscope/warehouse" in service.get("volumes", [])
    }
    assert users == {"50000:0"}
    assert "install -d -o 50000 -g 0" in STAGES["environment"]


def test_a_running_zeek_sees_old_or_new_options_and_no_others(compose, tmp_path):
    """zeek-init's command, with a giscope that prints what it finds, or fails."""
    options, giscope = tmp_path / "landing/.zeek/subscribers.zeek", tmp_path / "giscope"
    options.parent.mkdir(parents=True)
    options.write_text("old")
    command = [
        word.replace("$$", "$").replace("/srv/giscope", str(tmp_path))
        for word in compose["services"]["zeek-init"]["command"]
    ]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NETWORK": "aa-gprs"}
    for script, status in ((f"cat {options}; echo new", 0), ("echo half; exit 2", 2)):
        giscope.write_text(f"#!/bin/sh\n{script}\n")
        giscope.chmod(0o755)
        done = subprocess.run(command, env=environment, check=False)
        assert (done.returncode, options.read_text()) == (status, "oldnew\n")


def test_images_are_pinned(compose):
    upstream = [image for file in DOCKERFILES for image in arguments(file, "FROM")]
    upstream += {s["image"] for s in compose["services"].values() if "giscope" not in s["image"]}
    upstream = [image.split(" AS ")[0] for image in upstream if image.split()[0] not in STAGES]
    assert len(upstream) == 4
    assert all(re.search(r":\d+(\.\d+)+", image) for image in upstream), upstream


def test_each_image_is_built_by_one_service(compose):
    """Compose labels an image with the service: two that build it would replace each other's, and
    all containers, at each start."""
    services = compose["services"].values()
    built = [(s["image"], s["build"].get("target", "zeek")) for s in services if "build" in s]
    ours = {s["image"] for s in services if s["image"].startswith("giscope-")}
    assert sorted(built) == sorted((image, image.removeprefix("giscope-")) for image in ours)


def test_every_official_image_has_a_stand_in():
    named = official_images()
    assert len(named) == 4
    assert all((ROOT / f"tests/compose/images/{name}/Dockerfile").is_file() for name in named)


def test_supersets_image_has_the_modules_that_its_settings_import():
    """Those of giscope, which its environment lacks, and the modules that these import."""
    stage = STAGES["superset"].replace("\\\n", " ")
    copies = [line.split()[1:] for line in re.findall(r"COPY spark_jobs/.*", stage)]
    assert all(f"{Path(path).parent}/" == target for *paths, target in copies for path in paths)
    copied = {path for *paths, _ in copies for path in paths}
    waiting, seen = (
        [Path("infra/superset/superset_config.py"), Path("infra/superset/init.py")],
        set(),
    )
    while waiting:
        module = waiting.pop()
        seen.add(module)
        names = re.findall(
            r"^\s*(?:from|import) ([.\w]+)", (ROOT / module).read_text(), re.MULTILINE
        )
        paths = [Path(name.replace(".", "/") + ".py") for name in names]
        imported = [*paths, *(Path("infra/superset") / path for path in paths)]
        waiting += [path for path in imported if (ROOT / path).is_file() and path not in seen]
    needed = {str(path) for path in seen if path.parts[0] == "spark_jobs"}
    assert needed
    assert copied == needed | {f"{Path(path).parent}/__init__.py" for path in needed}


def test_scripts_that_services_run_exist():
    opened = re.findall(r"/opt/giscope/([\w/.-]+\.(?:sh|py))", COMPOSE)
    assert len(opened) >= 3
    assert all((ROOT / path).exists() for path in opened)


@pytest.mark.parametrize("script", sorted((ROOT / "infra").rglob("*.sh")), ids=lambda p: p.name)
def test_scripts_parse(script):
    subprocess.run(["sh", "-n", script], check=True)


FAKE_DOCKER = """#!/bin/sh
case "$1 $2" in
info*) exit {engine} ;;
'compose version') echo {compose} ;;
'buildx version') echo github.com/docker/buildx {buildx} 28c90eadc ;;
*) echo "not reached: $*"; exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("engine", "compose", "buildx", "message"),
    [
        (1, "2.40.3", "v0.29.1", "no Docker engine answers"),
        (0, "2.23.3", "v0.29.1", "needs Docker Compose 2.24 or newer, not 2.23.3"),
        (0, "v2.40.3", "v0.9.1", "needs Docker's plugin buildx 0.17 or newer, not v0.9.1"),
    ],
)
def test_make_up_names_what_is_missing_in_one_line(tmp_path, engine, compose, buildx, message):
    docker = tmp_path / "docker"
    docker.write_text(FAKE_DOCKER.format(engine=engine, compose=compose, buildx=buildx))
    docker.chmod(0o755)
    done = subprocess.run(
        ["sh", ROOT / "infra/up.sh"], capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"make up: {message}")
    assert done.stderr.count("\n") == 1


def test_only_days_of_networks_are_landed(tmp_path):
    (tmp_path / "aa-gprs").mkdir()
    (tmp_path / "aa-gprs/peak.pcap").touch()
    command = ["sh", ROOT / "infra/land.sh", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (
        done.stderr
        == f"land.sh: {tmp_path}: no file <network>/<YYYY-MM-DD>/<file> in this folder\n"
    )


@pytest.mark.slow
def test_postgres_gets_databases_each_closed_to_the_others(secrets):
    """The image runs the script with psql, on a server that it has started on a socket."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found or os.geteuid():
        pytest.skip("needs PostgreSQL's server, and root to run it as the user postgres")
    programs, place = found[-1].parent, Path(tempfile.mkdtemp(prefix="giscope-"))
    shutil.chown(place, "postgres")
    shutil.copytree(secrets, place / "secrets")
    (place / "secrets").chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}", "PGHOST": str(place),
        "POSTGRES_USER": "postgres", "SECRETS": str(place / "secrets"),
    }  # fmt: skip

    def run(*command: object, given: str = "", **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            list(map(str, command)), env=environment | more, user="postgres", cwd=place,
            input=given, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def connects(role: str, database: str, password: str) -> bool:
        return (
            run("psql", "-U", role, "-d", database, "-c", "", PGPASSWORD=password).returncode == 0
        )

    data = place / "data"
    assert run("initdb", "-D", data, "-U", "postgres").returncode == 0
    (data / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    options = f"-c listen_addresses='' -c unix_socket_directories={place}"
    try:
        assert (
            run("pg_ctl", "-D", data, "-l", data / "log", "-w", "-o", options, "start").returncode
            == 0
        )
        made = run("sh", "-s", given=(ROOT / "infra/docker/postgres/databases.sh").read_text())
        assert made.returncode == 0, made.stderr
        names = ("airflow", "superset", "giscope")
        for name, other in itertools.permutations(names, 2):
            password = (secrets / f"{name}_db_password").read_text()
            assert connects(name, name, password)
            assert not connects(name, name, "another")
            assert not connects(name, other, password)
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(place)


@pytest.mark.slow
def test_spark_services_run_and_answer_as_the_file_starts_them(compose, secrets, tmp_path):
    """Their commands and health checks, with the pyspark package for the image."""
    warehouse = Warehouse(tmp_path / "w")
    publish(warehouse, "AA")
    warehouse.update_views()
    port = {name: str(free_port()) for name in ("7077", "8080", "8081", "10000")}
    here = {
        "/opt/giscope": str(ROOT), "/srv/giscope/warehouse": str(warehouse.root),
        "/tmp/spark-work": str(tmp_path / "work"), "spark-master": "127.0.0.1",
        "0.0.0.0": "127.0.0.1", "worker.spark": "127.0.0.1", **port,
    }  # fmt: skip
    environment = os.environ | {
        "PATH": f"{SPARK}/bin:{os.environ['PATH']}", "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(secrets),
    }  # fmt: skip

    def replaced(words: list[str]) -> list[str]:
        names = "|".join(map(re.escape, here))
        return [re.sub(names, lambda match: here[match[0]], str(word)) for word in words]

    def healthy(test: list[str]) -> bool:
        deadline = time.monotonic() + WAIT_S
        while subprocess.run(replaced(test[1:]), env=environment, capture_output=True).returncode:
            if time.monotonic() > deadline:
                return False
            time.sleep(1)
        return True

    running = []
    try:
        for name in ("spark-master", "spark-worker", "spark-thrift"):
            service = compose["services"][name]
            log = (tmp_path / name).open("w")
            command = replaced(service["command"])
            running.append(
                subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log)
            )
            assert healthy(service["healthcheck"]["test"]), (tmp_path / name).read_text()
        assert asked(int(port["10000"]), "select country from networks") == "AA"
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(WAIT_S)


def test_airflow_finds_dags_and_plugins(compose):
    environment = compose["services"]["airflow-scheduler"]["environment"]
    for folder in ("DAGS_FOLDER", "PLUGINS_FOLDER"):
        inside = Path(environment[f"AIRFLOW__CORE__{folder}"]).relative_to("/opt/giscope")
        assert list((ROOT / inside).glob("*.py")), folder
