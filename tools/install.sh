#!/bin/sh
# install.sh PYTHON VENV [GROUP]: a virtual environment with the pinned versions; without GROUP also gpuward, editable.
set -eu
python=$1
venv=$2
group=${3:-}
lock=requirements${group:+-$group}.lock
mark=$venv/.installed
if [ -f "$mark" ] && [ "$mark" -nt "$lock" ] && [ "$mark" -nt pyproject.toml ]; then exit 0; fi
[ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
echo "installing the pinned versions into $venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/pip" install --quiet --require-hashes -r "$lock"
[ -n "$group" ] || "$venv/bin/pip" install --quiet --no-deps --no-build-isolation --editable .
touch "$mark"
