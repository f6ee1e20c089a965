"""infra/kubernetes beside docker-compose.yml, and the rules of `make kubernetes-check`."""

import copy
import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml
from conftest import ROOT

from tests.programs import kubernetes_check
from tests.programs.kubernetes_check import (
    CHARTS,
    IMAGES,
    INFRA,
    PAGE,
    leaves,
    load,
    references,
    weaknesses,
)

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
AIRFLOW, SUPERSET, TEMPLATE = (
    yaml.safe_load((INFRA / name).read_text())
    for name in ("airflow.yaml", "superset.yaml", "executor.yaml")
)
EXECUTOR = TEMPLATE["spec"]
SERVICES = {
    "scheduler": ("airflow-scheduler", AIRFLOW["scheduler"]),
    "apiServer": ("airflow-api-server", AIRFLOW["apiServer"]),
    "dagProcessor": ("airflow-dag-processor", AIRFLOW["dagProcessor"]),
    "triggerer": ("airflow-triggerer", AIRFLOW["triggerer"]),
    "migrateDatabaseJob": ("airflow-init", AIRFLOW["migrateDatabaseJob"]),
    "executor": ("spark-worker", EXECUTOR),
    "superset": ("superset-init", SUPERSET),
}
"""Our part of the values, or of a pod: its service in docker-compose.yml."""
OBJECT_STORE = {"object_store_key", "object_store_secret"}
"""Secrets for options that the values do not set."""
OF_KUBERNETES = {"POD_NAME"}
"""Variables that docker-compose.yml does not need."""


def secrets_of(part: dict) -> set[str]:
    """Return the names in docker-compose.yml of the secrets that a part uses."""
    names = {name for kind, name in references(part) if kind == "secret"}
    return {name.replace("-", "_") if name != "spark-defaults.conf" else name for name in names}


def variables(part: dict) -> Iterator[str]:
    """Yield the names of the environment variables that a part sets."""
    for key, value in leaves(part):
        if key == "env":
            yield from (entry["name"] for entry in value)
        elif key == "extraEnv":
            yield from (
                value
                if isinstance(value, dict)
                else (entry["name"] for entry in yaml.safe_load(value))
            )


@pytest.mark.parametrize("name", SERVICES)
def test_each_pod_has_the_secrets_of_its_service(name):
    service, part = SERVICES[name]
    assert secrets_of(part) == set(COMPOSE[service]["secrets"]) - OBJECT_STORE


@pytest.mark.parametrize(
    ("parts", "services"),
    [
        ((AIRFLOW,), [name for name in COMPOSE if name.startswith("airflow-")]),
        ((SUPERSET,), ["superset", "superset-init"]),
        ((EXECUTOR,), ["spark-worker"]),
    ],
    ids=["airflow", "superset", "executor"],
)
def test_variables_are_those_of_docker_compose(parts, services):
    known = {name for service in services for name in COMPOSE[service].get("environment", {})}
    named = {name for part in parts for name in variables(part)}
    assert named
    assert named - known - OF_KUBERNETES == set()


def test_images_are_those_that_docker_compose_builds():
    built = {service["image"] for service in COMPOSE.values() if "build" in service}
    assert built >= IMAGES
    lines = (INFRA / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    image, tag = settings["spark.kubernetes.container.image"].split(":")
    airflow, superset = AIRFLOW["images"]["airflow"], SUPERSET["image"]
    assert {image, airflow["repository"], superset["repository"]} == IMAGES
    assert {tag, airflow["tag"], superset["tag"]} == {tag}


def test_superset_starts_as_in_docker_compose():
    assert SUPERSET["supersetNode"]["command"] == COMPOSE["superset"]["command"]
    mounted = {mount["mountPath"] for mount in SUPERSET["extraVolumeMounts"]}
    volumes = COMPOSE["superset"]["volumes"]
    assert {volume.split(":")[1] for volume in volumes} <= mounted


def test_one_shot_jobs_run_the_scripts_of_docker_compose():
    for service, command in (
        ("airflow-init", AIRFLOW["migrateDatabaseJob"]["command"]),
        ("superset-init", SUPERSET["init"]["command"]),
    ):
        started = COMPOSE[service].get("entrypoint") or COMPOSE[service]["command"]
        assert started == command[-len(started) :]


def test_the_page_names_files_charts_secrets_and_volumes():
    page = PAGE.read_text()
    assert [file.name for file in INFRA.iterdir() if f"{file.name}](../infra" not in page] == []
    for repository, version in CHARTS.values():
        assert f"--repo {repository} --version {version} " in page
    manifests = load((INFRA / "giscope.yaml").read_text(), (INFRA / "executor.yaml").read_text())
    for values in (AIRFLOW, SUPERSET):
        manifests.append({"kind": "Pod", "metadata": {}, "spec": values})
    assert kubernetes_check.not_explained(manifests, page) == set()
    assert kubernetes_check.not_explained(manifests, "") != set()


def test_the_page_makes_every_secret_that_a_pod_uses(tmp_path):
    """Its loop, with a kubectl that only prints its arguments."""
    (loop,) = re.findall(r"^for file in .*?^done$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    subprocess.run(["sh", ROOT / "infra/env.sh", tmp_path], check=True, capture_output=True)
    script = f'kubectl() {{ echo "$4 $6"; }}\n{loop}'
    made = subprocess.check_output(["sh", "-euc", script], cwd=tmp_path, text=True).splitlines()
    files = dict(line.split() for line in made)
    assert all((tmp_path / file).is_file() for file in files.values())
    used = set().union(*(references(part) for _, part in SERVICES.values()))
    assert {name for kind, name in used if kind == "secret"} == set(files)


def test_the_template_of_executors_follows_the_rules():
    assert list(weaknesses(EXECUTOR)) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"image": "another:1"}, "not ours"),
        ({"securityContext": {"runAsUser": 0}}, "root"),
        ({"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}}, "capabilit"),
        ({"securityContext": {"allowPrivilegeEscalation": True}}, "gain rights"),
        ({"securityContext": {"readOnlyRootFilesystem": False}}, "write"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "system calls"),
        ({"env": [{"name": "DB_PASSWORD", "value": "x"}]}, "not the name of a file"),
        ({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}, "holds a secret"),
    ],
)
def test_a_container_that_breaks_a_rule_is_found(change, found):
    pod = copy.deepcopy(EXECUTOR)
    context = pod["containers"][0]["securityContext"] | change.get("securityContext", {})
    pod["containers"][0] |= change | {"securityContext": context}
    (reason,) = weaknesses(pod)
    assert found in reason


def test_tokens_and_secrets_in_manifests_are_found():
    account = {"kind": "ServiceAccount", "metadata": {"name": "a"}}
    pod = {"kind": "Pod", "metadata": {}, "spec": {"serviceAccountName": "a", "containers": []}}
    assert kubernetes_check.accounts_with_token([account, pod]) == {"a"}
    closed = account | {"automountServiceAccountToken": False}
    assert kubernetes_check.accounts_with_token([closed, pod]) == set()
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"DB_PASS": "", "x": "y"}}
    assert list(kubernetes_check.plain_secrets([secret])) == []
    secret["stringData"]["DB_PASS"] = "superset"
    assert list(kubernetes_check.plain_secrets([secret])) == ["s: DB_PASS"]
