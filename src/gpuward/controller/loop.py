"""The fleet loop: gather, decide, record, perform, again and again. Everything it needs to know is in the cluster.

A round goes by what is, never by what was done before; so one that was cut short anywhere is taken up by the next,
of this controller or of another.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gpuward.controller.census import Berths, Census
from gpuward.controller.gather import Due, Gathered, Gatherer, Picture
from gpuward.controller.heed import DEFECT, borne
from gpuward.controller.jobs import Jobs
from gpuward.controller.leading import WhileLeading
from gpuward.controller.metering import MeteredCluster, Unmetered
from gpuward.controller.mirror import Mirror
from gpuward.controller.outcomes import Heard
from gpuward.controller.pace import Pace
from gpuward.controller.perform import Performer
from gpuward.controller.programs import Programs
from gpuward.controller.prune import Pruner
from gpuward.controller.record import Recorder, Tell
from gpuward.controller.terms import Terms
from gpuward.controller.views import fault_view, gpu_node_view, is_same_node, node_view
from gpuward.controller.voice import Voice
from gpuward.isolation.decide import Snapshot, decide
from gpuward.model.objects.gpu_case import read_gpu_case
from gpuward.model.objects.pause import PAUSE, read_pause
from gpuward.model.objects.standby_pool import read_standby_pool
from gpuward.model.resource import CONFIG_MAPS, GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, STANDBY_POOLS
from gpuward.ports import Cluster, Meter, Unreachable

MOST_WAVES = 20
"""So often it is looked in one round whether more nodes fell ill, before the rest of the work is done."""
AT_ONCE = 64
"""So many nodes are worked on at the same time: a rack that falls ill must not wait for its first node."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a round came to: how many nodes had something to decide, and what went wrong, in sentences."""

    nodes: int
    troubles: tuple[str, ...] = ()


