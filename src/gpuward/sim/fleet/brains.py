"""The controllers of a pretend fleet: the product's own loop and election, replicas that are killed and restarted."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuward.controller.leading import Leading, LeaseTerms
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.controller.record import Tell
from gpuward.controller.terms import Terms
from gpuward.model.resource import OWN_NAMESPACE
from gpuward.ports import Clock, Cluster
from gpuward.sim.fleet.mortal import Died, MortalCluster

RESTART_SECONDS = 8.0
LEASE = LeaseTerms(namespace=OWN_NAMESPACE, lease_seconds=24, lead_seconds=16.0, retry_seconds=4.0)


@dataclass(slots=True)
class _Life:
    cluster: MortalCluster
    leading: Leading
    controller: Controller
    tasks: list["asyncio.Future[None]"] = field(default_factory=list)
    told: Callable[[], None] = lambda: None
    """Called when it is killed."""


class Replica:
    """One replica: a process that is started anew whenever it has ended. `crashed` gets what ended it, but a kill."""

    def __init__(  # noqa: PLR0913  what a controller is made of
        self,
        name: str,
        cluster: Cluster,
        *,
        clock: Clock,
        terms: Terms,
        tell: Tell,
        dice: random.Random,
        crashed: Callable[[BaseException], None],
        lease: LeaseTerms = LEASE,
    ) -> None:
        self.name = name
        self.lives = 0
        self._cluster = cluster
        self._clock = clock
        self._terms = terms
        self._tell = tell
        self._dice = dice
        self._crashed = crashed
        self._lease = lease
        self._life: _Life | None = None

    @property
    def leads(self) -> bool:
        """Whether this one leads now."""
        return self._life is not None and self._life.leading.leads()

    @property
    def sees(self) -> bool:
        """Whether it has seen the whole cluster."""
        return self._life is not None and self._life.controller.picture.is_complete

    @property
    def troubles(self) -> tuple[str, ...]:
        """What its last round complained of."""
        return () if self._life is None else self._life.controller.newest.troubles

    def doom(self, calls: int, *, after: bool, told: Callable[[], None]) -> None:
        """Let it be killed so many calls from now, before or after that call was done; `told` is called when it is."""
        if self._life is not None:
            self._life.told = told
            self._life.cluster.doom(calls, after=after)

    async def run(self) -> None:
        """Live again and again, until cancelled."""
        while True:
            life = self._life = self._born()
            try:
                await asyncio.wait(life.tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._life = None
                for task in life.tasks:
                    task.cancel()
                ended = await asyncio.gather(*life.tasks, return_exceptions=True)
            if any(isinstance(one, Died) for one in ended):
                life.told()
            for one in ended:
                if one is not None and not isinstance(one, (Died, asyncio.CancelledError)):
                    self._crashed(one)
            await asyncio.sleep(RESTART_SECONDS)

    def _born(self) -> _Life:
        self.lives += 1
        dice = random.Random(self._dice.random())  # noqa: S311  the same seed must give the same pauses
        cluster = MortalCluster(self._cluster)
        pace = Pace(self._clock, asyncio.sleep, dice.random)
        leading = Leading(cluster, f"{self.name}.{self.lives}", pace=pace, terms=self._lease)
        loop = Controller(
            cluster,
            pace=pace,
            terms=self._terms,
            tell=self._tell,
            leads=leading.leads,
            defect=lambda said: self._crashed(RuntimeError(said)),
        )
        leading.ring = loop.ring
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(leading.run()), asyncio.ensure_future(loop.run())]
        return _Life(cluster, leading, loop, tasks)
