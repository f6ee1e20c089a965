#!/bin/sh
# Build step of the images that run giscope: install its locked environment into .venv beside the sources.
# All images have Python 3.11, because Spark's drivers and executors need the same version.
set -eu
cd "$(dirname "$0")/../.."
uv_version=$(sed -n 's/^uv_version=//p' infra/setup.sh)
command -v uv >/dev/null || python3 -m pip install --quiet --no-cache-dir "uv==$uv_version"
export UV_PYTHON_INSTALL_DIR="${UV_PYTHON_INSTALL_DIR:-/opt/python}"
uv sync --locked --no-dev --no-cache --quiet --python 3.11
