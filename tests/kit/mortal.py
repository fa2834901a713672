"""An agent as a real process over a pretend server whose state outlives it, killed (SIGKILL) at any call of any port.

The server is put into a file as the last thing before its agent dies, so what a call did stays done; the state folder,
the journal and the evidence are the real ones. Time is pretended, so a life of minutes takes moments.
"""

import hashlib
import json
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from gpuward.adapters.chronicle import JsonLines
from gpuward.adapters.evidence import LIST, EvidenceFolder
from gpuward.adapters.store import JsonFile
from gpuward.agent.bench import Tools
from gpuward.agent.outfit import Keeping, Ordered, Plan
from gpuward.agent.standalone import Standalone
from gpuward.agent.watch import Outside
from gpuward.isolation.brake import Brake
from gpuward.isolation.merge import Merger
from gpuward.isolation.terms import Terms
from gpuward.model.case import ENDED, Case, CaseState, Mode, Order
from gpuward.model.node import GpuHolder
from gpuward.model.signal import Gap, Signal
from gpuward.ports import Origin
from tests.kit.at_once import AtOnce
from tests.kit.merging import GPU_A, terms
from tests.kit.pretend import START, PretendClock, PretendInventory, PretendProcesses
from tests.kit.pretend_driver import PretendDriver, a_holder

BOOT_SECONDS = 1000.0
SERVICE = "nvidia-dcgm.service"


@dataclass
class Work:
    """A process that holds a GPU from one moment to another, in seconds of the clock since boot."""

    minor: int
    begins: float
    ends: float
    name: str = "train"


@dataclass
class World(PretendDriver):
    """The server: its GPUs, services, work that comes and goes, and its clock. `changes` lists what really changed."""

    clock: PretendClock = field(default_factory=PretendClock)
    works: list[Work] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return who holds the GPU now."""
        now = self.clock.monotonic()
        at_work = [work for work in self.works if work.minor == minor and work.begins <= now < work.ends]
        return (*(a_holder(4321, work.name) for work in at_work), *super().of(minor))

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Turn persistence mode on or off, and note it when that changes something."""
        was = self.gpus[pci].persistence
        super().set_persistence(pci, on=on, deadline_seconds=deadline_seconds, look=look)
        self._changed(was is not on, f"persistence {on}")

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Drain or undrain, and note it when that changes something."""
        was = pci in self.drained
        super().set_drained(pci, on=on, deadline_seconds=deadline_seconds)
        self._changed(was is not on, f"drained {on}")

    def stop(self, unit: str, deadline_seconds: float) -> None:
        """Stop a unit, and note it when it ran."""
        was = unit in self.running
        super().stop(unit, deadline_seconds)
        self._changed(was, f"stop {unit}")

    def start(self, unit: str, deadline_seconds: float) -> None:
        """Start a unit, and note it when it did not run."""
        was = unit in self.running
        super().start(unit, deadline_seconds)
        self._changed(not was, f"start {unit}")

    def come(self, minor: int, seconds: float) -> None:
        """Let work come to a GPU now, for so long."""
        self.works.append(Work(minor, self.clock.monotonic(), self.clock.monotonic() + seconds, "surprise"))

    def _changed(self, is_so: bool, what: str) -> None:  # noqa: FBT001  whether, then what
        if is_so:
            self.changes.append(what)


@dataclass(frozen=True)
class Line:
    """A kernel line at a moment, in seconds since boot."""

    at: float
    body: str


@dataclass(frozen=True)
class Scenario:
    """What happens on the server, whoever lives: lines, and a person who releases what is open from some moment on."""

    lines: tuple[Line, ...]
    world: Callable[[], World]
    seconds: float
    modes: tuple[Mode, ...] = (Mode.REPAIR,)
    """The mode of the first agent, and of those that come after it; the last one stays."""
    release_at: float | None = None
    release_during: str = ""
    """A moment of a call, such as `before driver.reset`, at which a person releases the first GPU; empty: none."""
    holder_during: str = ""
    """A moment of a call at which work comes to the first GPU, for five seconds."""


class _Ring:
    """Implements KernelLog: a ring whose lines are there for every reader; a read waits by moving the clock."""

    def __init__(self, lines: Sequence[Line], clock: PretendClock) -> None:
        self._lines = lines
        self._clock = clock
        self._next = 0

    def origin(self) -> Origin:
        return Origin(
            source="/dev/kmsg",
            boot="5f2c1a9e",
            boot_time=self._clock.now() - self._clock.monotonic(),
            node="gpu-1",
        )

    def seek(self, cursor: str) -> bool:
        self._next = int(cursor.removeprefix("k")) + 1
        return True

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        end = self._clock.monotonic() + timeout_seconds
        due = self._lines[self._next].at if self._next < len(self._lines) else float("inf")
        if due > self._clock.monotonic():
            self._clock.wait(max(1e-6, min(end, due) - self._clock.monotonic()))
        if due > self._clock.monotonic():
            return ()
        line, number = self._lines[self._next], self._next
        self._next += 1
        text = f"3,{number},{round(line.at * 1e6)},-;{line.body}"
        return (Signal(source="/dev/kmsg", line=number, cursor=f"k{number}", text=text),)

    def close(self) -> None:
        return None


@dataclass
class Fate:
    """Counts the moments before and after each call of a port; at `deadly` of them the process is killed."""

    deadly: int | None = None
    last: Callable[[], None] = lambda: None
    """What is done in the world at the moment of the kill: it outlives the process."""
    passed: int = 0
    names: list[str] = field(default_factory=list)
    surprises: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What happens in the world at a moment, once."""

    def meet(self, name: str) -> None:
        """Pass a moment, or die there."""
        if self.passed == self.deadly:
            self.last()
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1
        self.names.append(name)
        surprise = self.surprises.pop(name, None)
        if surprise is not None:
            surprise()


