"""All that a decision about a node rests on, from the mirrors, and pods read where they are needed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuward.controller.heed import (
    DEFECT,
    Doubt,
    doubt_of,
    heeded,
    is_news,
    is_over,
    mattering,
    words_of,
    words_of_flood,
)
from gpuward.controller.jobs import Jobs
from gpuward.controller.keepers import is_kept_perhaps, keepers_of
from gpuward.controller.latecomers import goes_on, late_cases
from gpuward.controller.lost import Losses, proof_of
from gpuward.controller.mirror import Mirror
from gpuward.controller.notices import Node, Notices, Telling, saves_until
from gpuward.controller.outcomes import Heard, Looked, is_open, is_taken_off, returned_to, settled, wears_taint
from gpuward.controller.pace import Pace
from gpuward.controller.pausing import ClientBook, Clients, Daemons, holding_pods, is_asking
from gpuward.controller.spares import Spares, job_of
from gpuward.controller.tenants import tenants_of
from gpuward.controller.terms import Terms
from gpuward.controller.views import GpuNodeView, NodeView, as_fault, labels_of
from gpuward.isolation.clients import NodeClients
from gpuward.isolation.decide import Snapshot
from gpuward.isolation.evacuation import EvictionTerms, Scope, evacuation_of
from gpuward.isolation.machine import ask
from gpuward.isolation.rebooting import Rebooting, is_work
from gpuward.model.case import ON_A_CLUSTER, Case, CaseState, EffectKind, Order, Outcome
from gpuward.model.fault import Fault
from gpuward.model.job import JobRef
from gpuward.model.level import Level
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.objects.pause import Pause
from gpuward.model.objects.standby_pool import StandbyPool
from gpuward.model.pod import PodSight, pod_of
from gpuward.model.resource import PODS
from gpuward.model.scene import NodeSight
from gpuward.ports import Cluster, EdgeError

READ_AT_ONCE = 32
"""So many nodes are read side by side."""
_VACATING = frozenset(
    {CaseState.FENCED, CaseState.SAVING, CaseState.EVACUATING, CaseState.VACATED, CaseState.REPAIRING}
)
"""Where it matters which pods are on the node of an urgent case."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The mirrors of all kinds that the controller follows."""

    nodes: Mirror[NodeView]
    gpu_nodes: Mirror[GpuNodeView]
    faults: Mirror[GpuFault]
    cases: Mirror[GpuCase]
    pools: Mirror[StandbyPool]
    pause: Mirror[Pause]
    fabric: tuple[str, ...]
    """The labels of a node that may name its block of the fabric."""
    fault_taint: str
    """The key of the taint of a node with a fault."""

    @property
    def mirrors(self) -> tuple[Mirror[Any], ...]:
        """All of them."""
        return (self.nodes, self.gpu_nodes, self.faults, self.cases, self.pools, self.pause)

    @property
    def is_complete(self) -> bool:
        """Whether every kind was listed."""
        return all(mirror.is_complete for mirror in self.mirrors)

    def paused(self) -> str:
        """Return why a person lets nothing new be isolated, in a sentence; empty when nobody does."""
        return next((pause.sentence for pause in self.pause.objects.values() if pause.on), "")

    def given(self) -> dict[str, str]:
        """Return the standby nodes that are given to open cases, each with its case."""
        return {
            case.status.standby: name
            for name, case in self.cases.objects.items()
            if case.status is not None and case.status.standby and goes_on(case)
        }

    def spares(self) -> Spares:
        """Return the pools and the nodes that stand by, as they are seen now."""
        nodes, gpus, pools = self.nodes.objects, self.gpu_nodes.objects, self.pools.objects
        return Spares(nodes, gpus, pools, given=self.given(), fabric=self.fabric, fault_taint=self.fault_taint)

    def doubt(self) -> Doubt:
        """Return the nodes of which a case cannot be read: what was done there is not known."""
        return doubt_of(cases=self.cases.unreadable)

    def unread(self) -> tuple[str, ...]:
        """Return what cannot be read, in sentences."""
        return tuple(said for mirror in self.mirrors for said in words_of(mirror.resource, mirror.unreadable))

    def cases_by_node(self) -> dict[str, list[GpuCase]]:
        """Return all cases of each node, in order of their names; those that have ended too."""
        return {node: self.cases.of(node) for node in self.cases.groups()}

    def open_cases_of(self, node: str) -> list[GpuCase]:
        """Return the cases of a node that go on, as they are saved, in order of their names."""
        return [case for case in self.cases_of(node) if goes_on(case)]

    def cases_of(self, node: str) -> list[GpuCase]:
        """Return all cases of a node but those that came late, in order of their names."""
        found = self.cases.of(node)
        late = late_cases(found)
        return [case for case in found if case not in late] if late else found

    def late_cases_of(self, node: str) -> list[GpuCase]:
        """Return the cases of a node that came when another one worked on their GPU: they must go."""
        return late_cases(self.cases.of(node))


