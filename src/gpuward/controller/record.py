"""Saves what was decided, each case from the version that was read: who comes second drops it, and decides anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuward.controller.gather import Gathered, Picture
from gpuward.controller.heed import MOST_JUDGED
from gpuward.controller.latecomers import goes_on
from gpuward.controller.metering import count_saved
from gpuward.controller.outcomes import Heard, why_there
from gpuward.controller.pausing import formers_for
from gpuward.controller.views import as_fault
from gpuward.isolation.decide import Decision, acts
from gpuward.isolation.plan import plan_of
from gpuward.model.case import ON_A_CLUSTER, Case, CaseState, EffectKind
from gpuward.model.happening import Happening
from gpuward.model.objects.gpu_case import (
    CaseStatus,
    GpuCase,
    TimelineEntry,
    Victim,
    as_case,
    spec_of,
    status_of,
    write_gpu_case,
)
from gpuward.model.objects.gpu_fault import FaultStatus, GpuFault, Judged
from gpuward.model.objects.head import Head
from gpuward.model.objects.values import write
from gpuward.model.pod import PodSight
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, Resource
from gpuward.ports import Cluster, Conflict, Meter, Object, Refused

UNSURE_SECONDS = 120.0
"""So long what was sent to an API server may still be done: it gives up a request after a minute."""
Tell = Callable[[Happening], None]
"""Is told what happened, once it is saved."""


class Recorder:
    """Writes cases, and what was made of faults."""

    def __init__(self, cluster: Cluster, picture: Picture, heard: Heard, *, tell: Tell, meter: Meter) -> None:
        self._cluster = cluster
        self._picture = picture
        self._heard = heard
        self._tell = tell
        self._meter = meter

    async def save(self, gathered: Gathered, decision: Decision) -> None:
        """Save each case that is new or has changed. Raises Unreachable or Refused.

        What is no longer as it was read is left: the next round sees it as it is.
        """
        for case in decision.cases:
            happenings = [one for one in decision.happenings if one.case == case.id]
            try:
                await self._save(case, gathered, happenings)
            except Conflict:
                continue
            found, fault = gathered.saved.get(case.id), self._picture.faults.objects.get(case.fault)
            count_saved(self._meter, None if found is None else as_case(found), case, fault)
            for one in happenings:
                self._tell(one)

    async def judge(self, gathered: Gathered) -> None:
        """Write down what was made of the faults, after their cases were saved. Raises Unreachable or Refused."""
        written = 0
        for fault in gathered.due:
            written += await self._judge(fault, gathered)
            if written >= MOST_JUDGED:
                return  # the rest in the next rounds: its node must not keep the others waiting

    async def _save(self, case: Case, gathered: Gathered, happenings: Sequence[Happening]) -> None:
        found = gathered.saved.get(case.id)
        if found is None:
            mode = gathered.snapshot.mode
            steps = plan_of(case, mode, reach=ON_A_CLUSTER)
            spec = spec_of(
                case,
                mode=mode,
                jobs=gathered.jobs.get(case.fault, ()),
                plan=tuple(EffectKind(step) for step in steps if step in set(EffectKind)),
            )
            await self._open(case, write_gpu_case(GpuCase(Head(case.id), spec)), now=gathered.snapshot.now)
            return
        status = _status(case, found, gathered, happenings=happenings, heard=self._heard)
        if status != found.status:
            head = found.head
            self._picture.cases.learn(await write_status(self._cluster, GPU_CASES, head, status=write(status)))

    async def _open(self, case: Case, body: Object, *, now: float) -> None:
        """Create a case. Whether one came to be that nobody answered for is settled before there is another of its GPU.

        That one may come to be late, and under another name: that of the fault which was known then.
        """
        before, at = self._heard.unsure.get((case.node, case.gpu), (body, now))
        name = before["metadata"]["name"]
        if name == case.id or name in self._picture.cases.objects or not 0 <= now - at < UNSURE_SECONDS:
            await self._create(case, body, now=now)
            return
        await self._create(case, before, now=at)
        raise Conflict(f"{name} works on the same GPU: it is decided anew")

    async def _create(self, case: Case, body: Object, *, now: float) -> None:
        place, unsure, cases = (case.node, case.gpu), self._heard.unsure, self._picture.cases
        unsure[place] = (body, now)
        try:
            cases.learn(await self._cluster.create(GPU_CASES, body))
        except Conflict:
            # It is there, whatever the picture says: the next decision must know.
            found = await self._cluster.get(GPU_CASES, body["metadata"]["name"])
            if found is not None:
                cases.learn(found)
            del unsure[place]
            raise
        except Refused:
            del unsure[place]
            raise
        del unsure[place]

    async def _judge(self, fault: GpuFault, gathered: Gathered) -> bool:
        """Write down what was made of a fault, once its case is saved; return whether that was tried.

        The agent's part of the status stays.
        """
        seen = as_fault(fault)
        case = self._case_of(fault)
        if not case and acts(seen) and seen.pci is not None:
            return False
        verdict = seen.verdict
        judged = Judged(
            at=gathered.snapshot.now,
            level=verdict.level,
            fault_class=verdict.fault_class,
            seen_level=fault.level,
            seen_class=verdict.fault_class,
            rules=verdict.rules,
            because=verdict.because,
            case=case,
        )
        try:
            made = await _write_judged(self._cluster, fault, judged)
        except Conflict:
            return True
        self._picture.faults.learn(made)
        return True

    def _case_of(self, fault: GpuFault) -> str:
        """Return the saved case that works on a fault: its own, or the open one of its GPU."""
        on_node = [case for case in self._picture.cases_of(fault.spec.node_name) if case.spec.drill is None]
        own = [case.head.name for case in on_node if case.spec.fault == fault.head.name]
        on_gpu = [
            case.head.name
            for case in on_node
            if case.spec.gpu is not None and case.spec.gpu == fault.spec.gpu and goes_on(case)
        ]
        return next(iter((*sorted(on_gpu), *sorted(own, reverse=True))), "")


def _status(
    case: Case, found: GpuCase, gathered: Gathered, *, happenings: Sequence[Happening], heard: Heard
) -> CaseStatus:
    before = found.status
    status = status_of(case, before)
    node, owner = gathered.chosen.get(case.id, (status.standby, status.owner))
    told = tuple(entry for one in happenings if (entry := _entry(one)) is not None)
    return replace(
        status,
        heard=gathered.heard.get(case.id, status.heard),
        standby=node,
        job="" if owner is None else owner.uid,
        owner=owner,
        noticed=gathered.telling.plans.get(case.id, status.noticed),
        passed_over=gathered.telling.passed_over.get(case.id, status.passed_over),
        formers=formers_for(case, gathered.clients),
        victims=_named(status.victims, gathered, heard),
        timeline=(*status.timeline, *told)[-128:],
    )


def _named(victims: Sequence[Victim], gathered: Gathered, heard: Heard) -> tuple[Victim, ...]:
    """Return the victims as they are seen: whose they are, why they are there, since when they are gone; or unseen."""
    if gathered.pods is None:
        return tuple(victims)
    return tuple(_seen(victim, gathered.pods.get(victim.pod), gathered, heard=heard) for victim in victims)


def _seen(victim: Victim, pod: PodSight | None, gathered: Gathered, *, heard: Heard) -> Victim:
    if pod is None or pod.ended:
        gone_at = gathered.snapshot.now if victim.gone_at is None else victim.gone_at
        return replace(victim, gone_at=gone_at, because="")
    if victim.uid != pod.uid:
        # Another one of its name: it is named, with its own UID, before it is evicted.
        top, direct = gathered.owners.get(pod.uid), "" if pod.owner is None else f"{pod.owner.kind}/{pod.owner.name}"
        if top is None:
            return Victim(pod=pod.ref, uid=pod.uid, owner=direct)
        return Victim(pod=pod.ref, uid=pod.uid, owner=f"{top.kind}/{top.name}", job=top.uid)
    asked_at = heard.first_asked_at.get(pod.uid) if victim.asked_at is None else victim.asked_at
    return replace(victim, asked_at=asked_at, because=why_there(pod, heard.evictions.get(pod.uid)))


def _entry(happening: Happening) -> TimelineEntry | None:
    because = happening.because or happening.effect
    if not because:
        return None
    state = None if not happening.after else CaseState(happening.after)
    return TimelineEntry(at=happening.at, what=happening.what, because=because, state=state)


async def write_status(cluster: Cluster, resource: Resource, head: Head, *, status: Mapping[str, Any]) -> Object:
    """Write the status of an object as it was read; return it. Raises Unreachable, Refused, Conflict if it changed."""
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": head.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": head.version},
        {"op": "add", "path": "/status", "value": dict(status)},
    )
    return await cluster.patch(resource, head.name, operations, subresource="status")


async def _write_judged(cluster: Cluster, fault: GpuFault, judged: Judged) -> Object:
    head = fault.head
    if fault.status is None:
        return await write_status(cluster, GPU_FAULTS, head, status=write(FaultStatus(judged=judged)))
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": head.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": head.version},
        {"op": "add", "path": "/status/judged", "value": write(judged)},
    )
    return await cluster.patch(GPU_FAULTS, head.name, operations, subresource="status")
