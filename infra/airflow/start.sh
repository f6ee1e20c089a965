#!/bin/sh
# Run Airflow's four processes on this machine, until Ctrl-C. They are those of `airflow standalone`, but
# without the log server: it listens on every address, and the log files are on this machine anyway. Tasks
# need the API server, so the other processes start when it answers.
set -eu
cd "$(dirname "$0")/../.."
export AIRFLOW_HOME="${AIRFLOW_HOME:-$PWD/build/airflow}"
export AIRFLOW__API__PORT="${AIRFLOW__API__PORT:-8080}"
password="$AIRFLOW_HOME/simple_auth_manager_passwords.json.generated"
airflow=infra/airflow/airflow
umask 077
mkdir -p "$AIRFLOW_HOME/output"

server() { # $1: Python code that sends a request
    .venv-airflow/bin/python -c "
from http.client import HTTPConnection
server = HTTPConnection('127.0.0.1', $AIRFLOW__API__PORT, timeout=10)
$1" 2>/dev/null
}
healthy() { server "server.request('GET', '/api/v2/monitor/health'); assert server.getresponse().status == 200"; }
if server 'server.connect()'; then
    echo "Airflow: port $AIRFLOW__API__PORT is in use: choose another one: AIRFLOW__API__PORT=8090 make airflow" >&2
    exit 1
fi

pids= scheduler=
stop() { # running tasks first: they stop their Spark job, and the server marks them for a retry
    trap '' INT TERM
    [ -z "$scheduler" ] || { kill -- "-$scheduler" && wait "$scheduler"; } 2>/dev/null || true
    # shellcheck disable=SC2086 # one word for each process
    kill $pids 2>/dev/null || true
    wait
}
trap stop EXIT
trap 'exit 0' INT TERM
start() { # run a process; its output goes to a file of its name, and Ctrl-C does not reach it
    setsid $airflow "$@" >"$AIRFLOW_HOME/output/$1.log" 2>&1 &
    pids="$pids $!"
}
[ -e "$password" ] || first=yes
start api-server
until healthy; do
    # shellcheck disable=SC2086
    kill -0 $pids 2>/dev/null || { echo "Airflow: the API server ended: see $AIRFLOW_HOME/output/api-server.log" >&2; exit 1; }
    sleep 1
done
start scheduler --skip-serve-logs
scheduler=$!
start dag-processor
start triggerer --skip-serve-logs
echo "Airflow: http://127.0.0.1:$AIRFLOW__API__PORT, user admin; Ctrl-C stops it"
if [ -n "${first:-}" ]; then
    echo "         password $(sed 's/.*: *"\(.*\)".*/\1/' "$password") (not printed again; saved in $password)"
else
    echo "         password: see $password"
fi
wait
