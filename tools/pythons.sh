#!/bin/sh
# Print every Python of 3.11 or later that runs here, one of each minor version, the plain `python3` first.
# Looked at: PATH, and the places where pyenv keeps its versions (its shims may stand on PATH and not run).
seen=""
try() {
    version=$("$1" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2]) if sys.version_info >= (3, 11) else sys.exit(1)' 2>/dev/null) || return 0
    case " $seen " in *" $version "*) return 0 ;; esac
    seen="$seen $version"
    echo "$1"
}
try "${PYTHON:-python3}"
for minor in 11 12 13 14; do
    try "python3.$minor"
    for place in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python3."$minor"; do
        try "$place"
    done
done
[ -n "$seen" ] || { echo "gpuward needs Python 3.11 or later with venv; none was found on PATH" >&2; exit 1; }
