"""The way to the pretend API server, the same for all who ask: whether it is there, and the time. No object is here."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from math import inf

from gpuward.ports import Clock

Sleep = Callable[[float], Awaitable[None]]
"""Lets so many seconds pass on the caller's clock."""


class Presence(StrEnum):
    """Whether the server is there."""

    THERE = "there"
    FROZEN = "frozen"
    """It takes requests and answers none until it goes on."""
    AWAY = "away"
    """Nothing takes the connection; watches break."""


class Bell:
    """Wakes one who waits, at a ring or when the time is up."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._waiting: asyncio.Future[None] | None = None
        self._has_rung = False

    def ring(self) -> None:
        """Wake who waits, or who will wait next."""
        self._has_rung = True
        if self._waiting is not None:
            _set(self._waiting)

    async def wait(self, seconds: float) -> None:
        """Return at the next ring, also one that was before, or after so many seconds."""
        if not self._has_rung and seconds > 0:
            waiting = self._waiting = asyncio.get_running_loop().create_future()
            timer = None if seconds == inf else asyncio.ensure_future(self._sleep(seconds))
            try:
                if timer is not None:
                    timer.add_done_callback(lambda _: _set(waiting))
                await waiting
                if timer is not None and timer.done():
                    timer.result()
            finally:
                self._waiting = None
                if timer is not None:
                    timer.cancel()
        self._has_rung = False


class Network:
    """The server's presence, and the clock and the sleep of the simulation. Nothing here reads another clock."""

    def __init__(self, clock: Clock, sleep: Sleep) -> None:
        self.clock = clock
        self.sleep = sleep
        self.presence = Presence.THERE
        self._bells: dict[Bell, None] = {}
        self._late: set[asyncio.Future[None]] = set()

    def turn(self, presence: Presence) -> None:
        """Let the server freeze, go away, or be there; all who wait for it learn it at once."""
        self.presence = presence
        for bell in list(self._bells):
            bell.ring()

    def bell(self) -> Bell:
        """Return a bell that rings also when the presence changes; give it back by `silence`."""
        bell = Bell(self.sleep)
        self._bells[bell] = None
        return bell

    def silence(self, bell: Bell) -> None:
        """Ring it no more."""
        self._bells.pop(bell, None)

    async def thawed(self, deadline: float) -> bool:
        """Wait until the server is not frozen, by a deadline on the monotonic clock; return whether it is so."""
        if not self._is_frozen():
            return True
        bell = self.bell()
        try:
            while self._is_frozen() and (left := deadline - self.clock.monotonic()) > 0:
                await bell.wait(left)
        finally:
            self.silence(bell)
        return not self._is_frozen()

    def _is_frozen(self) -> bool:
        return self.presence is Presence.FROZEN

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do something when nobody waits for it any more."""
        task = asyncio.ensure_future(self._do_later(seconds, act))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _do_later(self, seconds: float, act: Callable[[], object]) -> None:
        await self.sleep(seconds)
        if self.presence is Presence.THERE:
            act()


def _set(waiting: asyncio.Future[None]) -> None:
    """Wake one who waits for this alone: a timer that was given up must not wake the next wait."""
    if not waiting.done():
        waiting.set_result(None)
