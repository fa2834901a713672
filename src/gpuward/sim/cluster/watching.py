"""One watch on the pretend cluster: told in time, late, or not at all. What there is to tell is in shelf.py."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from math import inf

from gpuward.model.resource import Resource
from gpuward.ports import Happened, Project, Unreachable, Watched
from gpuward.sim.cluster.network import Bell, Network, Presence
from gpuward.sim.cluster.server import Server, shown
from gpuward.sim.cluster.shelf import Told, Watcher
from gpuward.sim.cluster.weather import Spell


@dataclass(frozen=True, slots=True)
class Patience:
    """How often the server says on an idle watch that it is there, and how long a client bears silence."""

    bookmark_seconds: float = 60.0
    silence_seconds: float = 90.0


USUAL = Patience()


@dataclass(slots=True)
class Line:
    """The line of one watch. `end`, `breaks` and `heard` are on the monotonic clock; `heard` is when something came."""

    server: Server
    network: Network
    resource: Resource
    watcher: Watcher
    bell: Bell
    spell: Spell
    patience: Patience
    end: float
    heard: float
    breaks: float = field(init=False)
    quiet: float = field(init=False)

    def __post_init__(self) -> None:
        """Fix the times of what the weather does."""
        self.breaks = self.heard + self.spell.breaks_after_seconds
        self.quiet = self.breaks - self.spell.silent_seconds

    async def told(self, project: Project) -> AsyncIterator[Watched]:
        """Yield what comes until the end. Raises Unreachable when the line breaks or is silent for too long."""
        while True:
            now = self.network.clock.monotonic()
            self._check(now)
            if now >= self.end:
                return
            if not self._is_silent(now):
                ready = self._ready()
                if ready is not None:
                    self.heard = now
                    yield Watched(ready.happened, project(shown(self.resource, ready.obj)), ready.version)
                    continue
                if self.watcher.closed and not self.watcher.waiting:
                    return
                if now >= self.heard + self.patience.bookmark_seconds and not self.watcher.waiting:
                    self.heard = now
                    yield Watched(Happened.BOOKMARK, None, str(max(self.server.state.version, self.watcher.since)))
                    continue
            await self.bell.wait(self._next_time(now) - now)

    def _check(self, now: float) -> None:
        plural = self.resource.plural
        if self.network.presence is Presence.AWAY or now >= self.breaks:
            raise Unreachable(f"cannot watch the {plural}: the connection broke; watch again")
        if self._is_silent(now) and now >= self.heard + self.patience.silence_seconds:
            raise Unreachable(
                f"cannot watch the {plural}: nothing came for {self.patience.silence_seconds:g} s; watch again"
            )

    def _is_silent(self, now: float) -> bool:
        return self.network.presence is Presence.FROZEN or now >= self.quiet

    def _ready(self) -> Told | None:
        """Return the next that is told, once it is as late as the weather makes it."""
        waiting = self.watcher.waiting
        if not waiting or waiting[0].time + self.spell.behind_seconds > self.network.clock.now():
            return None
        return waiting.popleft()

    def _next_time(self, now: float) -> float:
        """Return when to look again if nothing rings before."""
        times = [self.end, self.breaks]
        if self._is_silent(now):
            times.append(self.heard + self.patience.silence_seconds)
        else:
            times.append(self.quiet)
            times.append(now + self._until_ready() if self.watcher.waiting else self._bookmark())
        return min(times)

    def _until_ready(self) -> float:
        late = self.watcher.waiting[0].time + self.spell.behind_seconds - self.network.clock.now()
        return max(late, 0.0) if late < inf else inf

    def _bookmark(self) -> float:
        return self.heard + self.patience.bookmark_seconds
