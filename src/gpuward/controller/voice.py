"""Tells people, on the cluster's own objects, what becomes of its GPUs: events, and the condition of each node.

Nothing waits for it. It speaks beside the rounds, and not while one of them is at work; what it cannot say is a trouble
to tell, and no more than that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from gpuward.controller.agents import Agents
from gpuward.controller.conditions import Conditions
from gpuward.controller.events import Events
from gpuward.controller.gather import Picture
from gpuward.controller.heed import node_of_fault
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.ports import Cluster, EdgeError

AT_ONCE = 3
"""So many events, and so many conditions, are written at a time: what isolates has the rest of the connections."""
BREATH_SECONDS = 0.5
LOOK_SECONDS = 30.0
WHOLE_SECONDS = 300.0
"""How often every node is looked at, whether or not anything of it has changed."""


class Voice:
    """Events and conditions of one controller. `quiet` is set while no round is at work; `ring` when one was."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace, terms: Terms) -> None:
        self.troubles: tuple[str, ...] = ()
        self.events = Events(cluster, picture, pace=pace)
        self.quiet, self.ring = asyncio.Event(), asyncio.Event()
        self.quiet.set()
        self.agents = Agents(cluster, picture, pace=pace, terms=terms)
        self._conditions = Conditions(cluster, picture, self.agents, pace=pace)
        self._picture = picture
        self._pace = pace
        self._whole_at: float | None = None

    async def run(self, leads: Callable[[], bool]) -> None:
        """Speak after each round while leading, until cancelled. What goes wrong here ends nothing else."""
        while True:
            await self._pace.wait(self.ring, LOOK_SECONDS)
            if leads():
                try:
                    await self.speak()
                except Exception as error:  # noqa: BLE001  isolation goes on whatever becomes of the telling
                    self.troubles = (f"nothing can be told on the cluster's objects: {error!r}",)
            await self._pace.sleep(BREATH_SECONDS)

    async def speak(self) -> None:
        """Say what is to be said since the last time; what cannot be said now is said the next time."""
        if not self._picture.is_complete:
            return
        unseen = self._look()
        unseen += await self._look_at_agents()
        names = iter(await self._conditions.wanting(unseen))
        told = await asyncio.gather(self._by_some(self._next_event), self._by_some(lambda: self._next_condition(names)))
        self.troubles = (*unseen, *told[0], *told[1])

    async def _by_some(self, say: Callable[[], Awaitable[str | None]]) -> tuple[str, ...]:
        """Say one thing after another, some at a time, until None; return what went wrong, each sentence once."""
        troubles: dict[str, None] = {}

        async def go_on() -> None:
            while (trouble := await say()) is not None:
                troubles.update({trouble: None} if trouble else {})

        voices = [asyncio.ensure_future(go_on()) for _ in range(AT_ONCE)]
        try:
            await asyncio.wait(voices)
        finally:
            for one in voices:
                one.cancel()
            ended = await asyncio.gather(*voices, return_exceptions=True)
        for error in ended:
            if isinstance(error, EdgeError):
                troubles.update({f"it waits to be told: {error}": None})
            elif error is not None:
                raise error
        return tuple(troubles)

    async def _next_event(self) -> str | None:
        await self.quiet.wait()
        draft = self.events.next()
        if draft is None:
            return None
        try:
            return await self.events.send(draft)
        except BaseException:
            self.events.back(draft)
            raise

    async def _next_condition(self, names: Iterator[str]) -> str | None:
        await self.quiet.wait()
        name = next(names, None)
        return None if name is None else await self._conditions.write(name)

    async def _look_at_agents(self) -> list[str]:
        """See which agents are silent; return why that cannot be seen, nothing when it can."""
        try:
            self._conditions.due |= await self.agents.look()
        except EdgeError as error:
            return [f"whether agents are silent cannot be seen: {error}"]
        return []

    def _look(self) -> list[str]:
        """See what has changed; return of what nothing can be told, in sentences."""
        picture, now = self._picture, self._pace.clock.monotonic()
        changed = picture.cases.take_changed()
        troubles = self.events.look(changed)
        due = self._conditions.due
        due |= picture.gpu_nodes.take_changed() | picture.nodes.take_changed()
        # Of a fault only whether it can be read tells something here, and what was changed is not kept for ever.
        due |= {node_of_fault(name) for name in picture.faults.take_changed()}
        due |= {case.spec.node for name in changed if (case := picture.cases.objects.get(name)) is not None}
        if self._whole_at is None or now - self._whole_at >= WHOLE_SECONDS:
            self._whole_at = now
            due |= picture.gpu_nodes.objects.keys()
        return troubles
