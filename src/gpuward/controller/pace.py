"""How a loop of the controller waits: by a clock and a sleep that are given, with jitter, woken early by a ring."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpuward.ports import Clock

Sleep = Callable[[float], Awaitable[None]]
"""Lets so many seconds pass."""
Chance = Callable[[], float]
"""Returns a number from 0 up to 1."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock, the sleep and the chance of one controller. Seconds."""

    clock: Clock
    sleep: Sleep
    chance: Chance
    first_seconds: float = 0.5
    longest_seconds: float = 30.0

    async def back_off(self, failures: int) -> None:
        """Wait before another try after so many failures in a row: longer each time, between half of that and all."""
        window = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 16))
        await self.sleep(window * (0.5 + self.chance() / 2))

    async def wait(self, bell: asyncio.Event, seconds: float) -> bool:
        """Return when the bell rings, or after so many seconds: whether it rang. It is quiet again then."""
        rung, slept = asyncio.ensure_future(bell.wait()), asyncio.ensure_future(self.sleep(seconds))
        try:
            await asyncio.wait((rung, slept), return_when=asyncio.FIRST_COMPLETED)
        finally:
            rung.cancel()
            slept.cancel()
            await asyncio.gather(rung, slept, return_exceptions=True)
        rang = bell.is_set()
        bell.clear()
        return rang
