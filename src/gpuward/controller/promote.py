"""Releases a standby node for the work of a sick one, keeps it for that job for a while, and tells what a pool has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuward.controller.gather import Picture
from gpuward.controller.heed import borne
from gpuward.controller.pace import Pace
from gpuward.controller.record import Tell
from gpuward.controller.refill import Refiller
from gpuward.controller.views import NodeView
from gpuward.isolation.tainting import taint_operations
from gpuward.model.case import Effect, Mode
from gpuward.model.counted import many
from gpuward.model.happening import Happening, What
from gpuward.model.job import is_part, selector_of
from gpuward.model.objects.gpu_case import GpuCase
from gpuward.model.objects.owned import OWNED, RESERVED, Taint, read_owned, write_owned
from gpuward.model.objects.standby_pool import PoolStatus, Promotion, StandbyPool, StandbyTaint
from gpuward.model.objects.values import ObjectError, write
from gpuward.model.pod import PodSight, pod_of
from gpuward.model.resource import NODES, PODS, STANDBY_POOLS
from gpuward.ports import Cluster, Conflict, Object, Refused

RESERVATION = Taint(RESERVED, "NoSchedule")
RESERVED_SECONDS = 300.0
"""How long a node is kept for a job whose pods do not come (design.md, standby)."""


class Promoter:
    """Swaps the taints of standby nodes, and writes the status of pools."""

    def __init__(
        self, cluster: Cluster, picture: Picture, *, pace: Pace, mode_of: Callable[[str], Mode], tell: Tell
    ) -> None:
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._tell = tell
        self._refiller = Refiller(cluster, picture, pace=pace, mode_of=mode_of)

    async def promote(self, found: GpuCase, effect: Effect | None) -> None:
        """Release the node that a case has chosen, and note it in its pool; both only if it is not so already."""
        status = found.status
        if effect is None or status is None or not status.standby:
            return
        node, pool = self._picture.nodes.objects.get(status.standby), self._picture.spares().pool_of(status.standby)
        if node is None or pool is None:
            return
        try:
            operations = swap(node, pool.spec.taint, status.job, at=self._pace.clock.now())
            if operations:
                self._picture.nodes.learn(await self._cluster.patch(NODES, node.name, operations))
            before = pool.status or PoolStatus()
            if all(one.case != found.head.name for one in before.promoted):
                given = Promotion(
                    node.name, found.head.name, at=self._pace.clock.now(), job=status.job, owner=status.owner
                )
                await self._write(pool, replace(before, promoted=(*before.promoted, given)))
        except (Conflict, Refused, ObjectError):
            return  # seen again in the next round; nothing of the case waits for it

    async def sweep(self) -> list[str]:
        """Let pods onto what is kept for their job, free what was kept long enough, refill, and tell what each has.

        Return what went wrong, of each pool for itself. Raises Unreachable.
        """
        return [
            await borne(f"standby pool {name}", self._look_after(name)) for name in sorted(self._picture.pools.objects)
        ]

    async def _look_after(self, name: str) -> None:
        try:
            for work in (self._free, self._refill, self._count):
                pool = self._picture.pools.objects.get(name)
                if pool is None:
                    return  # it was deleted meanwhile
                await work(pool)
        except Conflict:
            return  # seen again in the next round

    async def _free(self, pool: StandbyPool) -> None:
        if pool.status is None:
            return
        now = self._pace.clock.now()
        promoted = []
        for one in pool.status.promoted:
            if one.freed_at is None and await self._is_over(one, now):
                if not _is_kept_anew(one, pool):
                    await self._take_off(one.node)
                one = replace(one, freed_at=now)  # noqa: PLW2901  the same one, freed
            promoted.append(one)
        if tuple(promoted) != pool.status.promoted:
            await self._write(pool, replace(pool.status, promoted=tuple(promoted)))

    async def _is_over(self, given: Promotion, now: float) -> bool:
        """Return whether a node need not be kept any longer; while it must be, the pods of its job are let onto it."""
        if not given.job or now - given.at >= RESERVED_SECONDS:
            return True
        if given.owner is None:
            return False
        on_node = await self._cluster.list(PODS, fields=f"spec.nodeName={given.node}", project=pod_of)
        if any(is_part(pod, given.owner) and not pod.ended for pod in on_node.items):
            return True
        pending = await self._cluster.list(
            PODS,
            namespace=given.owner.namespace,
            labels=selector_of(given.owner),
            fields="spec.nodeName=,status.phase=Pending",
            project=_waiting,
        )
        for pod in pending.items:
            if is_part(pod.pod, given.owner) and not pod.tolerates:
                await self._let_on(pod, given.job)
        return False

    async def _let_on(self, waiting: "_Waiting", job: str) -> None:
        toleration = {"key": RESERVED, "operator": "Equal", "value": job, "effect": RESERVATION.effect}
        add: dict[str, Any] = {"op": "add", "path": "/spec/tolerations", "value": [toleration]}
        if waiting.has_tolerations:
            add = {"op": "add", "path": "/spec/tolerations/-", "value": toleration}
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": waiting.version}
        pod = waiting.pod
        try:
            await self._cluster.patch(PODS, pod.name, (version, add), namespace=pod.namespace)
        except (Conflict, Refused):
            return  # one pod that cannot be let on keeps no other out

    async def _take_off(self, name: str) -> None:
        node = self._picture.nodes.objects.get(name)
        operations = () if node is None else taint_operations(node.kept, None, at=0.0, taint=RESERVATION)
        if operations:
            self._picture.nodes.learn(await self._cluster.patch(NODES, name, operations))

    async def _refill(self, pool: StandbyPool) -> None:
        refilled = await self._refiller.refilled(pool)
        if refilled.status is not None and refilled != pool:
            await self._write(pool, refilled.status)

    async def _count(self, pool: StandbyPool) -> None:
        """Write what a pool has, and say it aloud when it lacks more, or lacks nothing any more."""
        spares = self._picture.spares()
        standing, claim = spares.of_pool(pool), spares.claim_on(pool)
        ready = tuple(node.name for node in standing if not node.unfit)
        short = max(0, pool.spec.size - len(ready))
        unfit = claim or next((f"{node.name} {node.unfit}" for node in standing if node.unfit), "")
        has = f"{many(len(ready), f'of {pool.spec.size} stands', f'of {pool.spec.size} stand')} by"
        because = f"{has}{f'; {unfit}' if unfit else ''}" if short else ""
        before = pool.status or PoolStatus()
        status = replace(before, ready=ready, short=short, because=because)
        if status == pool.status:
            return
        await self._write(pool, status)
        if short != before.short:
            has = because or f"{has} again"
            empty = ": nothing can take the place of a node that fails" if short and not ready else ""
            said = f"Standby pool {pool.head.name}: {has}{empty}."
            self._tell(Happening(at=self._pace.clock.now(), what=What.SAID, node="", because=said))

    async def _write(self, pool: StandbyPool, status: PoolStatus) -> None:
        operations = (
            {"op": "test", "path": "/metadata/resourceVersion", "value": pool.head.version},
            {"op": "add", "path": "/status", "value": write(status)},
        )
        made = await self._cluster.patch(STANDBY_POOLS, pool.head.name, operations, subresource="status")
        self._picture.pools.learn(made)


def swap(node: NodeView, taint: StandbyTaint, job: str, *, at: float) -> list[Mapping[str, Any]]:
    """Return the patch that takes the standby taint off and keeps the node for a job; empty when it is off already."""
    taints = node.kept["spec"]["taints"]
    place = next(
        (i for i, one in enumerate(taints) if (one.get("key"), one.get("effect")) == (taint.key, taint.effect)), None
    )
    if place is None:
        return []
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": node.version}
    off: list[Mapping[str, Any]] = [{"op": "remove", "path": f"/spec/taints/{place}"}]
    annotations, ours = dict(node.kept["metadata"]["annotations"]), Taint(taint.key, str(taint.effect))
    owned = read_owned(node.kept)
    if ours in owned.taints:
        # We had it stand by after a repair; what is left of our note is what is still ours.
        off = list(taint_operations(node.kept, None, at=at, taint=ours)[1:])
        note = replace(owned, taints=owned.taints - {ours})
        annotations = {key: value for key, value in annotations.items() if key != OWNED}
        annotations |= {OWNED: write_owned(note)} if note else {}
    left = {
        "metadata": {**node.kept["metadata"], "annotations": annotations},
        "spec": {"taints": [one for i, one in enumerate(taints) if i != place]},
    }
    kept_for = taint_operations(left, job, at=at, taint=RESERVATION) if job else ()
    return [version, *off, *kept_for[1:]]


def _is_kept_anew(given: Promotion, pool: StandbyPool) -> bool:
    """Return whether a node was given away once more since, and is kept for that: it may be another of its name."""
    others = () if pool.status is None else pool.status.promoted
    return any(one.node == given.node and one.freed_at is None and one.at > given.at for one in others)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A pod that waits for a node, and whether it is let onto one that is kept for its job."""

    pod: PodSight
    version: str
    tolerates: bool
    has_tolerations: bool


def _waiting(found: Object) -> _Waiting:
    tolerations = (found.get("spec") or {}).get("tolerations") or ()
    return _Waiting(
        pod=pod_of(found),
        version=str(found["metadata"]["resourceVersion"]),
        tolerates=any(one.get("key") == RESERVED for one in tolerations),
        has_tolerations=bool(tolerations),
    )
