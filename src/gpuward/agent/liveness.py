"""Who lives: the node says so by its Lease, and looks at the leader's. Nothing is concluded from it here."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from gpuward.agent.connection import Connection, Place
from gpuward.agent.lone import Contact
from gpuward.model.objects.owned import LEADER_LEASE, agent_lease
from gpuward.model.resource import LEASES
from gpuward.ports import Conflict, EdgeError, Object, Refused, Unreachable

_RENEWALS = 3
"""How often a Lease is renewed within its duration: one that is missed does no harm."""


class Liveness:
    """The Leases of a node and of the leader, until cancelled."""

    def __init__(self, connection: Connection, place: Place) -> None:
        self._connection = connection
        self._place = place
        self._acquired: str | None = None
        self._worried = False
        self._changed = asyncio.Event()

    def worry(self, *, worried: bool) -> None:
        """Look at the leader soon and often, or as usual again."""
        self._worried = worried
        self._changed.set()

    async def beat(self) -> None:
        """Renew the node's Lease, again and again."""
        connection, paces = self._connection, self._connection.paces
        while True:
            waits = paces.lease_seconds / _RENEWALS
            try:
                await self._renew()
            except Unreachable:
                waits = min(waits, paces.worried_seconds)
            except EdgeError as error:
                connection.complain(f"the Lease of {self._place.node} cannot be renewed: {error}")
            await connection.sleep(connection.jittered(waits))

    async def mind_leader(self) -> None:
        """Look at the leader's Lease now and then, and soon again while a GPU waits for its order."""
        connection, paces = self._connection, self._connection.paces
        while True:
            self._changed.clear()
            call = connection.cluster.get(LEASES, LEADER_LEASE, namespace=self._place.namespace)
            try:
                self._note_leader(await connection.asked(call))
            except Refused as error:
                connection.complain(f"the Lease of the leading controller cannot be read: {error}")
            except EdgeError:
                pass  # it was noted that nothing was answered
            waits = paces.worried_seconds if self._worried else paces.leader_seconds
            await connection.until(self._changed, connection.jittered(waits))

    async def _renew(self) -> None:
        connection = self._connection
        name, now = agent_lease(self._place.node), _micro_time(connection.clock.now())
        self._acquired = self._acquired or now
        spec = {
            "holderIdentity": self._place.node,
            "leaseDurationSeconds": connection.paces.lease_seconds,
            "acquireTime": self._acquired,
            "renewTime": now,
        }
        operation = {"op": "add", "path": "/spec", "value": spec}
        where = self._place.namespace
        try:
            await connection.asked(connection.cluster.patch(LEASES, name, [operation], namespace=where))
        except Conflict:
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": name}, "spec": spec}
            await connection.asked(connection.cluster.create(LEASES, body, namespace=where))

    def _note_leader(self, found: Object | None) -> None:
        now = self._connection.clock.monotonic()
        spec = {} if found is None else found.get("spec") or {}
        leader = f"{spec.get('holderIdentity', '')} {spec.get('renewTime', '')}".strip()
        known = self._connection.contact
        same = known.leader_since is not None and known.leader == leader
        seconds = spec.get("leaseDurationSeconds")
        self._connection.note(
            replace(
                known,
                leader=leader,
                leader_since=known.leader_since if same else now,
                leader_seen=now,
                leader_seconds=float(seconds) if isinstance(seconds, int) and seconds > 0 else Contact().leader_seconds,
            )
        )


def _micro_time(seconds: float) -> str:
    """Return a time as a Lease spells it: six digits after the point, always."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
