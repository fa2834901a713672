"""A server with an agent in this process, over pretend ports: its log, driver, clock and stores outlive the agent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from gpuward.agent.bench import Tools
from gpuward.agent.outfit import Keeping, Ordered, Plan
from gpuward.agent.standalone import Standalone
from gpuward.agent.watch import Outside
from gpuward.isolation.merge import Merger
from gpuward.model.case import Case, Mode, Order
from gpuward.model.happening import Happening, What, as_object
from gpuward.ports import Origin, Refused
from tests.kit.at_once import AtOnce
from tests.kit.merging import GPU_A, terms
from tests.kit.pretend import (
    START,
    At,
    PretendClock,
    PretendInventory,
    PretendLog,
    PretendProcesses,
    PretendStore,
    Script,
)
from tests.kit.pretend_driver import PretendDriver


@dataclass
class Room:
    """Implements Chronicle and EvidenceRoom in memory; `broken` makes evidence refuse."""

    written: list[Happening] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    broken: bool = False

    def write(self, happening: Happening) -> None:
        """Note a happening."""
        self.written.append(happening)

    def newest(self, most: int) -> list[dict[str, Any]]:
        """Return what was noted last."""
        return [as_object(one) for one in self.written[-most:]]

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Note what was kept."""
        del content
        if self.broken:
            raise Refused("the disk is full; make room")
        self.kept.append((case, name))
        return "0" * 64


@dataclass
class Server:
    """A server with an agent; `live` lets it live for so long, again and again over restarts."""

    mode: Mode = Mode.REPAIR
    options: tuple[str, ...] = ()
    driver: PretendDriver = field(default_factory=PretendDriver)
    clock: PretendClock = field(default_factory=PretendClock)
    script: Script = field(default_factory=Script)
    room: Room = field(default_factory=Room)
    cases: PretendStore = field(default_factory=PretendStore)
    pauses: PretendStore = field(default_factory=PretendStore)
    place: PretendStore = field(default_factory=PretendStore)
    warnings: list[str] = field(default_factory=list)
    agent: Standalone | None = None
    check: Callable[[str, str | None], None] | None = None

    def live(self, *events: At, seconds: float) -> "Server":
        """Let an agent live on this server for so long while the events happen."""
        self.script.events += events
        origin = Origin(source="/dev/kmsg", boot="5f2c1a9e", boot_time=START - 1000.0, node="gpu-1")
        log = PretendLog(self.script, self.clock, origin=origin)
        self.agent = Standalone(
            Outside(
                log=log,
                processes=PretendProcesses(),
                inventory=PretendInventory(),
                clock=self.clock,
                store=self.place,
            ),
            lambda: Merger(terms(options=self.options)),
            tools=Tools(
                driver=self.driver,
                holders=self.driver,
                services=self.driver,
                evidence=self.room,
                clock=self.clock,
                kernel_log=lambda: b"the kernel log",
                check=self.check,
            ),
            keeping=Keeping(cases=self.cases, pauses=self.pauses, chronicle=self.room),
            plan=Plan(mode=self.mode, probation_seconds=600.0),
            hands=AtOnce(),
            say=lambda _happening: None,
            warn=self.warnings.append,
            timezone=UTC,
            node="gpu-1",
        )
        end = self.clock.monotonic() + seconds
        self.agent.run(lambda: self.clock.monotonic() >= end)
        return self

    def at(self, seconds: float, body: str, *, facility: str = "kern") -> At:
        """Return a kernel line so many seconds from now."""
        moment = self.clock.monotonic() + seconds
        priority = {"kern": 3, "user": 11}[facility]
        usec = round(moment * 1e6)
        return At(seconds, f"{priority},{usec},{usec},-;{body}")

    def case(self, gpu: str = GPU_A) -> Case:
        """Return the one case of a GPU."""
        assert self.agent is not None
        (case,) = [case for case in self.agent.cases() if case.gpu == gpu]
        return case

    def release(self, gpu: str) -> None:
        """Give a person's word while the agent lives."""
        assert self.agent is not None
        self.agent.order(Ordered(gpu, Order.RELEASE))

    def states(self) -> list[str]:
        """Return the states that cases moved to, in order."""
        return [one.after for one in self.room.written if one.what is What.MOVED]