@dataclass(frozen=True, slots=True)
class Gathered:
    """One node with something to decide: the snapshot, and what a save of the decision needs besides."""

    snapshot: Snapshot
    saved: Mapping[str, GpuCase]
    heard: Mapping[str, int]
    """By case, the number of the newest order of a person that is in the snapshot."""
    due: tuple[GpuFault, ...]
    pods: Mapping[str, PodSight] | None = None
    clients: Clients = field(default_factory=Clients)
    jobs: Mapping[str, tuple[JobRef, ...]] = field(default_factory=dict)
    """By fault of an application that is new, the jobs whose pods held its GPU."""
    owners: Mapping[str, JobRef] = field(default_factory=dict)
    """By UID, the jobs of the pods."""
    telling: Telling = field(default_factory=Telling)
    chosen: Mapping[str, tuple[str, JobRef | None]] = field(default_factory=dict)
    """By case, the standby node that shall take the place of its node, and the job that it is for."""


@dataclass(frozen=True, slots=True)
class Due:
    """A node that has something to decide."""

    name: str
    lost: Fault | None
    is_fresh: bool
    """A fault came that no case works on yet."""


class Gatherer:
    """Brings together what is known of each node."""

    def __init__(self, cluster: Cluster, picture: Picture, heard: Heard, *, pace: Pace, terms: Terms) -> None:
        self.troubles: tuple[str, ...] = ()
        """What went wrong when the round looked for what is due, as it was seen the last time."""
        self.losses = Losses(cluster, picture.nodes.objects, picture.gpu_nodes.objects, pace=pace, terms=terms)
        self._book = ClientBook()
        self._daemons = Daemons(cluster, pace)
        self._cluster = cluster
        self._picture = picture
        self._heard = heard
        self._pace = pace
        self._terms = terms
        self._spares = picture.spares()
        self._jobs = Jobs(cluster, pace=pace)
        self._notices = Notices(cluster, picture.cases.objects, heard)

    async def due(self) -> list[Due]:
        """Begin a round: return every node that has something to decide, in order of their names.

        Nothing is decided about a node of which a case cannot be read: what was done there is not known.
        """
        cases, faults = self._picture.cases, self._picture.faults
        troubles, doubt = list(self._picture.unread()), self._picture.doubt()
        self.losses.look()
        self._notices.begin()
        self._spares = self._picture.spares()
        lost, due = await self.losses.found(lambda name: map(as_case, cases.of(name))), []
        for name in sorted({*cases.groups(), *faults.groups(), *lost}):
            if name in doubt.nodes:
                continue
            told = faults.of(name)
            news = [one for one in told if is_news(one)]
            known = self._picture.open_cases_of(name)
            if known or news or name in lost:
                cased = {case.spec.fault for case in known}
                is_fresh = name in lost or any(one.head.name not in cased for one in news)
                due.append(Due(name, lost.get(name), is_fresh))
            troubles += filter(None, [words_of_flood(name, len(told))])
        self.troubles = tuple(troubles)
        return due

    async def gather(self, due: Sequence[Due]) -> tuple[list[Gathered], list[str]]:
        """Return what is known of these nodes, read side by side, and what went wrong, in sentences."""
        gate = asyncio.Semaphore(READ_AT_ONCE)

        async def one(node: Due) -> Gathered | str:
            async with gate:
                try:
                    return await self._known(node)
                except Exception as error:  # noqa: BLE001  what others wrote of a node must not stop the others' round
                    return f"{node.name}: {DEFECT}: {error!r}"

        found = await asyncio.gather(*map(one, due))
        known = [one for one in found if isinstance(one, Gathered)]
        return known, [one for one in found if isinstance(one, str)]

    async def _known(self, node: Due) -> Gathered:
        """Return what is known of a node, of its faults as many as are heeded."""
        found = self._picture.cases_of(node.name)
        of_cases = frozenset(case.spec.fault for case in found if goes_on(case))
        faults = heeded(self._picture.faults.of(node.name), of_cases)
        return await self._node(node.name, found, faults, spares=self._spares, loss=node.lost)

    async def _node(
        self, name: str, found: Sequence[GpuCase], faults: Sequence[GpuFault], *, spares: Spares, loss: Fault | None
    ) -> Gathered:
        node, saved = self._picture.nodes.objects.get(name), {one.head.name: one for one in found}
        cases, heard = self._with_orders(found, node)
        whole, view = self.losses.sight(name, cases), self._picture.gpu_nodes.objects.get(name)
        gpus = self._book.seen(view)
        wanted = any(
            _needs_pods(case, whole)
            or is_asking(case)
            or is_kept_perhaps(case, gpus, faults)
            or self._is_unknown(case, gpus)
            or self._may_reboot(case)
            for case in cases
        )
        pods = await self._pods(name) if wanted else None
        gpus = self._book.seen(view)
        clients = await self._clients(node, gpus, found, pods=pods)
        jobs = await self._jobs.jobs_of((pods or {}).values())
        chosen, no_standby = spares.chosen_for(name, cases, saved, job=job_of(pods or {}, jobs))
        now, eviction = self._pace.clock.now(), self._terms.of(labels_of(node)).eviction
        tenants = {case.id: tenants_of(case, (pods or {}).values(), faults, now=now) for case in cases}
        ranks = {case: uids or frozenset() for case, uids in tenants.items()}
        victims = {one.id: _victims(one, pods, eviction, tenants=tenants[one.id]) for one in cases if is_open(one)}
        telling = await self._notices.look(
            Node(now, cases, saved, pods, jobs, victims, ranks, save_seconds=eviction.save_seconds)
        )
        looked = Looked(
            now=now,
            name=name,
            node=node,
            gpus=gpus,
            pods=pods,
            cases=cases,
            victims={one.head.name: one.status.victims for one in found if one.status is not None},
            standby=spares.released(saved),
            no_standby=no_standby,
            eviction=eviction,
            whole=whole,
            clients=clients,
            agents_living=await self._living(name, cases),
            told=telling.answers,
            evict_from={one.head.name: saves_until(one) for one in found},
        )
        snapshot = self._snapshot(looked, faults, standby=spares.why_none(name), loss=loss)
        return Gathered(
            snapshot=replace(
                snapshot,
                victims=victims,
                returned={name: returned_to(one, pods or {}) for name, one in saved.items()},
                saving=telling.saving,
                saved=telling.saved,
            ),
            saved=saved,
            heard=heard,
            due=tuple(one for one in faults if one.is_due),
            pods=pods,
            clients=clients,
            owners=jobs,
            telling=telling,
            chosen=chosen,
        )

    def _snapshot(
        self, looked: Looked, faults: Sequence[GpuFault], *, standby: str, loss: Fault | None = None
    ) -> Snapshot:
        """Return what is seen of a node as a decision takes it, each effect with the outcome that can be told now."""
        pool, gpus = self._terms.of(labels_of(looked.node)), () if looked.gpus is None else looked.gpus.gpus
        cases = [settled(case, looked, self._heard, self._terms) if is_open(case) else case for case in looked.cases]
        return Snapshot(
            now=looked.now,
            mode=pool.mode,
            node=looked.name,
            cases=tuple(cases),
            faults=(*map(as_fault, mattering(faults, cases)), *(() if loss is None else (loss,))),
            over=frozenset(one.head.name for one in faults if is_over(one)),
            gpus={gpu.pci: gpu.sight for gpu in gpus},
            known=frozenset(gpu.pci for gpu in gpus),
            obstacles={gpu.pci: gpu.obstacle for gpu in gpus if gpu.obstacle},
            brake=pool.brake,
            budget=pool.budget,
            paused=self._picture.paused(),
            probation_seconds=pool.probation_seconds,
            reach=ON_A_CLUSTER,
            keepers={case.id: keepers_of(case, looked, faults) for case in cases if is_open(case)},
            standby=standby,
            approval=pool.approval,
            whole=looked.whole,
            doubt=self.losses.doubt(),
            rebooting=Rebooting(
                enabled=self._terms.reboot.enabled,
                most_a_day=self._terms.reboot.most_a_day,
                cures=frozenset(gpu.pci for gpu in gpus if gpu.reboot_cures),
                pods=None if looked.pods is None else tuple(pod.ref for pod in looked.pods.values() if is_work(pod)),
            ),
        )

    def _with_orders(self, found: Sequence[GpuCase], node: NodeView | None) -> tuple[list[Case], dict[str, int]]:
        """Return the cases with what people have said since, and up to which number they were heard."""
        cases, heard = [], {}
        for one in found:
            case = as_case(one)
            for order in one.unheard:
                case = ask(case, order.what, forced=order.forced)
                heard[case.id] = order.number
            if is_open(case) and wears_taint(case) and is_taken_off(node, self._terms):
                case = ask(case, Order.RELEASE)
            cases.append(case)
        return cases, heard

    async def _pods(self, node: str) -> dict[str, PodSight] | None:
        try:
            listed = await self._cluster.list(PODS, fields=f"spec.nodeName={node}", project=pod_of)
        except EdgeError:
            return None
        self._book.learn(listed.items)
        return {pod.ref: pod for pod in listed.items}

    def _may_reboot(self, case: Case) -> bool:
        """Return whether a case has come to where the node might be rebooted for it."""
        is_there = case.state in {CaseState.VACATED, CaseState.REPAIRING} and case.drill is None
        return self._terms.reboot.enabled and is_there

    async def _clients(
        self,
        node: NodeView | None,
        gpus: GpuNodeView | None,
        found: Sequence[GpuCase],
        *,
        pods: Mapping[str, PodSight] | None,
    ) -> Clients:
        """Return what is seen of the GPU Operator's programs on a node; looked at only while a case must know."""
        seen = NodeClients({}, (), ()) if node is None else None
        if node is not None and pods is not None and any(is_asking(as_case(one)) for one in found):
            daemon_sets = await self._daemons.listed()
            seen = None if daemon_sets is None else NodeClients(node.kept, daemon_sets, tuple(pods.values()))
        formers = {one.head.name: one.status.formers for one in found if one.status is not None}
        return Clients(seen=seen, formers=formers, holders=holding_pods(gpus))

    def _is_unknown(self, case: Case, gpus: GpuNodeView | None) -> bool:
        """Return whether it matters and is not known what the pods are that hold the GPU of a case."""
        gpu = None if gpus is None else next((one for one in gpus.gpus if one.pci == case.gpu), None)
        return is_open(case) and case.drill is None and case.state in _VACATING and not self._book.knows(gpu)

    async def _living(self, name: str, cases: Sequence[Case]) -> frozenset[str]:
        """Return the cases that wait for the proof of this node, and whose wait its agent has shown that it lives."""
        asked = [(case, number) for case in cases if (number := proof_of(case)) is not None]
        return frozenset([case.id for case, number in asked if await self.losses.agent_lives(name, case, number)])


