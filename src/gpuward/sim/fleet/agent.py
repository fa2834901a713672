"""The product's own agent on a pretend machine: the cluster's side as it is, the node's side a round at each ring.

A real agent looks every second; here it looks when something came, and for a while after, so that nights cost nothing.
"""

import asyncio
import random
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from gpuward.agent.bench import Tools
from gpuward.agent.connection import Connection, Paces, Place
from gpuward.agent.liaison import serve
from gpuward.agent.member import Chest, Member
from gpuward.agent.outfit import Plan
from gpuward.agent.post import Post
from gpuward.agent.watch import Outside
from gpuward.isolation.merge import Merger
from gpuward.isolation.terms import Terms
from gpuward.model.happening import Happening
from gpuward.ports import Cluster, EdgeError
from gpuward.sim.fleet.machine import Diary, Disk, Kmsg, Machine, NoServices

_LEADER_SECONDS = 600.0
"""How often an agent minds the leader: seldom, but when a GPU waits for one."""
POLL_SECONDS = 120.0
_HOT_SECONDS = 66.0
"""So long after a line something may wait for another (rules.toml); it is looked every few seconds then."""
_HOT_PAUSE = 3.0
_WARM_SECONDS = 11_000.0
"""So long after its last line a fault may still be going on (rules.toml, sticky codes)."""
_WARM_PAUSE = 60.0
_QUICKEST, _SLOWEST = 0.1, 4.0
"""How long the bench takes for what one case asks for."""


class Hands(Executor):
    """Does work on the event loop, a while after it was handed over; rings when it is done."""

    def __init__(self, dice: random.Random, ring: Callable[[], None]) -> None:
        self._dice = dice
        self._ring = ring
        self._under_way: dict[int, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._handed = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Begin the work."""
        future: Future[Any] = Future()
        number = self._handed = self._handed + 1

        def work() -> None:
            self._under_way.pop(number, None)
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  whatever the work raises is the future's
                future.set_exception(error)
            self._ring()

        seconds = self._dice.uniform(_QUICKEST, _SLOWEST)
        self._under_way[number] = (asyncio.get_running_loop().call_later(seconds, work), work)
        return future

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return bool(self._under_way)

    def kill(self) -> None:
        """End as a process that is killed: of what is under way some is done, and nobody hears of it."""
        under_way, self._under_way = list(self._under_way.values()), {}
        self._ring = lambda: None
        for handle, work in under_way:
            handle.cancel()
            if self._dice.random() < 0.5:  # noqa: PLR2004  one or the other
                work()


@dataclass(slots=True)
class _Life:
    """One process of the agent."""

    rounds: Generator[None, None, None]
    connection: Connection
    hands: Hands
    disks: dict[str, Disk]
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)


class PretendAgent:
    """The agent of one machine, which may be killed and started again. `tell` gets what it writes into its journal."""

    def __init__(  # noqa: PLR0913  what an agent is made of, and how it lives
        self,
        machine: Machine,
        cluster: Cluster,
        *,
        place: Place,
        terms: Terms,
        dice: random.Random,
        tell: Callable[[Happening], None],
        lease_seconds: int,
    ) -> None:
        self.machine = machine
        self.warnings: list[str] = []
        self.kills = 0
        self.deaths: list[str] = []
        """What ended it against its will, in sentences."""
        self._cluster = cluster
        self._place = place
        self._terms = terms
        self._dice = dice
        self._paces = Paces(lease_seconds=lease_seconds, leader_seconds=_LEADER_SECONDS)
        self._diary = Diary(tell)
        self._disks = {name: Disk() for name in ("orders", "outbox", "pauses", "place")}
        self._bell = asyncio.Event()
        self._life: _Life | None = None
        self._lines = 0
        self._line_at = -_WARM_SECONDS

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._life is not None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, nothing waits for a while, and the cluster answers."""
        life = self._life
        if life is None or life.hands.is_busy or self._bell.is_set():
            return life is None
        lost = life.connection.contact.lost_since is not None
        return not lost and self.machine.clock.monotonic() - self._line_at > _HOT_SECONDS

    def start(self) -> None:
        """Start a process."""
        if self._life is not None:
            return
        disks = self._disks = {name: disk.plugged() for name, disk in self._disks.items()}
        post, hands, clock = Post(), Hands(self._dice, self.ring), self.machine.clock
        post.listen(self.ring)
        dice = random.Random(self._dice.random())  # noqa: S311  the same seed must give the same jitter
        connection = Connection(self._cluster, post, clock, sleep=asyncio.sleep, dice=dice, paces=self._paces)
        life = self._life = _Life(self._member(post, hands, disks).rounds(), connection, hands, disks)
        life.tasks = [
            asyncio.ensure_future(self._work(life)),
            asyncio.ensure_future(self._serve(life)),
        ]

    def kill(self) -> None:
        """End the process as SIGKILL does."""
        life, self._life = self._life, None
        if life is None:
            return
        self.kills += 1
        for disk in life.disks.values():
            disk.unplugged = True
        life.hands.kill()
        for task in life.tasks:
            task.cancel()
        life.rounds.close()

    def ring(self) -> None:
        """Let it look now."""
        self._bell.set()

    def skipped(self) -> None:
        """Let it look where time that was skipped may matter."""
        if self._life is not None and self._pause() is not None:
            self.ring()

    async def _work(self, life: _Life) -> None:
        """Go round whenever it is rung, and for a while after a line."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._note_lines()
                next(life.rounds)
                pause = self._pause()
                timer = None if pause is None else loop.call_later(pause, self._bell.set)
                await self._bell.wait()
                self._bell.clear()
                if timer is not None:
                    timer.cancel()
        except (EdgeError, StopIteration) as error:
            self._died(life, str(error))

    async def _serve(self, life: _Life) -> None:
        await serve(life.connection, self._place)

    def _died(self, life: _Life, why: str) -> None:
        self.deaths.append(f"{self.machine.name}: {why}")
        if self._life is life:
            self._life = None
            life.tasks[1].cancel()

    def _note_lines(self) -> None:
        newest = self.machine.first + len(self.machine.lines)
        if newest != self._lines:
            self._lines = newest
            self._line_at = self.machine.clock.monotonic()

    def _pause(self) -> float | None:
        """Return how long it may wait for a ring; None: for ever."""
        age = self.machine.clock.monotonic() - self._line_at
        if age < _HOT_SECONDS:
            return _HOT_PAUSE
        return _WARM_PAUSE if age < _WARM_SECONDS else None

    def _member(self, post: Post, hands: Hands, disks: dict[str, Disk]) -> Member:
        machine, clock = self.machine, self.machine.clock
        return Member(
            Outside(log=Kmsg(machine), processes=machine, inventory=machine, clock=clock, store=disks["place"]),
            lambda: Merger(self._terms),
            tools=Tools(
                driver=machine,
                holders=machine,
                services=NoServices(),
                evidence=machine,
                clock=clock,
                kernel_log=machine.log,
            ),
            chest=Chest(orders=disks["orders"], outbox=disks["outbox"], pauses=disks["pauses"], chronicle=self._diary),
            post=post,
            plan=Plan(poll_seconds=POLL_SECONDS),
            hands=hands,
            say=_nobody,
            warn=self._warn,
            timezone=UTC,
            node=machine.name,
        )

    def _warn(self, sentence: str) -> None:
        self.warnings.append(sentence)
        del self.warnings[:-100]


def _nobody(happening: Happening) -> None:
    """Say it to nobody: the diary tells."""
    del happening
