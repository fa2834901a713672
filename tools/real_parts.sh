#!/bin/sh
# The real programs that tests use. What cannot be had is named in one line; its tests are then skipped,
# except under CI=true, where they fail.

journal() {
    remote=/lib/systemd/systemd-journal-remote
    [ -x "$remote" ] && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        (apt-get install -y -qq --no-install-recommends systemd-journal-remote ||
            { apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd-journal-remote; }) >/dev/null 2>&1
    fi
    [ -x "$remote" ] || echo "systemd-journal-remote is not here and could not be installed: the tests on a real journal are skipped (Debian: apt-get install systemd-journal-remote)"
}

prometheus() {
    command -v promtool >/dev/null 2>&1 && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        (apt-get install -y -qq --no-install-recommends prometheus ||
            { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; }) >/dev/null 2>&1
    fi
    command -v promtool >/dev/null 2>&1 || echo "promtool is not here and could not be installed: the metrics are not linted (Debian: apt-get install prometheus)"
}

# etcd, the Kubernetes servers and kwok, built once into the user's cache folder (minutes), found there afterwards.
control_plane() {
    [ -z "${KUBEBUILDER_ASSETS:-}" ] || return
    python=.venv/bin/python
    [ -x "$python" ] || python=$(sh tools/pythons.sh | head -n 1)
    [ -n "$python" ] || return
    "$python" -m tests.kit.controlplane.build || echo "the tests on a real control plane are skipped: see the line above"
}

cd "$(dirname "$0")/.." || exit 1
journal
prometheus
control_plane
exit 0
