"""Has repaired nodes stand by in the place of those that took theirs. Each standby that was given away is made up once.

The taint is put there while the node still wears that of its case, where that can be: no work slips in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpuward.controller.gather import Picture
from gpuward.controller.outcomes import is_open
from gpuward.controller.pace import Pace
from gpuward.controller.spares import Spares, owned_taints, wears
from gpuward.controller.views import NodeView, shape_of_node
from gpuward.isolation.standby import StandbyNode, refill
from gpuward.isolation.tainting import taint_operations
from gpuward.model.case import Case, CaseState, Mode
from gpuward.model.objects.gpu_case import as_case
from gpuward.model.objects.owned import RESERVED, Taint
from gpuward.model.objects.standby_pool import PoolStatus, Promotion, StandbyPool
from gpuward.model.pod import pod_of
from gpuward.model.resource import NODES, PODS
from gpuward.ports import Cluster

LOOK_SECONDS = 10.0
"""How often it is looked whether the work of a node that shall stand by has ended."""
_PROVEN = frozenset({CaseState.PROBATION, CaseState.CLOSED})
"""Where the node of a case has been proven, or a person has given it back."""
_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
_RESERVATION = {"key": RESERVED, "effect": "NoSchedule"}
_OF_GPU_NODES = frozenset({"nvidia.com/gpu"})
"""Taints that GPU nodes wear for good on many clusters, and that pods with GPUs tolerate."""


class Refiller:
    """Puts the standby taint on repaired nodes. `mode_of` says by a node's name how far gpuward may go there."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace, mode_of: Callable[[str], Mode]) -> None:
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._mode_of = mode_of
        self._next_look: dict[str, float] = {}

    async def refilled(self, pool: StandbyPool) -> StandbyPool:
        """Have repaired nodes stand by as far as the pool lacks some; return it with what is made up noted."""
        status = pool.status
        if status is None or all(one.refilled_at is not None for one in status.promoted):
            return pool
        spares, now = self._picture.spares(), self._pace.clock.now()
        wanted = self._wanted(pool, status, spares)
        promoted = []
        for one in status.promoted:
            node = self._node_of(one)
            if one.refilled_at is None and node is not None and await self._stands_by(pool, node, wanted):
                one = replace(one, refilled_at=now)  # noqa: PLW2901  the same one, made up for
            promoted.append(one)
        return replace(pool, status=replace(status, promoted=tuple(promoted)))

    async def _stands_by(self, pool: StandbyPool, node: NodeView, wanted: frozenset[str]) -> bool:
        """Have a node stand by if it shall and can; return whether that is settled, for better or worse."""
        taint = Taint(pool.spec.taint.key, str(pool.spec.taint.effect))
        worn, ours = wears(node, taint.key, taint.effect), taint in owned_taints(node)
        if worn != ours:
            return True  # a person has it stand by, or took our taint off: it is his
        is_free = (worn or self._is_due(node.name, wanted)) and not await self._has_work(node.name)
        if worn and is_free:
            return True
        if worn or is_free:
            # Work that came before the taint stays; the node stands by when that has ended.
            value = pool.spec.taint.value if is_free else None
            operations = taint_operations(node.kept, value, at=self._pace.clock.now(), taint=taint)
            self._picture.nodes.learn(await self._cluster.patch(NODES, node.name, operations))
        return False

    def _is_due(self, node: str, wanted: frozenset[str]) -> bool:
        """Return whether a node shall stand by, and whether it has work may be looked at now: it may for long."""
        now = self._pace.clock.monotonic()
        due = node in wanted and now >= self._next_look.get(node, now)
        if due:
            self._next_look[node] = now + LOOK_SECONDS
        return due

    def _wanted(self, pool: StandbyPool, status: PoolStatus, spares: Spares) -> frozenset[str]:
        """Return the repaired nodes that the pool lacks."""
        taint = pool.spec.taint
        standing = spares.of_pool(pool)
        made_up = {node.name for one in status.promoted if one.refilled_at is None and (node := self._node_of(one))}
        ready = [node.name for node in standing if not node.unfit or node.name in made_up]
        free: list[StandbyNode] = []
        for one in status.promoted:
            node = self._node_of(one)
            if one.refilled_at is None and node is not None and not wears(node, taint.key, taint.effect):
                free += self._candidate(one, node, spares)
        return frozenset(refill(pool.spec.shape, pool.spec.size, ready, free=free))

    def _candidate(self, given: Promotion, node: NodeView, spares: Spares) -> tuple[StandbyNode, ...]:
        """Return a repaired node as one that could stand by; nothing for one whose shape nobody knows."""
        gpus = self._picture.gpu_nodes.objects.get(node.name)
        shape = None if gpus is None else shape_of_node(node, gpus, self._picture.fabric)
        if gpus is None or shape is None:
            return ()
        unfit = spares.ails(node, gpus) or self._kept_out(node, given) or self._busy(node.name, given.case)
        if self._mode_of(node.name) is Mode.OBSERVE:
            unfit = unfit or "is only observed"
        return (StandbyNode(node.name, shape, unfit=unfit),)

    def _kept_out(self, node: NodeView, given: Promotion) -> str:
        """Return which taint a person put on a node: one that the node in its place wears, too, is the site's own."""
        other = self._picture.nodes.objects.get(given.node)
        usual = {_key(one) for one in (() if other is None else other.kept["spec"]["taints"])} - {_key(_RESERVATION)}
        strange = (
            key
            for key, effect in map(_key, node.kept["spec"]["taints"])
            if effect in _KEEPS_OUT and key not in _OF_GPU_NODES and (key, effect) not in usual
            if key == RESERVED or Taint(key, effect) not in owned_taints(node)
        )
        return next((f"wears the taint {key}" for key in strange), "")

    def _busy(self, node: str, case: str) -> str:
        """Return which other case is open for a node."""
        found = self._picture.cases.objects.items()
        others = (name for name, one in found if one.spec.node == node and name != case and is_open(as_case(one)))
        return next((f"has the case {name}" for name in others), "")

    def _node_of(self, given: Promotion) -> NodeView | None:
        """Return the node that makes up for one that was given away; None as long as there is none.

        It is the one whose place was taken, once its case has proven it; after a false alarm the one that was given.
        """
        found = self._picture.cases.objects.get(given.case)
        case: Case | None = None if found is None else as_case(found)
        if case is not None and case.state is CaseState.WITHDRAWN:
            return self._picture.nodes.objects.get(given.node)
        if case is None or case.state not in _PROVEN:
            return None
        return self._picture.nodes.objects.get(case.node)

    async def _has_work(self, node: str) -> bool:
        listed = await self._cluster.list(PODS, fields=f"spec.nodeName={node}", project=pod_of)
        return any(pod.gpus and not pod.ended for pod in listed.items)


def _key(taint: Mapping[str, Any]) -> tuple[str, str]:
    return str(taint.get("key")), str(taint.get("effect"))
