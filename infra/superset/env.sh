# Sourced by the scripts here: sets Superset's variables, and puts its programs first on the path.
cd "$(dirname "$0")/../.."
export SUPERSET_HOME="${SUPERSET_HOME:-$PWD/build/superset}"
export SUPERSET_CONFIG_PATH="$PWD/infra/superset/superset_config.py"
export GISCOPE_WAREHOUSE="${GISCOPE_WAREHOUSE:-$PWD/build/demo}"
export PATH="$PWD/.venv-superset/bin:$PATH"
