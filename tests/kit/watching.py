"""`gpuward watch` as a test runs it: over pretend ports in this process, or as the real program on a real log."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from gpuward.agent.watch import Outside, Told, Watch
from gpuward.isolation.merge import Merger
from gpuward.model.fault import ChangeKind
from gpuward.ports import Origin
from tests.kit import render
from tests.kit.merging import terms
from tests.kit.pretend import (
    At,
    Event,
    PretendClock,
    PretendInventory,
    PretendLog,
    PretendProcesses,
    PretendStore,
    Script,
)

RING = Origin(source="/dev/kmsg", boot="b00t1d42", boot_time=0.0, node="gpu-17")
"""A log like the kernel's ring: its lines carry an uptime only, boot and machine are known from outside."""
TEXT = Origin(source="kern.log", boot=None, boot_time=None, node=None)
"""A log like a followed file: what is known stands in its lines."""


def xid_text(code: int, words: str, *, pci: str = "0000:ab:00", pid: int | None = 41237, name: str = "python3") -> str:
    """Return an Xid line as the driver writes it."""
    return render.XidShape(
        domain=int(pci[:4], 16),
        bus=int(pci[5:7], 16),
        device=int(pci[8:], 16),
        code=code,
        pid=pid,
        name=None if pid is None else name,
        message=words,
    ).body()


LOST = xid_text(79, "GPU has fallen off the bus.")
TORN = xid_text(45, "Ch 00000008")


@dataclass
class World:
    """A pretend machine whose log is watched; a second `watch` is a restart of the first."""

    clock: PretendClock = field(default_factory=PretendClock)
    script: Script = field(default_factory=Script)
    processes: PretendProcesses = field(default_factory=PretendProcesses)
    inventory: PretendInventory = field(default_factory=PretendInventory)
    store: PretendStore = field(default_factory=PretendStore)
    origin: Origin = RING
    options: Sequence[str] = ()
    warnings: list[str] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    log: PretendLog | None = None

    def ring(self, seconds: float, body: str, *, facility: str = "kern") -> At:
        """Return a record of the kernel's ring that is written so many seconds from now."""
        at = self.clock.monotonic() + seconds
        priority = {"kern": 3, "user": 11}[facility]
        return At(seconds, render.kmsg(body, priority=priority, facility=facility, microseconds=round(at * 1e6)).text)

    def watch(self, *events: At, seconds: float, oldest: int = 0) -> list[Told]:
        """Watch for so long while the events happen; return what was told, closed faults left out."""
        self.script.events += events
        log = self.log = PretendLog(self.script, self.clock, origin=self.origin, oldest=oldest)
        outside = Outside(
            log=log, processes=self.processes, inventory=self.inventory, clock=self.clock, store=self.store
        )
        told: list[Told] = []
        watch = Watch(
            outside,
            lambda: Merger(terms(options=self.options)),
            tell=told.append,
            warn=self._warn,
            timezone=UTC,
            node="gpu-17",
        )
        end = self.clock.monotonic() + seconds
        try:
            watch.run(lambda: self.clock.monotonic() >= end)
        finally:
            self.told += told
        return [one for one in told if one.change.kind is not ChangeKind.CLOSED]

    def _warn(self, sentence: str) -> None:
        if not sentence.startswith("watching "):
            self.warnings.append(sentence)


def said(told: Sequence[Told]) -> list[tuple[str, int | None, str]]:
    """Return what was told, short: what happened, to which code, and its level."""
    return [(str(one.change.kind), one.change.fault.code, str(one.change.fault.verdict.level)) for one in told]


def events(*pairs: tuple[float, Event]) -> list[At]:
    """Return a script in short."""
    return [At(seconds, event) for seconds, event in pairs]


class Running:
    """A `gpuward watch` process; what it says is read line by line as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        self.complaints: list[str] = []
        self._came = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(process.stdout, self.output), daemon=True),
            threading.Thread(target=self._read, args=(process.stderr, self.complaints), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, wanted: Callable[[str], bool], *, seconds: float = 20) -> str:
        """Return the first line, of either stream, that is wanted; the test fails when none comes."""
        with self._came:
            self._came.wait_for(lambda: any(map(wanted, self._said())), timeout=seconds)
            said = self._said()
        found = next(filter(wanted, said), None)
        assert found is not None, f"it never came; said so far: {said}"
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        for reader in self._readers:
            reader.join(timeout=20)
        return code

    def objects(self) -> list[dict[str, Any]]:
        """Return what was said on standard output, of a watch with --json."""
        return [json.loads(line) for line in self.output if line.endswith("}\n")]

    def _read(self, stream: Any, into: list[str]) -> None:
        for line in stream:
            with self._came:
                into.append(line)
                self._came.notify_all()

    def _said(self) -> list[str]:
        return [*self.output, *self.complaints]


@contextlib.contextmanager
def watching(*words: str | Path) -> Iterator[Running]:
    """Run `gpuward watch` with these words; it is watching when the body begins, and gone after it."""
    with subprocess.Popen(
        [sys.executable, "-m", "gpuward", "watch", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        running = Running(process)
        try:
            running.wait_for(lambda line: line.startswith("gpuward: watching "))
            yield running
        finally:
            if process.poll() is None:
                running.stop(signal.SIGKILL)