class Controller:
    """One controller. `leads` says at every moment whether it may write; `tell` hears what was saved.

    `defect` hears of each error that nobody has foreseen, beside the troubles of the round.
    """

    def __init__(  # noqa: PLR0913  what a controller is given
        self,
        cluster: Cluster,
        *,
        pace: Pace,
        terms: Terms,
        tell: Tell,
        leads: Callable[[], bool] = lambda: True,
        meter: Meter | None = None,
        defect: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._meter = meter or Unmetered()
        cluster = MeteredCluster(cluster, meter) if meter is not None else cluster
        self.picture = picture_of(cluster, pace, terms)
        self.newest = Round(0)
        self.ended_at: float | None = None
        """When the newest round ended, on the monotonic clock."""
        self._bell, self._alarm = asyncio.Event(), asyncio.Event()
        self._was_cut = False
        self._pace = pace
        self._terms = terms
        self._berths = Berths(terms)
        self._programs = Programs(Jobs(cluster, pace=pace), self.picture, pace=pace)
        self._leads = leads
        self._defect = defect
        writing = WhileLeading(cluster, leads)
        heard = Heard()
        self._gatherer = Gatherer(cluster, self.picture, heard, pace=pace, terms=terms)
        self._recorder = Recorder(writing, self.picture, heard, tell=tell, meter=self._meter)
        self.voice = Voice(writing, self.picture, pace=pace, terms=terms)
        self.pruner = Pruner(writing, self.picture, pace=pace, terms=terms)
        self._performer = Performer(writing, self.picture, heard, pace=pace, terms=terms, tell=tell)

    async def run(self) -> None:
        """Go round until cancelled: at every ring, but for a breath after each round, and every few seconds."""
        for mirror in self.picture.mirrors:
            mirror.ring = self.ring
        self.picture.faults.ring_for_new = self._alarm.set
        async with self.following() as tasks:
            tasks.append(asyncio.ensure_future(self.voice.run(self._leads)))
            tasks.append(asyncio.ensure_future(self.pruner.run(self._leads)))
            while True:
                for task in tasks:
                    if task.done():
                        task.result()  # a mirror goes on for ever: what ended it must end us, or we go blind
                if not self._leads():
                    self.watch_nodes()
                else:
                    self.voice.quiet.clear()
                    self._alarm.clear()
                    await self.round()
                    self.voice.quiet.set()
                    self.voice.ring.set()
                    await self._breathe()
                await self._pace.wait(self._bell, self._terms.round_seconds)

    async def _breathe(self) -> None:
        """Wait a little before the next round: one new fault does not wait for that, of a flood at most every other."""
        seconds = self._terms.breath_seconds
        if self._was_cut:
            self._was_cut = False
            await self._pace.sleep(seconds)
        else:
            self._was_cut = await self._pace.wait(self._alarm, seconds)

    def ring(self) -> None:
        """Have the next round come at once, as for one that leads from now on."""
        self._bell.set()

    def watch_nodes(self) -> None:
        """Note which nodes answer; one that does not lead does so too, to know it all when its turn comes."""
        self._gatherer.losses.look()

    async def look(self, name: str) -> Snapshot:
        """Return what a decision about a node would rest on now; nothing is decided."""
        due = [one for one in await self._gatherer.due() if one.name == name] or [Due(name, None, is_fresh=False)]
        known, troubles = await self._gatherer.gather(due)
        if not known:
            raise RuntimeError(*troubles)
        return known[0].snapshot

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[list["asyncio.Future[None]"]]:
        """Follow the cluster as long as the context lasts; nothing is left running after it."""
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(mirror.run()) for mirror in self.picture.mirrors]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def round(self) -> Round:
        """Gather, decide, record and perform once, each node by itself: the trouble of one holds up no other.

        Nothing is decided before the whole cluster was seen.
        """
        troubles: list[str] = []
        began = self._pace.clock.monotonic()
        if not self.picture.is_complete:
            return Round(0, tuple(mirror.trouble for mirror in self.picture.mirrors if mirror.trouble))
        census = Census(self.picture, self._berths, now=self._pace.clock.now())
        worked = await self._work(census, troubles)
        troubles += self._gatherer.troubles
        try:
            troubles += await self._performer.sweep(census.held)
        except Unreachable as error:
            troubles.append(str(error))
        self.newest = Round(worked, tuple(troubles))
        for trouble in troubles:
            if DEFECT in trouble:
                self._defect(trouble)
        self.ended_at = self._pace.clock.monotonic()
        self._meter.observe("gpuward_round_seconds", self.ended_at - began)
        self._meter.add("gpuward_troubles_total", by=len(troubles))
        return self.newest

    async def _work(self, census: Census, troubles: list[str]) -> int:
        """Decide and act on every node that has something to decide; return how many they were.

        What has just come goes first: the nodes are fenced, and those on which a fault came meanwhile, before more is
        done for any. So neither the work on older cases holds a fence up, nor a rack that falls ill its last node.
        """
        fenced: list[Gathered] = []
        worked: set[str] = set()
        for _ in range(MOST_WAVES):
            due = [one for one in await self._gatherer.due() if one.name not in worked]
            fresh = [one for one in due if one.is_fresh]
            if not fresh:
                break
            worked |= {one.name for one in fresh}
            fenced += await self._fence_all(fresh, census, troubles)
        due = [one for one in await self._gatherer.due() if one.name not in worked]
        fenced += await self._fence_all(due, census, troubles)
        troubles += await _at_once(fenced, self._act)
        return len(worked) + len(due)

    async def _fence_all(self, due: Sequence[Due], census: Census, troubles: list[str]) -> list[Gathered]:
        """Decide about these nodes and fence them; return those with which it went well."""
        gathered, unknown = await self._gatherer.gather(due)
        troubles += unknown
        census.expect(one.snapshot for one in gathered)
        fenced: list[Gathered] = []

        async def fence(one: Gathered) -> None:
            await self._fence(one, census)
            fenced.append(one)

        troubles += await _at_once(await self._programs.look(gathered), fence)
        return fenced

    async def _fence(self, one: Gathered, census: Census) -> None:
        """Decide about a node, save that, and give it the taint that it asks for."""
        fleet = replace(census.of(one.snapshot.node), jobs=self._programs.own)
        decision = decide(replace(one.snapshot, fleet=fleet))
        census.note(one.snapshot.node, decision.cases)
        await self._recorder.save(one, decision)
        await self._performer.taint(one.snapshot.node)

    async def _act(self, one: Gathered) -> None:
        """Do what the saved cases of a node ask for, and write down what was made of its faults."""
        await self._performer.perform(one)
        await self._recorder.judge(one)


async def _at_once(nodes: Sequence[Gathered], work: Callable[[Gathered], Awaitable[None]]) -> list[str]:
    """Do the work on each node, many side by side; return what went wrong, in sentences."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(node: Gathered) -> str:
        async with gate:
            try:
                return await borne(node.snapshot.node, work(node))
            except Unreachable as error:
                return f"{node.snapshot.node}: {error}"

    tasks = [asyncio.ensure_future(one(node)) for node in nodes]
    try:
        if tasks:
            await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for trouble in ended:
        if isinstance(trouble, BaseException):
            raise trouble
    return [str(trouble) for trouble in ended if trouble]


def picture_of(cluster: Cluster, pace: Pace, terms: Terms) -> Picture:
    """Return the mirrors of all that a controller follows; none of them runs yet."""
    return Picture(
        nodes=Mirror(cluster, NODES, partial(node_view, keys=terms.labels), pace=pace, same=is_same_node),
        gpu_nodes=Mirror(cluster, GPU_NODES, gpu_node_view, pace=pace),
        faults=Mirror(cluster, GPU_FAULTS, fault_view, pace=pace, group=lambda fault: fault.spec.node_name),
        cases=Mirror(cluster, GPU_CASES, read_gpu_case, pace=pace, group=lambda case: case.spec.node),
        pools=Mirror(cluster, STANDBY_POOLS, read_standby_pool, pace=pace),
        # Only the one: a right to read it is no right to read all that a namespace holds.
        pause=Mirror(
            cluster, CONFIG_MAPS, read_pause, pace=pace, fields=f"metadata.name={PAUSE}", namespace=terms.namespace
        ),
        fabric=terms.fabric_labels,
        fault_taint=terms.taint.key,
    )
