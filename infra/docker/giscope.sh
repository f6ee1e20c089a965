#!/bin/sh
# Build step of the images that run giscope: its locked environment in .venv beside the sources, with
# Python 3.11 in all of them, as Spark's drivers and executors must agree.
set -eu
cd "$(dirname "$0")/../.."
uv_version=$(sed -n 's/^uv_version=//p' infra/setup.sh)
command -v uv >/dev/null || python3 -m pip install --quiet --no-cache-dir "uv==$uv_version"
export UV_PYTHON_INSTALL_DIR="${UV_PYTHON_INSTALL_DIR:-/opt/python}"
uv sync --locked --no-dev --no-cache --quiet --python 3.11
