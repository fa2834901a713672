"""Which of several controllers leads: the one that holds the Lease. Time is only ever compared on one's own clock.

A Lease of another is stale when it was seen unchanged for as long as it says, by our own monotonic clock. Who leads
stops leading before that: its time counts from before the renewal was sent. A lease does not fence a write that is on
its way already; so every write has a precondition of its own.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuward.controller.pace import Pace
from gpuward.model.objects.owned import LEADER_LEASE
from gpuward.model.resource import LEASES, Resource
from gpuward.ports import Cluster, EdgeError, Eviction, Listed, Object, Unreachable, Watched


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How a Lease is held. Who leads gives up after `lead_seconds` without a renewal, well before others act."""

    namespace: str = "gpuward"
    name: str = LEADER_LEASE
    lease_seconds: int = 15
    lead_seconds: float = 10.0
    retry_seconds: float = 2.0


class Leading:
    """One candidate. `identity` is of this process alone: one that starts anew is another candidate.

    `ring` is called each time it begins to lead.
    """

    def __init__(self, cluster: Cluster, identity: str, *, pace: Pace, terms: LeaseTerms) -> None:
        self.trouble = ""
        self.ring: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._identity = identity
        self._pace = pace
        self._terms = terms
        self._until: float | None = None
        self._record: tuple[Any, ...] | None = None
        self._record_at = 0.0

    def leads(self) -> bool:
        """Return whether this one leads at this moment."""
        return self._until is not None and self._pace.clock.monotonic() < self._until

    async def run(self) -> None:
        """Stand for election, and renew while leading, until cancelled. Errors of the cluster are borne."""
        while True:
            try:
                await self.stand()
                self.trouble = ""
            except EdgeError as error:
                self.trouble = str(error)
            retry = self._terms.retry_seconds
            await self._pace.sleep(retry * (0.75 + self._pace.chance() / 2))

    async def stand(self) -> None:
        """Take the Lease if it is free or stale, renew it if it is ours. Raises what the cluster raises."""
        terms, began = self._terms, self._pace.clock.monotonic()
        found = await self._cluster.get(
            LEASES, terms.name, namespace=terms.namespace, deadline_seconds=terms.lead_seconds / 2
        )
        if found is None:
            made = await self._cluster.create(
                LEASES,
                {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": terms.name}}
                | {"spec": self._spec({})},
                namespace=terms.namespace,
                deadline_seconds=terms.lead_seconds / 2,
            )
            self._hold(made, began)
            return
        spec: Mapping[str, Any] = found.get("spec") or {}
        if self._may_take(found, spec):
            self._hold(await self._write(found, self._spec(spec)), began)
        elif spec.get("holderIdentity") != self._identity:
            self._until = None

    async def release(self) -> None:
        """Give the Lease back, so that another leads at once; one that is not ours stays. Raises as the cluster."""
        self._until = None
        terms = self._terms
        found = await self._cluster.get(LEASES, terms.name, namespace=terms.namespace)
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._identity:
            await self._write(found, {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})

    def _may_take(self, found: Object, spec: Mapping[str, Any]) -> bool:
        holder, now = spec.get("holderIdentity"), self._pace.clock.monotonic()
        record = (found["metadata"].get("uid"), holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._record:
            self._record, self._record_at = record, now
        if not holder or holder == self._identity:
            return True
        seconds = spec.get("leaseDurationSeconds")
        # What says no duration, or an odd one, is held against ours.
        told = seconds if isinstance(seconds, int) and seconds > 0 else 0
        return now - self._record_at > max(told, self._terms.lease_seconds)

    def _hold(self, made: Object, began: float) -> None:
        spec = made.get("spec") or {}
        if spec.get("holderIdentity") == self._identity:
            led, self._until = self.leads(), began + self._terms.lead_seconds
            if not led:
                self.ring()

    async def _write(self, found: Object, spec: Mapping[str, Any]) -> Object:
        metadata = found["metadata"]
        return await self._cluster.patch(
            LEASES,
            self._terms.name,
            (
                {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
                {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
                {"op": "add", "path": "/spec", "value": dict(spec)},
            ),
            namespace=self._terms.namespace,
            deadline_seconds=self._terms.lead_seconds / 2,
        )

    def _spec(self, before: Mapping[str, Any]) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(self._pace.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_ours = before.get("holderIdentity") == self._identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.lease_seconds,
            "acquireTime": before.get("acquireTime", stamp) if is_ours else stamp,
            "renewTime": stamp,
            "leaseTransitions": transitions if is_ours or not before else transitions + 1,
        }


class WhileLeading:
    """Implements Cluster: reads go through; a write is refused its way out at a moment when `leads` says no."""

    def __init__(self, cluster: Cluster, leads: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._leads = leads

    async def list(self, resource: Resource, **asked: Any) -> Listed:
        """Return what the cluster returns."""
        return await self._cluster.list(resource, **asked)

    def watch(self, resource: Resource, *, since: str, **asked: Any) -> AsyncIterator[Watched]:
        """Yield what the cluster yields."""
        return self._cluster.watch(resource, since=since, **asked)

    async def get(self, resource: Resource, name: str, **asked: Any) -> Object | None:
        """Return what the cluster returns."""
        return await self._cluster.get(resource, name, **asked)

    async def create(self, resource: Resource, body: Object, **asked: Any) -> Object:
        """Create while leading."""
        self._check()
        return await self._cluster.create(resource, body, **asked)

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], **asked: Any
    ) -> Object:
        """Change while leading."""
        self._check()
        return await self._cluster.patch(resource, name, operations, **asked)

    async def delete(self, resource: Resource, name: str, **asked: Any) -> bool:
        """Delete while leading."""
        self._check()
        return await self._cluster.delete(resource, name, **asked)

    async def evict(self, pod: str, **asked: Any) -> Eviction:
        """Evict while leading."""
        self._check()
        return await self._cluster.evict(pod, **asked)

    async def close(self) -> None:
        """Give back nothing: the cluster is another's to close."""

    def _check(self) -> None:
        if not self._leads():
            raise Unreachable("another controller may lead by now: nothing is written; this one stands for election")
