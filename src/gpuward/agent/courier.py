"""What a node's loop sends, written to its cluster: faults, and the status of the node's object. It decides nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from gpuward.agent.connection import Connection, Place
from gpuward.agent.post import Parcel, Receipt, Report, Worry
from gpuward.model.resource import GPU_FAULTS, GPU_NODES
from gpuward.ports import Conflict, Object, Refused, Unreachable

_TRIES = 3
"""How often what changed under us is read again before it waits for its next turn."""

_MOST_REFUSALS = 20
"""How often in all a fault is refused before it is given up, over some eight minutes."""


class Courier:
    """Carries from a node to its cluster until cancelled; no error of the cluster ends it."""

    def __init__(self, connection: Connection, place: Place, *, worry: Callable[[bool], None]) -> None:
        self._connection = connection
        self._node = place.node
        self._worry = worry
        self._parcels: dict[str, Parcel] = {}
        self._refused: dict[str, int] = {}
        self._report: Report | None = None
        self._accepted: Mapping[str, Any] | None = None
        """The status that the server has; None: nobody looked yet."""
        self._rung = asyncio.Event()

    async def carry(self) -> None:
        """Write what is sent, faults first; what got no answer is written again after a while."""
        connection, failures, next_status = self._connection, 0, 0.0
        loop = asyncio.get_running_loop()
        connection.post.answer(lambda: loop.call_soon_threadsafe(self._rung.set))
        while True:
            self._rung.clear()
            self._collect()
            failed = not await _succeeds(self._write_faults())
            if self._report is not None and (self._report.urgent or connection.clock.monotonic() >= next_status):
                failed = not await _succeeds(self._write_report(self._report)) or failed
                next_status = connection.clock.monotonic() + connection.paces.status_seconds
            failures = failures + 1 if failed else 0
            waits = connection.back_off(failures) if failures else None
            if waits is None and self._report is not None:
                waits = max(0.0, next_status - connection.clock.monotonic())
            await connection.until(self._rung, waits)

    def write_anew(self) -> None:
        """Write the status once more: somebody deleted the object."""
        if self._report is None and self._accepted:
            self._report = Report(self._accepted, urgent=True)
        self._accepted = {}
        self._rung.set()

    def _collect(self) -> None:
        for word in self._connection.post.collected():
            match word:
                case Parcel():
                    self._parcels[word.name] = word
                case Report():
                    urgent = word.urgent or (self._report is not None and self._report.urgent)
                    self._report = replace(word, urgent=urgent)
                case Worry(worried):
                    self._worry(worried)

    async def _write_faults(self) -> None:
        """Write the worst fault first, also one that is sent meanwhile; of equals a new one before news of another.

        Raises Unreachable or Conflict at the end.
        """
        troubled: Conflict | None = None
        put_off: set[str] = set()
        while due := [one for one in self._parcels.values() if one.name not in put_off]:
            parcel = max(due, key=lambda one: (one.level, one.body is not None))
            try:
                await self._deliver(parcel)
            except Conflict as error:
                troubled = error
                put_off.add(parcel.name)
            self._collect()
        if troubled is not None:
            raise troubled

    async def _deliver(self, parcel: Parcel) -> None:
        refusal = ""
        try:
            await self._write_fault(parcel)
        except Refused as error:
            # A server that has just started refuses what it does not know yet that it allows.
            self._refused[parcel.name] = self._refused.get(parcel.name, 0) + 1
            if self._refused[parcel.name] < _MOST_REFUSALS:
                raise Conflict(str(error)) from error
            refusal = str(error)
        self._refused.pop(parcel.name, None)
        self._connection.post.tell(Receipt(parcel.name, parcel.number, refusal))
        if self._parcels.get(parcel.name) == parcel:
            del self._parcels[parcel.name]

    async def _write_fault(self, parcel: Parcel) -> None:
        found = None if parcel.body is None else await self._created(parcel.name, parcel.body)
        parts = {"evidence": parcel.evidence, "pods": parcel.pods}
        parts = {name: part for name, part in parts.items() if part is not None}
        if parts:
            await self._write_parts(parcel.name, parts, found)

    async def _created(self, name: str, body: Mapping[str, Any]) -> Object:
        """Return the object, made now, or before: then the answer, or the memory of it, was lost."""
        connection = self._connection
        try:
            return await connection.asked(connection.cluster.create(GPU_FAULTS, body))
        except Conflict:
            found = await connection.asked(connection.cluster.get(GPU_FAULTS, name))
            if found is None:
                raise
            return found

    async def _write_parts(self, name: str, parts: Mapping[str, Any], found: Object | None) -> None:
        connection = self._connection
        for _ in range(_TRIES):
            found = found or await connection.asked(connection.cluster.get(GPU_FAULTS, name))
            if found is None:
                return  # pruned meanwhile
            patch = _patch(found, parts)
            try:
                await connection.asked(connection.cluster.patch(GPU_FAULTS, name, patch, subresource="status"))
            except Conflict:
                found = None
            else:
                return
        raise Conflict(f"fault {name} changes under us again and again")

    async def _write_report(self, report: Report) -> None:
        """Write the status unless it is there already; the node's object is made where it is missing."""
        connection = self._connection
        if self._accepted is None:
            found = await connection.asked(connection.cluster.get(GPU_NODES, self._node))
            self._accepted = {} if found is None else dict(found.get("status") or {})
        if report.status != self._accepted:
            try:
                await self._patch_status(report.status)
            except Refused as error:
                connection.complain(f"the status of {self._node} is not accepted: {error}; it is tried again")
                raise Conflict(str(error)) from error
            self._accepted = report.status
        if self._report is report:
            self._report = None

    async def _patch_status(self, status: Mapping[str, Any]) -> None:
        connection = self._connection
        operation = {"op": "add", "path": "/status", "value": status}
        for _ in range(_TRIES):
            call = connection.cluster.patch(GPU_NODES, self._node, [operation], subresource="status")
            try:
                await connection.asked(call)
            except Conflict:
                await self._make_node()
            else:
                return
        raise Conflict(f"GPUNode {self._node} changes under us again and again")

    async def _make_node(self) -> None:
        """Make the node's object, without a spec: orders are the controller's."""
        metadata = {"name": self._node}
        body = {"apiVersion": GPU_NODES.api_version, "kind": GPU_NODES.kind, "metadata": metadata}
        try:
            await self._connection.asked(self._connection.cluster.create(GPU_NODES, body))
        except Conflict:
            return  # it is there


async def _succeeds(work: Awaitable[None]) -> bool:
    """Do it; return whether it came to its end, or must be tried again."""
    try:
        await work
    except (Unreachable, Conflict, Refused):
        return False
    return True


def _patch(found: Object, parts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the patch of the status that leaves what the controller wrote as it is."""
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    if "status" in found:
        return [version, *({"op": "add", "path": f"/status/{name}", "value": part} for name, part in parts.items())]
    return [version, {"op": "add", "path": "/status", "value": dict(parts)}]
