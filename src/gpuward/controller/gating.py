"""Sets the labels of nodes that keep the GPU Operator's programs away for a repair, and puts them back after it.

The label of a node and our note of what it said before are written in one patch, so a controller that is killed leaves
either none of both or both; what no open case needs is put back by whoever comes next.
"""

from collections.abc import Callable, Mapping, Sequence

from gpuward.controller.gather import Picture
from gpuward.controller.outcomes import order_id
from gpuward.controller.pace import Pace
from gpuward.controller.pausing import waiting_for_agents, wanted_labels
from gpuward.controller.views import NodeView, node_view
from gpuward.isolation.clients import GATES
from gpuward.isolation.labelling import label_operations
from gpuward.model.case import Case, Effect, Outcome
from gpuward.model.objects.gpu_case import Former, GpuCase, as_case
from gpuward.model.objects.owned import OWNED
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import NODES
from gpuward.ports import Cluster, Conflict, Refused

Refuse = Callable[[Sequence[Case], str], None]
"""Is told that the API server will never allow what these cases ask for, and why."""


class Gating:
    """The labels of all nodes. Errors: Unreachable; what is refused is told, and what has changed is read again."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace, keys: frozenset[str]) -> None:
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._keys = keys

    async def keep(self, name: str, saved: Sequence[GpuCase], refuse: Refuse) -> None:
        """Give a node the labels that its open cases ask for, or put back what was there before."""
        node = self._picture.nodes.objects.get(name)
        cases = [as_case(one) for one in saved]
        formers = {one.head.name: one.status.formers for one in saved if one.status is not None}
        if node is None or not (any(formers.values()) or is_gated(node)):
            return
        try:
            try:
                await self._keep(node, cases, formers)
            except Conflict:
                fresh = await self._cluster.get(NODES, name)
                if fresh is not None:
                    await self._keep(node_view(fresh, self._keys), cases, formers)
        except Conflict:
            return
        except (Refused, ObjectError) as error:
            refuse(cases, str(error))

    async def _keep(self, node: NodeView, cases: Sequence[Case], formers: Mapping[str, tuple[Former, ...]]) -> None:
        waits = waiting_for_agents(cases, self._is_told, now=self._pace.clock.now())
        labels = node.kept["metadata"]["labels"]
        put, back = wanted_labels(cases, formers, labels, waits=waits)
        operations = label_operations(node.kept, put, back)
        if operations:
            self._picture.nodes.learn(await self._cluster.patch(NODES, node.name, operations))

    def _is_told(self, case: Case, effect: Effect) -> bool:
        """Return whether the agent of a case has said what became of its part."""
        view = self._picture.gpu_nodes.objects.get(case.node)
        answer = None if view is None else view.answers.get(order_id(case, effect))
        return answer is not None and answer.outcome is not Outcome.ASKED


def is_gated(node: NodeView) -> bool:
    """Return whether our note on a node names a label of these programs; one that is broken may."""
    note = str(node.kept["metadata"]["annotations"].get(OWNED, ""))
    return any(gate in note for gate in GATES)
