"""Services of a pretend machine: real processes that hold its GPUs, started and stopped by a stub systemctl.

Run as `python -m gpuward.sim.machines.units --machine DIR ARGUMENTS`. What holds a GPU is judged elsewhere.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import gpuward

_PROGRAM = """
import os, sys, time
name, *paths = sys.argv[1:]
with open("/proc/self/comm", "w") as comm:
    comm.write(name)
kept = [os.open(path, os.O_RDWR) for path in paths]
print("held", flush=True)
time.sleep(1e6)
"""
_SHOWN = ("stat", "comm", "cmdline", "fd", "maps", "task", "status")
"""What the machine's own /proc takes over from the real one; the cgroup is the unit's."""
_STOPPED = 3
"""The exit code of `systemctl is-active` for a unit that does not run."""


def add(folder: Path, unit: str, *, process: str) -> None:
    """Add a service to a machine, running: a process of this name that has every GPU open. Adds systemctl as well."""
    (folder / "units").mkdir(exist_ok=True)
    _place(folder, unit).write_text(json.dumps({"process": process, "pid": None}), encoding="utf-8")
    words = shlex.join((sys.executable, "-S", "-m", "gpuward.sim.machines.units", "--machine", str(folder)))
    source = shlex.quote(str(Path(gpuward.__file__).parents[1]))
    program = folder / "bin" / "systemctl"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {words} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    # By the stub, as a service is nobody's child.
    subprocess.run([program, "start", unit], check=True)  # noqa: S603  our own words


def start(folder: Path, unit: str) -> None:
    """Start it and wait until it holds its files; one that runs is left alone."""
    if is_running(folder, unit):
        return
    told = json.loads(_place(folder, unit).read_text("utf-8"))
    devices = sorted(str(path) for path in (folder / "dev").iterdir() if path.name.removeprefix("nvidia").isdecimal())
    child = subprocess.Popen(  # noqa: S603  our own words
        [sys.executable, "-S", "-c", _PROGRAM, told["process"], *devices],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    if child.stdout:
        child.stdout.readline()
        child.stdout.close()
    shown = folder / "proc" / str(child.pid)
    shown.mkdir()
    for name in _SHOWN:
        (shown / name).symlink_to(f"/proc/{child.pid}/{name}")
    (shown / "cgroup").write_text(f"0::/system.slice/{unit}\n", encoding="utf-8")
    _place(folder, unit).write_text(json.dumps(told | {"pid": child.pid}), encoding="utf-8")
    child.returncode = 0  # it outlives us, and nobody waits for it


def stop(folder: Path, unit: str) -> None:
    """End it; one that does not run is left alone."""
    told = json.loads(_place(folder, unit).read_text("utf-8"))
    pid = told["pid"]
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while _lives(pid):
            time.sleep(0.01)
        shutil.rmtree(folder / "proc" / str(pid), ignore_errors=True)
    _place(folder, unit).write_text(json.dumps(told | {"pid": None}), encoding="utf-8")


def is_running(folder: Path, unit: str) -> bool:
    """Return whether it runs; a unit that is not there does not."""
    place = _place(folder, unit)
    if not place.exists():
        return False
    pid = json.loads(place.read_text("utf-8"))["pid"]
    return pid is not None and _lives(pid)


def stop_all(folder: Path) -> None:
    """End every service of a machine."""
    for place in (folder / "units").glob("*.json"):
        stop(folder, place.stem)


def main(arguments: Sequence[str]) -> int:
    """Carry out one call of systemctl and return its exit code."""
    folder, words = Path(arguments[1]), [word for word in arguments[2:] if not word.startswith("--")]
    verb, unit = words
    if verb == "is-active":
        runs = is_running(folder, unit)
        sys.stdout.write("active\n" if runs else "inactive\n")
        return 0 if runs else _STOPPED
    {"start": start, "stop": stop}[verb](folder, unit)
    return 0


def _place(folder: Path, unit: str) -> Path:
    return folder / "units" / f"{unit}.json"


def _lives(pid: int) -> bool:
    """Return whether the process is there and has not ended; one that has may wait for whoever reaps it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
