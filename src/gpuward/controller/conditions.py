"""Keeps our condition on every GPU node true: written when what it says has changed, and then only our own entry."""

import asyncio

from gpuward.controller.agents import Agents
from gpuward.controller.gather import Picture
from gpuward.controller.heed import DEFECT, node_of_fault
from gpuward.controller.outcomes import is_open
from gpuward.controller.pace import Pace
from gpuward.controller.views import NodeView
from gpuward.isolation.node_condition import Saying, condition_operations, saying_of, says
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.resource import NODES
from gpuward.ports import Cluster, Conflict, Refused

TRIES = 3
"""How often a node is read again when others write to it; it stays due after that."""
AT_A_STRETCH = 64
"""So many nodes are looked at before others of this process have their turn."""


class Conditions:
    """The conditions of all nodes. `due` are the nodes of which something has changed since they were looked at."""

    def __init__(self, cluster: Cluster, picture: Picture, agents: Agents, *, pace: Pace) -> None:
        self.due: set[str] = set()
        self._cluster = cluster
        self._picture = picture
        self._agents = agents
        self._pace = pace
        self._cases: dict[str, list[GpuCase]] = {}
        self._unread: dict[str, str] = {}

    async def wanting(self, troubles: list[str]) -> list[str]:
        """Return which of the due nodes do not say what they should, in order; the others are due no more.

        Of which of them that cannot be found out is added to `troubles`.
        """
        wanting: list[str] = []
        self._cases = self._picture.cases_by_node() if self.due else {}
        self._unread = self._unreadable() if self.due else {}
        for number, name in enumerate(sorted(self.due)):
            if number % AT_A_STRETCH == AT_A_STRETCH - 1:
                await asyncio.sleep(0)
            node = self._picture.nodes.objects.get(name)
            try:
                is_said = node is None or self._is_said(node)
            except Exception as error:  # noqa: BLE001  whatever others wrote of it, it is one node of many
                troubles.append(f"the condition of node {name} cannot be told: {DEFECT}: {error!r}")
                is_said = True
            if is_said:
                self.due.discard(name)
            else:
                wanting.append(name)
        return wanting

    async def write(self, name: str) -> str:
        """Let a node say what it should; return why it cannot be written, empty when it can. Raises Unreachable."""
        for _ in range(TRIES):
            node = await self._cluster.get(NODES, name)
            if node is None:
                break
            saying = self._saying(name)
            operations = condition_operations(node, saying, at=self._pace.clock.now())
            if not operations:
                break
            try:
                made = await self._cluster.patch(NODES, name, operations, subresource="status")
            except Conflict:
                continue
            except Refused as error:
                self.due.discard(name)
                return f"the condition of node {name} cannot be written: {error}"
            self._picture.nodes.learn(made)
            break
        else:
            return ""  # it stays due
        self.due.discard(name)
        return ""

    def _unreadable(self) -> dict[str, str]:
        """Return by node why its GPUs, or a fault of it, cannot be read."""
        faults = sorted(self._picture.faults.unreadable.items())
        found = {node_of_fault(name): f"GPUFault {name}: {why}" for name, why in reversed(faults)}
        return found | self._picture.gpu_nodes.unreadable

    def _is_said(self, node: NodeView) -> bool:
        found, saying = node.condition, self._saying(node.name)
        return found is None if saying is None else says(found, saying)

    def _saying(self, name: str) -> Saying | None:
        """Return what a node should say; None for one that is no GPU server of ours."""
        view = self._picture.gpu_nodes.objects.get(name)
        open_cases = [case for case in map(as_case, self._cases.get(name, ())) if is_open(case)]
        unread = self._unread.get(name)
        if unread is not None:
            return saying_of(open_cases, (), unseen=f"what its agent tells cannot be read: {unread}")
        if view is None:
            return saying_of(open_cases, (), unseen="no agent tells of it") if open_cases else None
        return saying_of(open_cases, view.gpus, unseen=self._agents.silent.get(name) or view.unseen)
