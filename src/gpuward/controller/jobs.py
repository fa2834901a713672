"""Which job a pod is part of, from the chain of its owners. Only owners that may have owners are read, each by name.

What an owner's owner is does not change, so that it is asked for once in a while only.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpuward.controller.pace import Pace
from gpuward.model.job import JobKind, JobRef, alone, is_of_the_node, job_kind_of, labelled, owned_by
from gpuward.model.objects.gpu_fault import GpuFault, PodRef
from gpuward.model.pod import Owner, PodSight, owner_of, pod_of
from gpuward.model.resource import PODS
from gpuward.ports import Cluster, EdgeError

KNOWN_SECONDS = 600.0
UNREAD_SECONDS = 30.0
"""How long an owner that could not be read is not asked for again: a node may have many pods of one job."""
_MOST_KNOWN = 4096
_MOST_STEPS = 4


@dataclass(frozen=True, slots=True)
class _Known:
    """What was learned of an owner: who owns it, None for nobody; or that it could not be read. Valid for a while."""

    until: float
    owner: Owner | None = None
    unread: bool = False


class Jobs:
    """Answers to whom pods belong. It raises no error of the cluster: what it cannot read it takes from labels."""

    def __init__(self, cluster: Cluster, *, pace: Pace) -> None:
        self._cluster = cluster
        self._pace = pace
        self._known: dict[str, _Known] = {}

    async def job_of(self, pod: PodSight) -> JobRef | None:
        """Return the job of a pod, at the top of its chain of owners; None for one that belongs to its node.

        A pod that nobody owns, and no label names a job of, is a job of its own. Where an owner cannot be read the
        label of the highest job is believed.
        """
        if is_of_the_node(pod):
            return None
        if pod.owner is None:
            return labelled(pod.labels, pod.namespace) or alone(pod)
        return await self._top(pod.owner, pod)

    async def jobs_of(self, pods: Iterable[PodSight]) -> dict[str, JobRef]:
        """Return the job of each of these pods by the pod's UID, without those that belong to their node."""
        jobs = {pod.uid: await self.job_of(pod) for pod in pods}
        return {uid: job for uid, job in jobs.items() if job is not None}

    async def holding(self, fault: GpuFault) -> tuple[JobRef, ...]:
        """Return the jobs whose pods had the GPU of a fault when it came, each once; pods that are gone tell none."""
        jobs: dict[JobRef, None] = {}
        for named in dict.fromkeys(fault.pods):
            pod = await self._pod(named, fault.spec.node_name)
            job = None if pod is None else await self.job_of(pod)
            if job is not None:
                jobs[job] = None
        return tuple(jobs)

    async def _pod(self, named: PodRef, node: str) -> PodSight | None:
        """Return a pod if it is there, on the node whose agent named it: none has a say about pods of others."""
        if not named.name:
            return None
        try:
            found = await self._cluster.get(PODS, named.name, namespace=named.namespace)
        except EdgeError:
            return None
        pod = None if found is None else pod_of(found)
        return pod if pod is not None and pod.node == node and named.uid in {"", pod.uid} else None

    async def _top(self, owner: Owner, pod: PodSight) -> JobRef:
        for _ in range(_MOST_STEPS):
            kind = job_kind_of(owner.kind, owner.api_version)
            if kind is None or not kind.climbs:
                break
            known = await self._owner_of(owner, kind, pod.namespace)
            if known.unread:
                told = labelled(pod.labels, pod.namespace)
                return owned_by(owner, pod.namespace) if told is None or told.name == owner.name else told
            if known.owner is None or job_kind_of(known.owner.kind, known.owner.api_version) is None:
                break
            owner = known.owner
        return owned_by(owner, pod.namespace)

    async def _owner_of(self, owner: Owner, kind: JobKind, namespace: str) -> _Known:
        now = self._pace.clock.monotonic()
        known = self._known.get(owner.uid)
        if known is None or known.until <= now:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[owner.uid] = await self._read(owner, kind, namespace, now=now)
        return known

    async def _read(self, owner: Owner, kind: JobKind, namespace: str, *, now: float) -> _Known:
        try:
            found = await self._cluster.get(kind.resource(owner.api_version), owner.name, namespace=namespace)
        except EdgeError:
            found = None
        if found is None or found["metadata"].get("uid") != owner.uid:
            return _Known(now + UNREAD_SECONDS, unread=True)
        return _Known(now + KNOWN_SECONDS, owner=owner_of(found))
