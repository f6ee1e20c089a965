#!/bin/sh
# Install Superset into its own environment; make its metadata and a password for its administrator. Safe to
# repeat.
set -eu
. "$(dirname "$0")/env.sh"
uv=$(command -v uv || echo .tools/bin/uv)
[ -x .venv-superset/bin/python ] || "$uv" venv -q --python 3.11 .venv-superset
"$uv" pip sync -q --python .venv-superset/bin/python infra/superset/requirements.txt

mkdir -p "$SUPERSET_HOME"
chmod 700 "$SUPERSET_HOME"
umask 077
secret() { # write a random secret to a file that only the owner can read, unless it is there
    [ -s "$SUPERSET_HOME/$1" ] ||
        .venv-superset/bin/python -c 'import secrets; print(secrets.token_urlsafe(32))' \
            >"$SUPERSET_HOME/$1"
}
secret secret_key
superset db upgrade >"$SUPERSET_HOME/setup.log" 2>&1 ||
    { echo "Superset: db upgrade failed: see $SUPERSET_HOME/setup.log" >&2; exit 1; }
superset init >>"$SUPERSET_HOME/setup.log" 2>&1 ||
    { echo "Superset: init failed: see $SUPERSET_HOME/setup.log" >&2; exit 1; }
if [ ! -s "$SUPERSET_HOME/admin_password" ]; then
    secret admin_password # import.sh makes the user
    echo "Superset: user admin, password $(cat "$SUPERSET_HOME/admin_password")"
    echo "          (saved in $SUPERSET_HOME/admin_password; not printed again)"
fi
