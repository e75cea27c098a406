#!/bin/sh
# Pins requirements/*.txt from pyproject.toml, with hashes and without any registry's address.
# usage: scripts/pin_requirements.sh PYTHON [UV_OPTION...]     (e.g. --upgrade)
set -eu

python=$1
shift
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'

pin() {
    output=$1
    shift
    "$tools/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
        --output-file "$output" "$@"
}

pin requirements/base.txt pyproject.toml "$@"
# A hash-checked install takes one list, so the second holds all of the first at the same versions.
pin requirements/dev.txt pyproject.toml --constraint requirements/base.txt --all-extras --group dev "$@"
