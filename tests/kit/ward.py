"""A pretend machine and the real agent processes that are started on it, for tests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuward.sim.machines.machine import Machine

SLOWEST_SECONDS = 60.0


@dataclass
class Ward:
    """A pretend machine, and the agents that are started on it one after the other."""

    machine: Machine
    state: Path

    def words(self, mode: str, *more: str, force: bool = True) -> list[str]:
        """Return the command line of an agent here; with `force` it resets what was never qualified."""
        return [
            *(sys.executable, "-m", "gpuward", "agent", "--standalone", "--mode", mode),
            *("--kernel-log", str(self.machine.log), "--state-dir", str(self.state)),
            *("--proc-root", str(self.machine.proc), "--dev-root", str(self.machine.dev)),
            *("--probation-seconds", "1", "--poll-seconds", "1", "--read-seconds", "5", "--node", "gpu-pretend-1"),
            *(("--force",) if force else ()),
            *more,
        ]

    @contextmanager
    def agent(self, mode: str, *more: str, force: bool = True) -> "Iterator[subprocess.Popen[str]]":
        """Run an agent while the body runs; it watches when the body begins."""
        with subprocess.Popen(
            self.words(mode, *more, force=force),
            env=self.machine.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                line = process.stderr.readline()
                while line and " in mode " not in line:
                    line = process.stderr.readline()
                assert line, "the agent ended at once"
                yield process
            finally:
                process.kill()

    def ended(self, mode: str, *more: str) -> "subprocess.CompletedProcess[str]":
        """Run an agent that ends by itself, and return what it said."""
        return subprocess.run(
            self.words(mode, *more), env=self.machine.environment(), capture_output=True, text=True, check=False
        )

    def ask(self, *words: str) -> tuple[int, Any]:
        """Ask the running agent; return the exit code and the JSON answer, or its words."""
        done = subprocess.run(
            [sys.executable, "-m", "gpuward", *words, "--state-dir", str(self.state), "--json"],
            env=self.machine.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def journal(self) -> list[dict[str, Any]]:
        """Return what happened."""
        file = self.state / "journal.jsonl"
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    def moves(self) -> list[str]:
        """Return the states that cases moved to."""
        return [one["to"] for one in self.journal() if one["what"] == "moved"]

    def done(self) -> list[str]:
        """Return the effects that were done, in order."""
        return [one["effect"] for one in self.journal() if one.get("outcome") == "done"]


def until(seen: Callable[[], Any], what: str, *, seconds: float = SLOWEST_SECONDS, every_seconds: float = 0.05) -> None:
    """Wait until something is seen; fail with `what` when it never is."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(every_seconds)
