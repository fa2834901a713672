"""What a controller counts while it works: calls, effects, ends of cases. What can be looked at is in numbers.py."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from gpuward.isolation.announcing import PROVEN
from gpuward.model.case import ENDED, Case, CaseState, EffectKind, Outcome
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.resource import Resource
from gpuward.ports import Cluster, Conflict, EdgeError, Eviction, Listed, Meter, Object, Unreachable, Watched

_T = TypeVar("_T")


class Unmetered:
    """Implements Meter where nobody asks for numbers."""

    def add(self, metric: str, *labels: str, by: float = 1.0) -> None:
        """Forget it."""

    def observe(self, metric: str, value: float) -> None:
        """Forget it."""


class MeteredCluster:
    """Implements Cluster: counts each call by what came of it."""

    def __init__(self, cluster: Cluster, meter: Meter) -> None:
        self._cluster = cluster
        self._meter = meter

    async def list(self, resource: Resource, **asked: Any) -> Listed:
        """Return what the cluster returns."""
        return await self._count("list", self._cluster.list(resource, **asked))

    async def watch(self, resource: Resource, *, since: str, **asked: Any) -> AsyncIterator[Watched]:
        """Yield what the cluster yields; a watch is counted when it ends."""
        try:
            async for one in self._cluster.watch(resource, since=since, **asked):
                yield one
        except EdgeError as error:
            self._add("watch", error)
            raise
        self._add("watch", None)

    async def get(self, resource: Resource, name: str, **asked: Any) -> Object | None:
        """Return what the cluster returns."""
        return await self._count("get", self._cluster.get(resource, name, **asked))

    async def create(self, resource: Resource, body: Object, **asked: Any) -> Object:
        """Create."""
        return await self._count("create", self._cluster.create(resource, body, **asked))

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], **asked: Any
    ) -> Object:
        """Change."""
        return await self._count("patch", self._cluster.patch(resource, name, operations, **asked))

    async def delete(self, resource: Resource, name: str, **asked: Any) -> bool:
        """Delete."""
        return await self._count("delete", self._cluster.delete(resource, name, **asked))

    async def evict(self, pod: str, **asked: Any) -> Eviction:
        """Evict."""
        return await self._count("evict", self._cluster.evict(pod, **asked))

    async def close(self) -> None:
        """Give back what is held."""
        await self._cluster.close()

    async def _count(self, verb: str, call: Awaitable[_T]) -> _T:
        try:
            answer = await call
        except EdgeError as error:
            self._add(verb, error)
            raise
        self._add(verb, None)
        return answer

    def _add(self, verb: str, error: EdgeError | None) -> None:
        self._meter.add("gpuward_api_calls_total", verb, _answer_of(error))


def count_saved(meter: Meter, before: Case | None, after: Case, fault: GpuFault | None) -> None:
    """Count what the saving of a case made known; `before` is the case as it was saved before, None for a new one."""
    if before is None:
        return
    known = {effect.number: effect.outcome for effect in before.effects}
    for effect in after.effects:
        if effect.outcome is Outcome.ASKED or known.get(effect.number) is effect.outcome:
            continue
        if after.drill is None:
            meter.add("gpuward_effects_total", str(effect.kind), str(effect.outcome))
        is_tainted = effect.kind is EffectKind.TAINT and effect.outcome is Outcome.DONE and after.drill is None
        began = None if fault is None else fault.spec.first.wall
        if is_tainted and began is not None and effect.ended_at is not None and not _was_tainted(before):
            meter.observe("gpuward_fault_to_taint_seconds", max(0.0, effect.ended_at - began))
    if after.state in ENDED and before.state not in ENDED:
        meter.add("gpuward_cases_ended_total", _end_of(after))


def _was_tainted(case: Case) -> bool:
    return any(one.kind is EffectKind.TAINT and one.outcome is Outcome.DONE for one in case.effects)


def _end_of(case: Case) -> str:
    if case.drill is not None:
        return "drill"
    if case.state is CaseState.WITHDRAWN:
        return "withdrawn"
    return "returned" if case.because in PROVEN else "closed"


def _answer_of(error: EdgeError | None) -> str:
    if error is None:
        return "done"
    if isinstance(error, Unreachable):
        return "unreachable"
    return "conflict" if isinstance(error, Conflict) else "refused"
