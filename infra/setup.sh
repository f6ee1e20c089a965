#!/bin/sh
# Make the environment of giscope: uv and the locked dependencies, for which uv sync gets this script's
# arguments; with --all-extras also a Java runtime, for Spark.
# The machine needs Python 3.11 to 3.14. If the script may not install a package, it prints which one is
# needed.
set -eu
uv_version=0.13.8

say() { echo "setup: $*" >&2; }
may_apt() { command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; }
apt() {
    [ -n "${apt_updated:-}" ] || { apt-get update -qq; apt_updated=yes; }
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

python=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v $candidate >/dev/null &&
        $candidate -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || { say "giscope needs Python 3.11 to 3.14: install python3"; exit 1; }

if command -v uv >/dev/null; then
    uv=uv
else
    uv=.tools/bin/uv
    if [ ! -x $uv ]; then
        say "installing uv $uv_version into .tools"
        rm -rf .tools
        $python -m venv .tools 2>/dev/null || {
            rm -rf .tools
            may_apt || { say "giscope needs python3-venv: sudo apt-get install python3-venv"; exit 1; }
            apt python3-venv
            $python -m venv .tools
        }
        .tools/bin/pip install --quiet --disable-pip-version-check "uv==$uv_version"
    fi
fi

java_major() {
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 |
        sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}
major=$(java_major || true)
if [ "$*" = --all-extras ] && [ "${major:-0}" -lt 17 ]; then
    needed=$(apt-cache search --names-only '^openjdk-[0-9]+-jre-headless$' 2>/dev/null |
        cut -d' ' -f1 | sort -V | awk -F- '$2 >= 17' | head -n 1 || true)
    if ! may_apt; then
        say "no Java runtime 17 or newer: Spark and make test need one:" \
            "sudo apt-get install ${needed:-openjdk-17-jre-headless}"
    else
        if [ -z "$needed" ]; then
            apt-get update -qq && apt_updated=yes
            needed=$(apt-cache search --names-only '^openjdk-[0-9]+-jre-headless$' |
                cut -d' ' -f1 | sort -V | awk -F- '$2 >= 17' | head -n 1)
        fi
        say "installing $needed"
        apt "$needed"
    fi
fi

say "installing the locked dependencies into .venv"
$uv sync --locked --quiet --python "$python" "$@"