class _Mortal:
    """A port whose every call may be the last thing its caller does; what it did stays done."""

    def __init__(self, port: Any, name: str, fate: Fate) -> None:
        self._port = port
        self._name = name
        self._fate = fate

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._port, method)

        def lived(*words: Any, **named: Any) -> Any:
            self._fate.meet(f"before {self._name}.{method}")
            try:
                return call(*words, **named)
            finally:
                self._fate.meet(f"after {self._name}.{method}")

        return lived


@dataclass
class Server:
    """A pretend server in a folder, on which agents live one after the other."""

    folder: Path
    scenario: Scenario
    terms: Terms = field(default_factory=terms)
    """What verdicts depend on, read here, so that no agent reads the book anew."""
    agents: int = 0

    @property
    def state(self) -> Path:
        """Return the state folder of the agents."""
        return self.folder / "state"

    def world(self) -> World:
        """Return the server as it is now."""
        file = self.folder / "world"
        world = pickle.loads(file.read_bytes()) if file.exists() else self.scenario.world()  # noqa: S301  our own file
        assert isinstance(world, World)
        return world

    def cases(self) -> list[Case]:
        """Return the cases as they were saved last."""
        from gpuward.isolation.packed import unpack_case  # noqa: PLC0415  the parent reads, the child writes

        saved = JsonFile(str(self.state / "cases.json")).load()
        return [] if saved is None else [unpack_case(one) for one in saved["cases"]]

    def journal(self) -> list[dict[str, Any]]:
        """Return the journal without its times."""
        file = self.state / "journal.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        return [{name: value for name, value in json.loads(line).items() if name != "at"} for line in lines]

    def evidence(self) -> list[str]:
        """Return the names of what was kept; every hash is checked."""
        names: list[str] = []
        for listed in sorted((self.state / "evidence").glob(f"*/{LIST}")):
            for line in listed.read_text("ascii").splitlines():
                digest, _, name = line.partition("  ")
                assert hashlib.sha256((listed.parent / name).read_bytes()).hexdigest() == digest, name
                names.append(name)
            assert {file.name for file in listed.parent.iterdir()} == {*names[-len(names) :], LIST} or names
        return names

    def litter(self) -> list[str]:
        """Return files in the state folder that no agent keeps."""
        known = {"cases.json", "pauses.json", "watch.json", "journal.jsonl", "evidence"}
        return [file.name for file in self.state.iterdir() if file.name not in known]

    def live(self, *, deadly: int | None = None) -> Fate | None:
        """Let one agent live, as a process of its own; return its fate, None when it was killed."""
        mode = self.scenario.modes[min(self.agents, len(self.scenario.modes) - 1)]
        self.agents += 1
        told = self.folder / "fate"
        told.unlink(missing_ok=True)
        with warnings.catch_warnings():
            # From 3.12 on a fork beside other threads is warned of; the child touches none of what they may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            self._lived(mode, deadly, told)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return None
        assert os.WEXITSTATUS(status) == 0, told.read_text("utf-8") if told.exists() else "the agent broke"
        return Fate(names=json.loads(told.read_text("utf-8")))

    def _lived(self, mode: Mode, deadly: int | None, told: Path) -> None:
        """Be the agent; never return."""
        code = 1
        try:
            fate = Fate(deadly)
            self._run(mode, fate)
            told.write_text(json.dumps(fate.names), "utf-8")
            code = 0
        except BaseException:  # noqa: BLE001  a child of a test must not go on as the test
            told.write_text(traceback.format_exc(), "utf-8")
        finally:
            os._exit(code)

    def _run(self, mode: Mode, fate: Fate) -> None:
        world = self.world()
        end = BOOT_SECONDS + self.scenario.seconds

        def keep() -> None:
            (self.folder / "world").write_bytes(pickle.dumps(world))

        def mortal(port: Any, name: str) -> Any:
            return _Mortal(port, name, fate)

        chronicle = JsonLines(str(self.state / "journal.jsonl"))
        agent = Standalone(
            Outside(
                log=mortal(_Ring(self.scenario.lines, world.clock), "log"),
                processes=PretendProcesses(),
                inventory=PretendInventory(),
                clock=world.clock,
                store=mortal(JsonFile(str(self.state / "watch.json")), "place"),
            ),
            lambda: Merger(self.terms),
            tools=Tools(
                driver=mortal(world, "driver"),
                holders=mortal(world, "holders"),
                services=mortal(world, "services"),
                evidence=mortal(EvidenceFolder(str(self.state / "evidence")), "evidence"),
                clock=world.clock,
                kernel_log=lambda: b"the kernel log",
            ),
            keeping=Keeping(
                cases=mortal(JsonFile(str(self.state / "cases.json")), "cases"),
                pauses=mortal(JsonFile(str(self.state / "pauses.json")), "pauses"),
                chronicle=mortal(chronicle, "chronicle"),
            ),
            plan=Plan(mode=mode, brake=Brake(window_seconds=60.0), probation_seconds=5.0, poll_seconds=10.0),
            hands=AtOnce(),
            say=lambda _happening: None,
            warn=lambda _words: None,
            timezone=UTC,
            node="gpu-1",
        )

        fate.last = keep
        fate.surprises[self.scenario.release_during] = lambda: agent.order(Ordered(GPU_A, Order.RELEASE))
        fate.surprises[self.scenario.holder_during] = lambda: world.come(0, 5.0)

        def stopped() -> bool:
            self._release(agent, world.clock)
            return world.clock.monotonic() >= end

        agent.run(stopped)
        keep()

    def _release(self, agent: Standalone, clock: PretendClock) -> None:
        """Be a person who lets go what is parked, from some moment on."""
        at = self.scenario.release_at
        if at is None or clock.monotonic() < BOOT_SECONDS + at:
            return
        for case in agent.cases():
            if case.state is CaseState.PARKED and case.order is None and case.state not in ENDED:
                agent.order(Ordered(case.gpu, Order.RELEASE))


def a_world(*works: Work) -> World:
    """Return a server with a service on its first GPU, and work that comes and goes."""
    world = World(clock=PretendClock(now=START, monotonic=BOOT_SECONDS), works=list(works))
    world.held[0] = [a_holder(10, "nv-hostengine", service=SERVICE)]
    world.running = {SERVICE}
    return world


def xid_line(at: float, code: int, text: str, *, pci: str = GPU_A) -> Line:
    """Return a kernel line about a GPU, the first one unless it is said."""
    return Line(BOOT_SECONDS + at, f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {text}")
