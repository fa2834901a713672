"""Programs that never outlive the tests: each dies with the process that started it, and is ended with its group."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

Program = subprocess.Popen[bytes]
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG: it survives the exec below
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that started this ended at once")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Run in the child instead of a preexec_fn, which is not safe beside threads."""


def started(
    words: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Program:
    """Start a program whose output goes to `log`, in a process group of its own; the first word is its full path.

    The kernel kills it as soon as the thread that called this ends, however that ends: call from one that lasts.
    """
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    with log.open("ab") as out:
        return subprocess.Popen(
            [*launch, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )


def ended(process: Program) -> None:
    """Kill the program with its group and wait until it is gone; one that has ended is as good."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def listens(pid: int, port: int) -> bool:
    """Say whether it is this very process that listens on a TCP port."""
    ours = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):  # it may be closed meanwhile
            ours.add(str(link.readlink()))
    with contextlib.suppress(OSError):
        for row in Path(f"/proc/{pid}/net/tcp").read_text("ascii").splitlines()[1:]:
            _, local, _, state, *_, inode = row.split()[:10]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port and f"socket:[{inode}]" in ours:
                return True
    return False


def last_lines(log: Path, count: int = 12, longest: int = 400) -> str:
    """Return the last lines of a log, each cut to `longest` characters, indented."""
    lines = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"    {line[:longest]}" for line in lines[-count:]) or "    (it said nothing)"
