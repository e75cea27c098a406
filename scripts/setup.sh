#!/bin/sh
# Makes .venv with the first Python that really runs and is new enough.
# usage: scripts/setup.sh STAMP [PYTHON]
set -eu

stamp=$1
wanted=${2:-}

# A pyenv shim exists and fails, so a candidate counts only once it has answered.
is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    if [ -n "$wanted" ]; then
        set -- "$wanted"
    else
        set -- python3.14 python3.13 python3.12 python3.11 python3
    fi
    for candidate; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

python=$(find_python)
if [ -z "$python" ]; then
    if [ -n "$wanted" ]; then
        echo "$wanted is not a Python 3.11 or newer that runs: name another with make setup PYTHON=/path/to/python3" >&2
    else
        echo "Muster needs Python 3.11 or newer: install it (Debian: apt-get install python3 python3-venv) or name one with make setup PYTHON=/path/to/python3" >&2
    fi
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$python has no venv with ensurepip: install it (Debian: apt-get install python3-venv) or name another Python with make setup PYTHON=/path/to/python3" >&2
    exit 1
fi
exec "$python" scripts/make_venv.py "$stamp" ${wanted:+--named}
