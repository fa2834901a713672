"""A cluster at one of whose calls the controller dies: before it was sent, or when it was done and not yet answered."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, TypeVar

from gpuward.model.resource import Resource
from gpuward.ports import Cluster, Eviction, Listed, Object, Watched

_T = TypeVar("_T")


class Died(BaseException):
    """The process is gone: nothing that bears errors may bear this one."""


class MortalCluster:
    """Implements Cluster. Counts the calls but watches; at the `last` one, before or after it was done, all ends."""

    def __init__(self, cluster: Cluster, *, last: float = inf, after: bool = False) -> None:
        self.calls = 0
        self.is_dead = False
        self._cluster = cluster
        self._last = last
        self._after = after

    def doom(self, calls: int, *, after: bool) -> None:
        """Let it die so many calls from now."""
        self._last = self.calls + calls
        self._after = after

    async def list(self, resource: Resource, **asked: Any) -> Listed:
        """Return what the cluster returns, or die."""
        return await self._call(lambda: self._cluster.list(resource, **asked))

    def watch(self, resource: Resource, *, since: str, **asked: Any) -> AsyncIterator[Watched]:
        """Yield what the cluster yields."""
        return self._cluster.watch(resource, since=since, **asked)

    async def get(self, resource: Resource, name: str, **asked: Any) -> Object | None:
        """Return what the cluster returns, or die."""
        return await self._call(lambda: self._cluster.get(resource, name, **asked))

    async def create(self, resource: Resource, body: Object, **asked: Any) -> Object:
        """Create, or die."""
        return await self._call(lambda: self._cluster.create(resource, body, **asked))

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], **asked: Any
    ) -> Object:
        """Change, or die."""
        return await self._call(lambda: self._cluster.patch(resource, name, operations, **asked))

    async def delete(self, resource: Resource, name: str, **asked: Any) -> bool:
        """Delete, or die."""
        return await self._call(lambda: self._cluster.delete(resource, name, **asked))

    async def evict(self, pod: str, **asked: Any) -> Eviction:
        """Evict, or die."""
        return await self._call(lambda: self._cluster.evict(pod, **asked))

    async def close(self) -> None:
        """Give back nothing."""

    async def _call(self, send: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        self.calls += 1
        if self.is_dead or (self.calls >= self._last and not self._after):
            self._die()
        answer = await send()
        if self.calls >= self._last:
            self._die()
        return answer

    def _die(self) -> None:
        self.is_dead = True
        raise Died
