#!/bin/sh
# The real programs that tests use. What cannot be installed is named in one line; its tests are then skipped,
# except under CI=true, where they fail.
remote=/lib/systemd/systemd-journal-remote
[ -x "$remote" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    (apt-get install -y -qq --no-install-recommends systemd-journal-remote ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd-journal-remote; }) >/dev/null 2>&1
fi
[ -x "$remote" ] || echo "systemd-journal-remote is not here and could not be installed: the tests on a real journal are skipped (Debian: apt-get install systemd-journal-remote)"
exit 0
