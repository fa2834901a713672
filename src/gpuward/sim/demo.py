"""`make demo-watch`: a pretend server falls ill while the real commands read its log. This machine is not touched."""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpuward.sim.curtain import beside
from gpuward.sim.server import HOST, Line, build_proc, write_log

SPEED = 10.0
"""Record seconds a second: a wait of a minute is seen in six seconds."""
_SETTLE_SECONDS = 1.5


def run(words: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 0 when every part of it ended as it should."""
    parser = argparse.ArgumentParser(prog="python -m gpuward.sim watch", description=__doc__, allow_abbrev=False)
    parser.add_argument("--speed", type=float, default=SPEED, help=f"record seconds a second (default: {SPEED:g})")
    speed = parser.parse_args(words).speed
    if not 0 < speed < math.inf:
        parser.error("--speed must be a number, and more than 0")
    with tempfile.TemporaryDirectory(prefix="gpuward-demo-") as folder:
        return _run(Path(folder), speed)


def _run(folder: Path, speed: float) -> int:
    log = folder / "kern.log"
    log.touch()
    build_proc(folder / "proc")
    _say(
        f"A pretend server with eight GPUs writes its kernel log, {speed:g} times as fast as life; gpuward watches it."
    )
    _say("What you see below is said the moment the line is written.\n")
    words = ("--kernel-log", str(log), "--proc-root", str(folder / "proc"), "--state-dir", str(folder / "state"))
    with beside(_gpuward("watch", *words, "--node", HOST, "--timezone", "UTC")) as watch:
        time.sleep(1.0)
        write_log(log, speed=speed, tell=_tell)
        time.sleep(_SETTLE_SECONDS)
    ended = watch.returncode
    _say("\nThe same log read as a file, one table a GPU:  gpuward scan kern.log\n")
    scan = _command("scan", str(log), "--timezone", "UTC")
    _say("\nWhat a code means:  gpuward explain 45\n")
    explain = _command("explain", "45")
    _say(
        "\nOn a real server:   gpuward watch                    (as root, or in the group that may read /dev/kmsg)\n"
        "On a log of one:    gpuward scan /var/log/kern.log*  or  journalctl -k -o json | gpuward scan -\n"
    )
    as_expected = ended == 0 and scan == 1 and explain == 0
    if not as_expected:
        _say(f"The demonstration did not end as it should: watch {ended}, scan {scan}, explain {explain}.")
    return 0 if as_expected else 1


def _tell(line: Line) -> None:
    if line.says:
        _say(f"\n--- {line.says}")


def _command(*words: str) -> int:
    with beside(_gpuward(*words)) as asked:
        return asked.wait()


def _gpuward(*words: str) -> list[str]:
    return [sys.executable, "-m", "gpuward", *words]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
