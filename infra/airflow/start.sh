#!/bin/sh
# Airflow's four processes on this machine, until Ctrl-C. What `airflow standalone` starts, but with
# no log server: that one listens on every address, and here the log files are at hand.
set -eu
cd "$(dirname "$0")/../.."
export AIRFLOW_HOME="${AIRFLOW_HOME:-$PWD/build/airflow}"
password="$AIRFLOW_HOME/simple_auth_manager_passwords.json.generated"
airflow=infra/airflow/airflow
umask 077
mkdir -p "$AIRFLOW_HOME/output"

pids=
stop() {
    trap - INT TERM EXIT
    # shellcheck disable=SC2086 # one word a process
    kill $pids 2>/dev/null || true
    wait
}
trap stop INT TERM EXIT
start() { # its output goes to a file of its name
    $airflow "$@" >"$AIRFLOW_HOME/output/$1.log" 2>&1 &
    pids="$pids $!"
}
[ -e "$password" ] || first=yes
start api-server
start scheduler --skip-serve-logs
start dag-processor
start triggerer --skip-serve-logs
until [ -s "$password" ]; do
    sleep 1
    # shellcheck disable=SC2086
    kill -0 $pids 2>/dev/null || { echo "Airflow: see $AIRFLOW_HOME/output" >&2; exit 1; }
done
echo "Airflow: http://127.0.0.1:${AIRFLOW__API__PORT:-8080}, user admin; Ctrl-C stops it"
if [ -n "${first:-}" ]; then
    echo "         password $(sed 's/.*: *"\(.*\)".*/\1/' "$password") (shown only now, kept in $password)"
else
    echo "         password in $password"
fi
wait
