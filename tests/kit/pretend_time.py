"""Time that passes only when everybody sleeps, for tests of what runs on an event loop with a clock of its own."""

import asyncio
import heapq
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")
_ROUNDS = 50
"""So many turns of the event loop let everything run that can."""


class PretendTime:
    """Implements Clock, and gives the sleep that goes with it; begins at `start` seconds since 1970."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.passed = 0.0
        self._start = start
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []
        self._slept = 0

    def now(self) -> float:
        """Return seconds since 1970 UTC."""
        return self._start + self.passed

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.passed

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds

    async def doze(self, seconds: float) -> None:
        """Wait until so much time has passed."""
        waiting = asyncio.get_running_loop().create_future()
        self._slept += 1
        heapq.heappush(self._sleeping, (self.passed + seconds, self._slept, waiting))
        await waiting

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return what the work comes to; time goes on to the next sleeper whenever nobody can run."""
        task = asyncio.ensure_future(work)
        while not await self._is_settled(task):
            self._drop_who_gave_up()
            assert self._sleeping, "everybody waits, and nobody for the time"
            self._wake()
        return task.result()

    async def pass_by(self, seconds: float) -> None:
        """Let so much time pass, and all happen that is due in it."""
        end = self.passed + seconds
        await self._turn()
        self._drop_who_gave_up()
        while self._sleeping and self._sleeping[0][0] <= end:
            self._wake()
            await self._turn()
            self._drop_who_gave_up()
        self.passed = end

    def _wake(self) -> None:
        at, _, waiting = heapq.heappop(self._sleeping)
        self.passed = max(self.passed, at)
        waiting.set_result(None)

    def _drop_who_gave_up(self) -> None:
        """Forget the next sleepers that gave up waiting: they make no time pass, and need no turn."""
        while self._sleeping and self._sleeping[0][2].done():
            heapq.heappop(self._sleeping)

    async def _is_settled(self, task: Awaitable[Any]) -> bool:
        await self._turn()
        return isinstance(task, asyncio.Future) and task.done()

    async def _turn(self) -> None:
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