def _victims(
    case: Case, pods: Mapping[str, PodSight] | None, terms: EvictionTerms, *, tenants: frozenset[str] | None
) -> tuple[str, ...] | None:
    """Return the pods that have to go for a case: none if it is not urgent. None: unknown, as `tenants` may be."""
    if not is_urgent(case) or case.drill is not None:
        return ()
    if case.state not in _VACATING and not (case.of_node and case.state is CaseState.PARKED):
        return ()
    if pods is None:
        return None
    if case.of_node and terms.scope is Scope.SICK_GPU:
        terms = replace(terms, scope=Scope.GPU)  # every GPU of it is gone
    if tenants is None and terms.scope is Scope.SICK_GPU:
        return None
    return tuple(pod.ref for pod in evacuation_of(pods.values(), terms, holders=tenants or frozenset()).victims)


def is_urgent(case: Case) -> bool:
    """Return whether the pods of a case's node have to go at once."""
    return case.level is Level.P0


def _needs_pods(case: Case, whole: NodeSight) -> bool:
    if not is_open(case) or case.drill is not None:
        return False
    if case.of_node and case.state is CaseState.PARKED:
        return case.off or bool(whole.off)
    promoting = any(one.kind is EffectKind.PROMOTE and one.outcome is Outcome.ASKED for one in case.effects)
    return promoting or (is_urgent(case) and case.state in _VACATING)
