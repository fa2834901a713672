#!/bin/sh
# Resolve the versions again: every dependency with the hashes of its files, for every Python, and no address of a registry.
set -eu
.venv/bin/pip install --quiet uv
.venv/bin/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-header --python-version 3.11 --quiet --output-file requirements.lock "$@" >/dev/null
.venv/bin/uv pip compile pyproject.toml --group docs --universal --generate-hashes --no-header --python-version 3.11 --quiet --output-file requirements-docs.lock "$@" >/dev/null
