"""Stand-ins for the images that docker-compose.yml names, where their registry cannot be reached.

Each is made of Debian's packages, of a Go module or of a program that was built elsewhere. It has
the official image's tag, users, folders and entry point. images/*/Dockerfile say how they differ.
"""

import re
import shutil
import subprocess
from pathlib import Path

from tests.helpers import zeek_program
from tests.programs.compose.programs import CACHE, SEAWEEDFS, build_go, install, run, source_of

IMAGES = Path(__file__).parent / "images"
CERTIFICATES = "/usr/local/share/ca-certificates"
"""Certificates that this machine trusts in addition; its containers then trust them, too."""
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"


def official_images() -> dict[str, str]:
    """Return the tag of each official image by the folder of its stand-in."""
    named = Path("docker-compose.yml").read_text()
    named += "".join(path.read_text() for path in Path("infra/docker").rglob("Dockerfile"))
    tags = set(re.findall(r"(?:image: |^FROM )([\w/.-]+:[\w.-]+)", named, re.MULTILINE))
    return {re.split("[/:]", tag)[-2]: tag for tag in sorted(tags)}


def missing_images() -> dict[str, str]:
    """Return those official images that are neither here nor can be pulled."""
    return {
        name: tag
        for name, tag in official_images().items()
        if subprocess.run(["docker", "image", "inspect", tag], capture_output=True).returncode
        and subprocess.run(["docker", "pull", "--quiet", tag], capture_output=True).returncode
    }


def make_stand_in(name: str, tag: str) -> bool:
    """Build the stand-in for an official image; return False if this machine lacks its program."""
    context = CACHE / "images" / name
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(IMAGES / name, context)
    if name == "zeek":
        archives = sorted(zeek_program.ARCHIVES.glob("zeek-*.tar.xz"))
        if not archives:
            return False
        run("tar", "-xJf", archives[-1], "-C", context)
    if name == "seaweedfs":
        program = CACHE / "weed"
        build_go(SEAWEEDFS, program)
        shutil.copy(program, context)
        shutil.copy(source_of(SEAWEEDFS) / "docker/entrypoint.sh", context)
        (context / "entrypoint.sh").chmod(0o755)
    (suite,) = re.findall(
        r"^FROM giscope-debian:(\w+)$", (context / "Dockerfile").read_text(), re.M
    )
    _make_debian(suite)
    run("docker", "build", "--tag", tag, context)
    return True


def _make_debian(suite: str) -> None:
    """Make the image of a minimal Debian."""
    tag = f"giscope-debian:{suite}"
    if subprocess.run(["docker", "image", "inspect", tag], capture_output=True).returncode == 0:
        return
    install("mmdebstrap")
    archive = CACHE / f"{suite}.tar"
    hooks = ['--customize-hook=chroot "$1" update-ca-certificates']
    if Path(CERTIFICATES).is_dir():
        hooks.insert(0, f"--customize-hook=sync-in {CERTIFICATES} {CERTIFICATES}")
    run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", *hooks, suite, archive)
    variables = f"ENV SSL_CERT_FILE={TRUSTED} PIP_CERT={TRUSTED}"
    run("docker", "import", "--change", variables, archive, tag)
    archive.unlink()
