"""The pretend time of a fleet, and the event loop that lives in it: time passes only when everybody waits.

`skip` lets the time of day and the machines go on while nothing is due: then no loop that only waits is woken.
"""

import asyncio
import selectors
import time as real
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nextafter
from typing import Any

START = 1_790_000_000.0
"""When a run begins, in seconds since 1970 UTC."""


class Time:
    """Implements Clock for the cluster and its controllers: the monotonic clock stands still while time is skipped."""

    def __init__(self, start: float = START) -> None:
        self.passed = 0.0
        self.skipped = 0.0
        self._start = start

    def now(self) -> float:
        """Return seconds since 1970 UTC."""
        return self._start + self.passed + self.skipped

    def monotonic(self) -> float:
        """Return the seconds that have passed and were not skipped."""
        return self.passed

    def sleep(self, seconds: float) -> None:
        """Let time pass for all."""
        self.passed += seconds

    def skip(self, seconds: float) -> None:
        """Let the time of day go on, and nobody be woken."""
        self.skipped += seconds


@dataclass(frozen=True, slots=True)
class Skewed:
    """Implements Clock: a clock that is wrong by some seconds. A machine's runs on while time is skipped."""

    time: Time
    skew_seconds: float = 0.0
    runs_on: bool = False

    def now(self) -> float:
        """Return what it takes for the seconds since 1970 UTC."""
        return self.time.now() + self.skew_seconds

    def monotonic(self) -> float:
        """Return the seconds since the run began."""
        return self.time.passed + self.time.skipped if self.runs_on else self.time.passed

    def sleep(self, seconds: float) -> None:
        """Let time pass for all."""
        self.time.sleep(seconds)


class Nobody(RuntimeError):
    """Everybody waits, and nobody for the time: the run would never go on."""


class _Jumping(selectors.BaseSelector):
    """Never waits: the time jumps to the next moment that somebody waits for."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Keep the loop's own pipe, which nobody uses."""
        key = selectors.SelectorKey(fileobj, fileobj if isinstance(fileobj, int) else fileobj.fileno(), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Let it go."""
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time jump."""
        if timeout is None:
            raise Nobody
        if timeout > 0:
            then = self._time.passed + timeout
            self._time.passed = then if then > self._time.passed else nextafter(then, float("inf"))
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is kept."""
        return self._keys


class _Paced(selectors.DefaultSelector):
    """Waits in earnest, `speed` times as fast as life, and hears real connections meanwhile."""

    def __init__(self, time: Time, speed: float) -> None:
        super().__init__()
        self._time = time
        self._speed = speed
        self._looked = real.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait, and let as much time pass as did."""
        found = super().select(None if timeout is None else timeout / self._speed)
        now = real.monotonic()
        self._time.passed += (now - self._looked) * self._speed
        self._looked = now
        return found


class PretendLoop(asyncio.SelectorEventLoop):
    """An event loop on a pretend time. With a speed it goes on as fast as that, without one as fast as it can."""

    def __init__(self, time: Time, speed: float | None = None) -> None:
        super().__init__(_Jumping(time) if speed is None else _Paced(time, speed))
        self._pretend_time = time

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self._pretend_time.passed

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]  # no other thread
        """Call soon: there is one thread, and nobody to be woken."""
        return self.call_soon(callback, *args, context=context)

    def wake(self, callback: Callable[[], object]) -> None:
        """Call something as soon as the loop goes round, also when it waits: for the handler of a signal."""
        super().call_soon_threadsafe(callback)
