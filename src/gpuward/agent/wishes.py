"""What the controller wants of a node, followed on the node's own object and told to the node. Nothing is done here."""

from collections.abc import Callable, Mapping
from typing import Any

from gpuward.agent.connection import Connection, Place
from gpuward.agent.post import Wanted
from gpuward.model.case import Mode
from gpuward.model.objects.gpu_node import MOST_ORDERS, GpuOrder, NodeSpec
from gpuward.model.objects.values import ObjectError, read
from gpuward.model.resource import GPU_NODES
from gpuward.ports import Conflict, EdgeError, Happened, Object, Refused, Unreachable


class Wishes:
    """Follows one GPUNode until cancelled. `lost` is called when somebody deleted it."""

    def __init__(self, connection: Connection, place: Place, *, lost: Callable[[], None]) -> None:
        self._connection = connection
        self._node = place.node
        self._fields = f"metadata.name={place.node}"
        self._lost = lost

    async def follow(self) -> None:
        """Tell the node what its object wants, now and after every change."""
        connection, version, failures = self._connection, "", 0
        while True:
            try:
                version = await self._watch(version or await self._list())
                failures = 0
            except Conflict:
                version = ""
                failures += 1
            except EdgeError as error:
                failures += 1
                if isinstance(error, Refused):
                    connection.complain(f"the orders for {self._node} cannot be read: {error}")
            if failures:
                await connection.sleep(connection.back_off(failures))

    async def _list(self) -> str:
        connection = self._connection
        call = connection.cluster.list(GPU_NODES, fields=self._fields, project=self.wanted)
        listed = await connection.asked(call)
        connection.post.tell(listed.items[0] if listed.items else Wanted())
        return listed.version

    async def _watch(self, since: str) -> str:
        """Follow from a version to the end of the watch; return the version to go on from.

        A watch that breaks is begun anew from a list: that is one object, and it tells what the watch had not.
        """
        connection, version = self._connection, since
        watch = connection.cluster.watch(GPU_NODES, since=since, fields=self._fields, project=self.wanted)
        begun = connection.clock.monotonic()
        try:
            async for told in watch:
                connection.note_answer()
                begun = connection.clock.monotonic()
                version = told.version
                if told.happened is Happened.DELETED:
                    connection.post.tell(Wanted())
                    self._lost()
                elif told.item is not None:
                    connection.post.tell(told.item)
        except Unreachable as error:
            # A silent watch says nothing of when the server went; one that breaks says that it is gone now.
            connection.note_silence(max(begun, connection.clock.monotonic()))
            raise Conflict(f"the watch of {self._node} broke; list again") from error
        return version

    def wanted(self, found: Object) -> Wanted:
        """Return what an object wants. An order that cannot be read is left out, and complained of."""
        spec = found.get("spec") or {}
        try:
            mode = read(NodeSpec, {**spec, "orders": []}, "spec").mode or Mode.OBSERVE
        except ObjectError as error:
            self._connection.complain(f"GPUNode {self._node}: {error}; its mode counts as observe")
            mode = Mode.OBSERVE
        return Wanted(mode, tuple(self._orders(spec)), held=str(spec.get("held") or ""))

    def _orders(self, spec: Mapping[str, Any]) -> list[GpuOrder]:
        orders: list[GpuOrder] = []
        for number, one in enumerate((spec.get("orders") or ())[:MOST_ORDERS]):
            try:
                orders.append(read(GpuOrder, one, f"spec.orders[{number}]"))
            except ObjectError as error:
                self._connection.complain(f"GPUNode {self._node}: an order is not understood: {error}")
        return orders
