"""docker-compose.yml, what it builds and what it starts: all that can be checked without Docker.

`make compose-test` starts it (tests/programs/compose).
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

from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_warehouse import publish
from tests.helpers.spark_programs import SPARK, WAIT_S, asked, free_port

COMPOSE = (ROOT / "docker-compose.yml").read_text()
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}")
CAPABILITIES = {"zeek": ["NET_ADMIN", "NET_RAW"]}
"""Zeek opens an interface, so it also runs as root."""
JAVA = {"giscope-airflow", "giscope-spark"}
SECRETS = "/run/secrets"
AIRFLOW_SERVICES = {
    f"airflow-{name}" for name in ("api-server", "dag-processor", "init", "scheduler", "triggerer")
}
DOCKERFILES = sorted((ROOT / "infra/docker").rglob("Dockerfile"))
STAGES = dict(
    re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)",
               (ROOT / "infra/docker/Dockerfile").read_text(), re.MULTILINE | re.DOTALL)
)  # fmt: skip
"""The stages of the Dockerfile with giscope, Airflow and Superset."""


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


def test_secrets_are_random_and_for_their_owner_only(compose, tmp_path):
    """Each is readable by whatever user a container has, in a folder that only its owner enters."""
    values = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        made_env(folder)
        assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / "secrets").stat().st_mode) == 0o700
        assert {path.name for path in folder.iterdir()} == {".env", "secrets"}
        files = sorted((folder / "secrets").iterdir())
        assert [path.name for path in files] == sorted(compose["secrets"])
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o444}
        values += [path.read_text() for path in files]
    assert all(len(value) >= 44 for value in values)
    assert len(set(values)) == len(values)
    assert not [value for value in values if value.endswith("\n") and "spark" not in value]


def test_values_in_env_are_never_overwritten(tmp_path):
    """Nor are the secrets."""
    (tmp_path / ".env").write_text("MINE=1\n")
    assert "exists, not changed" in made_env(tmp_path)
    made = {path: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    made_env(tmp_path)
    assert {path: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made
    assert (tmp_path / ".env").read_text().startswith("MINE=1\n")


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


def test_ports_are_published_on_loopback_only(compose):
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)
    hosts = [name for name, s in compose["services"].items() if s.get("network_mode") == "host"]
    assert hosts == ["zeek"]


def test_containers_are_not_root(compose):
    """By the file, or by the last user of the stage that they are built from; zeek is."""
    for name, service in compose["services"].items():
        stage = STAGES.get(service["image"].removeprefix("giscope-"), "")
        users = re.findall(r"^USER (\S+)", stage, re.MULTILINE)
        user = service.get("user") or (users[-1] if users else "root")
        assert (user in ("root", "0", "0:0")) == (name == "zeek"), name


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
    packages = {parent for path in needed for parent in Path(path).parents if parent.name}
    assert copied == needed | {f"{package}/__init__.py" for package in packages}


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
