"""A small pretend fleet for the controller: nodes, pods, kubelets, and agents that answer orders as real ones do."""

import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from gpuward.agent.orders import UNDONE_BY_BOOT
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.isolation.brake import Brake
from gpuward.isolation.evacuation import EvictionTerms
from gpuward.isolation.fleet import UNBRAKED
from gpuward.isolation.node_condition import condition_of
from gpuward.model.case import Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.happening import Happening
from gpuward.model.objects.gpu_case import GpuCase, as_case, read_gpu_case
from gpuward.model.objects.gpu_fault import (
    FaultEvidence,
    FaultHolder,
    FaultPod,
    FaultPods,
    GpuFault,
    PodRef,
    gpu_fault,
    read_gpu_fault,
    write_gpu_fault,
)
from gpuward.model.objects.gpu_node import (
    GpuOrder,
    GpuState,
    Health,
    NodeGpu,
    NodeStatus,
    OrderAnswer,
    read_gpu_node,
)
from gpuward.model.objects.kinds import KINDS, object_schema
from gpuward.model.objects.owned import FAULT_TAINT, GPUS, GPUS_PRESENT
from gpuward.model.objects.values import write
from gpuward.model.pod import pod_of
from gpuward.model.resource import (
    DISRUPTION_BUDGETS,
    EVENTS,
    GPU_CASES,
    GPU_FAULTS,
    GPU_NODES,
    NAMESPACES,
    NODES,
    PODS,
    STANDBY_POOLS,
    Resource,
)
from gpuward.model.scene import GpuSight
from gpuward.ports import Cluster, Object
from gpuward.sim.cluster import controllers
from gpuward.sim.cluster.cluster import pretend_cluster
from gpuward.sim.cluster.weather import Weather
from tests.kit.merging import GPU_A, GPU_B, told, xid
from tests.kit.pretend_time import PretendTime

NOW = 1_790_000_100.0
REPAIRING = Terms(
    mode=Mode.REPAIR,
    probation_seconds=5.0,
    eviction=EvictionTerms(deadline_seconds=30.0),
    brake=Brake(share=1.0),
    brakes=UNBRAKED,
    evict_again_seconds=2.0,
)
PRODUCT = "NVIDIA-H100-80GB-HBM3"


@dataclass(slots=True)
class PretendAgent:
    """The agent of one node: tells of its GPUs and does each order once, at its own pace."""

    node: str
    obstacles: dict[str, str] = field(default_factory=dict)
    fails: dict[EffectKind, str] = field(default_factory=dict)
    refuses: set[EffectKind] = field(default_factory=set)
    health: dict[str, Health] = field(default_factory=dict)
    """By GPU; healthy where it is not told."""
    gpus: tuple[str, ...] = (GPU_A, GPU_B)
    boot: str = "b1"
    uuids: dict[str, str] = field(default_factory=dict)
    """By GPU, where it is another card than at first."""
    done: list[tuple[str, EffectKind]] = field(default_factory=list)
    answers: dict[str, OrderAnswer] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    work: tuple[str, ...] | None = None
    """What it sees run on GPU_A, where that is something else than the pods with GPUs."""
    reboot_cures: set[str] = field(default_factory=set)
    """GPUs whose obstacle a reboot removes."""
    silent: bool = False
    busy: bool = False
    """It tells what it sees, and does no order for now."""

    def boots(self, boot: str) -> None:
        """Come back on another boot, which has undone every drain."""
        self.boot, self.silent = boot, False
        self.drained.clear()

    def _refusal(self, order: GpuOrder) -> str:
        if order.boot != self.boot:
            return "it was meant for another boot"
        is_another = order.what not in UNDONE_BY_BOOT and order.uuid != self.uuids.get(order.pci, uuid_of(order.pci))
        return f"the GPU at {order.pci} is not {order.uuid}" if is_another else ""

    def do(self, order: GpuOrder, *, held: bool, at: float) -> OrderAnswer:
        """Do one order, as the bench of a real agent would answer it."""
        assert order.uuid, "an order without the GPU's UUID"
        if order.boot != self.boot and order.what in UNDONE_BY_BOOT:
            return OrderAnswer(order.id, Outcome.DONE, at, UNDONE_BY_BOOT[order.what])
        refusal = self._refusal(order)
        if refusal:
            return OrderAnswer(order.id, Outcome.REFUSED, at, refusal)
        if order.what in self.refuses | self.fails.keys():
            outcome = Outcome.REFUSED if order.what in self.refuses else Outcome.FAILED
            return OrderAnswer(order.id, outcome, at, self.fails.get(order.what, "in use by another client"))
        if order.drill:
            return OrderAnswer(order.id, Outcome.DONE, at, "it was rehearsed")
        self.done.append((order.id, order.what))
        match order.what:
            case EffectKind.DRAIN:
                self.drained.add(order.pci)
            case EffectKind.UNDRAIN:
                self.drained.discard(order.pci)
            case EffectKind.RESET:
                assert order.pci not in self.drained
                if held:
                    return OrderAnswer(order.id, Outcome.REFUSED, at, "work holds it")
        return OrderAnswer(order.id, Outcome.DONE, at)


class Told:
    """What the controllers told, in order."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def hear(self, happening: Happening) -> None:
        """Take one in."""
        self.happenings.append(happening)


class Fleet:
    """A pretend cluster with agents and kubelets that move when they are told to."""

    def __init__(self, *, terms: Terms = REPAIRING, weather: Weather | None = None) -> None:
        self.time = PretendTime(start=NOW)
        """That of the machine of the controllers."""
        schemas = {kind.resource.plural: object_schema(kind) for kind in KINDS}
        self.cluster = pretend_cluster(self.time, self.time.doze, schemas=schemas, weather=weather)
        self.server = self.cluster.server
        self.terms = terms
        self.agents: dict[str, PretendAgent] = {}
        self.told = Told()
        self.frozen_pods: set[str] = set()
        self.defects: list[str] = []
        """Errors of a controller that nobody has foreseen."""
        self._numbers = itertools.count(1)
        for name in ("work", "gpuward"):
            self.server.create(NAMESPACES, {"metadata": {"name": name}})

    # --- what there is ------------------------------------------------------------------------------------------------

    def node(self, name: str, *, taints: tuple[Mapping[str, str], ...] = (), **agent: Any) -> PretendAgent:
        """Make a node with two GPUs and its agent; others have left their marks on it, our label among them."""
        labels = {"nvidia.com/gpu.product": PRODUCT, GPUS: GPUS_PRESENT}
        metadata = {"name": name, "labels": labels, "annotations": {"site/rack": "r1"}}
        foreign = [{"key": "site/reserved", "value": "x", "effect": "PreferNoSchedule"}, *taints]
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.server.create(NODES, {"metadata": metadata, "spec": {"taints": foreign}, "status": ready})
        self.agents[name] = PretendAgent(name, **agent)
        self._move_agent(self.agents[name])
        return self.agents[name]

    def label(self, node: str, key: str, value: str) -> None:
        """Label a node."""
        path = f"/metadata/labels/{key.replace('/', '~1')}"
        self.server.patch(NODES, node, [{"op": "add", "path": path, "value": value}])

    def pod(self, name: str, node: str = "gpu-1", *, space: str = "work", gpus: int = 1, **metadata: Any) -> None:
        """Make a pod that runs on a node."""
        container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}
        spec = {"nodeName": node, "containers": [container]}
        self.server.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, namespace=space)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self._status(PODS, name, status, space=space)

    def owner(self, resource: Resource, name: str) -> list[dict[str, Any]]:
        """Make what owns pods, and return how these say so."""
        made = self.server.create(resource, {"metadata": {"name": name}, "spec": {}}, namespace="work")
        uid = made["metadata"]["uid"]
        owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid}
        return [{**owner, "controller": True}]

    def budget(self, name: str, *, labels: Mapping[str, str], least: int) -> None:
        """Make a PodDisruptionBudget."""
        spec = {"minAvailable": least, "selector": {"matchLabels": dict(labels)}}
        self.server.create(DISRUPTION_BUDGETS, {"metadata": {"name": name}, "spec": spec}, namespace="work")
        controllers.settle(self.server)

    def fault(
        self,
        code: int,
        node: str = "gpu-1",
        *,
        pci: str = GPU_A,
        pods: tuple[str, ...] = (),
        pods_follow: bool = False,
    ) -> str:
        """Let an agent tell of an Xid that came now, and of the pods that hold the GPU; return the fault's name."""
        at = self.time.now() - NOW + 100.0
        (one,) = told([xid(code, at, pci=pci, cursor=f"k{next(self._numbers)}")]).faults
        uids = {name: self.get(PODS, name, space="work")["metadata"]["uid"] for name in pods}
        holders = tuple(
            FaultHolder(pid, pod=PodRef("work", name, uid)) for pid, (name, uid) in enumerate(uids.items(), 1)
        )
        fault = gpu_fault(replace(one, gpu_uuid=uuid_of(pci)), node, holders=holders, pods_follow=pods_follow)
        self.server.create(GPU_FAULTS, write_gpu_fault(fault))
        return fault.head.name

    def take_back(self, name: str) -> None:
        """Let the agent say that a fault was nothing."""
        self._tell_more(name, cleared=True)

    def end_fault(self, name: str) -> None:
        """Let the agent say that the lines of a fault have stopped."""
        self._tell_more(name, over=True)

    def _tell_more(self, name: str, *, cleared: bool = False, over: bool = False) -> None:
        spec = self.gpu_fault(name).spec
        evidence = FaultEvidence(
            at=self.time.now(),
            level=spec.level,
            fault_class=spec.fault_class,
            verdict=spec.verdict,
            last=spec.last,
            count=spec.count,
            cleared=cleared,
            over=over,
        )
        judged = (self.get(GPU_FAULTS, name).get("status") or {}).get("judged")
        status = {"evidence": write(evidence)} | ({"judged": judged} if judged else {})
        self._status(GPU_FAULTS, name, status)

    def tenants(self, name: str, *pods: FaultPod, trouble: str = "") -> None:
        """Let the agent tell whom the kubelet had given the GPU of a fault to."""
        told = write(FaultPods(self.time.now(), pods, trouble))
        before = dict(self.get(GPU_FAULTS, name).get("status") or {})
        self._status(GPU_FAULTS, name, before | {"pods": told})

    def order(self, case: str, **order: Any) -> None:
        """Let a person say what is to become of a case."""
        before = self.get(GPU_CASES, case)["spec"].get("orders") or []
        orders = [*before, {"number": len(before) + 1, **order}]
        self.server.patch(GPU_CASES, case, [{"op": "add", "path": "/spec/orders", "value": orders}])

    # --- what is seen -------------------------------------------------------------------------------------------------

    def get(self, resource: Any, name: str, *, space: str | None = None) -> Object:
        """Return what must be there."""
        found = self.server.get(resource, name, namespace=space)
        assert found is not None, f"no {resource.kind} {name}"
        return found

    def gpu_cases(self) -> list[GpuCase]:
        """Return all cases as they are saved."""
        return [read_gpu_case(one) for one in self.server.list(GPU_CASES).items]

    def case(self, fault: str) -> Case:
        """Return the one case of a fault."""
        (found,) = [one for one in map(as_case, self.gpu_cases()) if one.fault == fault]
        return found

    def gpu_fault(self, name: str) -> GpuFault:
        """Return a fault."""
        return read_gpu_fault(self.get(GPU_FAULTS, name))

    def taint(self, node: str = "gpu-1") -> str | None:
        """Return the value of our taint on a node."""
        return self.taints(node).get(FAULT_TAINT)

    def taints(self, node: str = "gpu-1") -> dict[str, str | None]:
        """Return the values of all taints of a node by key."""
        return {one["key"]: one.get("value") for one in self.get(NODES, node)["spec"].get("taints", ())}

    def events(self) -> list[Object]:
        """Return all events, in order of their times."""
        return sorted(self.server.list(EVENTS).items, key=lambda one: (one["eventTime"], one["metadata"]["name"]))

    def condition(self, node: str = "gpu-1") -> Object | None:
        """Return our condition on a node."""
        return condition_of(self.get(NODES, node))

    def get_node(self, name: str) -> Object:
        """Return a Node."""
        return self.get(NODES, name)

    def judged_case(self, fault: str) -> str | None:
        """Return the case that the controller says works on a fault; None when it has not judged it."""
        status = self.gpu_fault(fault).status
        return None if status is None or status.judged is None else status.judged.case

    def pods(self, node: str = "gpu-1") -> list[str]:
        """Return which pods are on a node."""
        listed = self.server.list(PODS, fields=f"spec.nodeName={node}", project=pod_of).items
        return sorted(pod.ref for pod in listed)

    def orders(self, node: str = "gpu-1") -> list[str]:
        """Return what the agent of a node still has to do."""
        return [one["what"] for one in (self.get(GPU_NODES, node).get("spec") or {}).get("orders", ())]

    # --- how it moves -------------------------------------------------------------------------------------------------

    def controller(self, cluster: Cluster | None = None, *, terms: Terms | None = None) -> Controller:
        """Return a controller that has just been started."""
        dice = random.Random(7)  # noqa: S311  the same seed must give the same pauses
        pace = Pace(self.time, self.time.doze, dice.random)
        return Controller(
            cluster or self.cluster,
            pace=pace,
            terms=terms or self.terms,
            tell=self.told.hear,
            defect=self.defects.append,
        )

    @asynccontextmanager
    async def running(self, cluster: Cluster | None = None, *, terms: Terms | None = None) -> AsyncIterator[Controller]:
        """Start a controller and let it see the cluster."""
        controller = self.controller(cluster, terms=terms)
        async with controller.following():
            await self.time.pass_by(0.1)
            yield controller
        assert not self.defects

    async def go(self, controller: Controller, *, rounds: int = 1) -> None:
        """Let the controller and the rest of the fleet move in turn."""
        for _ in range(rounds):
            await self.time.run(controller.round())
            await self.time.run(controller.voice.speak())
            self.move()
            await self.time.pass_by(1.0)

    async def until(self, controller: Controller, holds: Callable[[], bool], *, rounds: int = 80) -> None:
        """Go on until something is so."""
        for _ in range(rounds):
            if holds():
                return
            await self.go(controller)
        seen = [(one.id, str(one.state), one.because, one.effects[-1:]) for one in map(as_case, self.gpu_cases())]
        raise AssertionError(f"it never came to that: {seen}")

    async def settled(self, controller: Controller, fault: str, state: CaseState) -> Case:
        """Go on until the case of a fault has come to a state, and what that asks for was done."""
        await self.until(controller, lambda: self.case_state(fault) is state)
        await self.go(controller, rounds=4)
        return self.case(fault)

    def move(self) -> None:
        """Let the agents, the kubelets and the controllers of the cluster do what is due."""
        for agent in self.agents.values():
            if not agent.silent:
                self._move_agent(agent)
        for pod in self.server.list(PODS).items:
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata and metadata["name"] not in self.frozen_pods:
                self.server.delete(PODS, metadata["name"], namespace=metadata["namespace"], grace_seconds=0)
        controllers.settle(self.server)

    def case_state(self, fault: str) -> CaseState | None:
        """Return where the case of a fault is, None while it has none."""
        return next((one.state for one in map(as_case, self.gpu_cases()) if one.fault == fault), None)

    def _move_agent(self, agent: PretendAgent) -> None:
        if self.server.get(GPU_NODES, agent.node) is None:
            self.server.create(GPU_NODES, {"metadata": {"name": agent.node}})
        found = read_gpu_node(self.get(GPU_NODES, agent.node))
        given = () if found.spec is None else found.spec.orders
        held = self._work_on(agent.node)
        for order in given:
            if order.id not in agent.answers and not agent.busy:
                agent.answers[order.id] = agent.do(order, held=bool(held), at=self.time.now())
        mode = Mode.OBSERVE if found.spec is None or found.spec.mode is None else found.spec.mode
        status = NodeStatus(
            agent_version="1",
            boot=agent.boot,
            mode=mode,
            gpus=tuple(self._gpu(agent, pci, held) for pci in agent.gpus),
            orders=tuple(agent.answers[order.id] for order in given if order.id in agent.answers),
        )
        if status != found.status:
            self._status(GPU_NODES, agent.node, write(status))

    def _gpu(self, agent: PretendAgent, pci: str, held: tuple[str, ...]) -> NodeGpu:
        state, seen = GpuState.ACTIVE, held if agent.work is None else agent.work
        if pci in agent.drained:
            state = GpuState.DRAINING if held else GpuState.IDLE
        return NodeGpu(
            pci=pci,
            state=state,
            health=agent.health.get(pci, Health.HEALTHY),
            sight=GpuSight(present=True, lost=False, work=seen if pci == GPU_A else (), display=False),
            uuid=agent.uuids.get(pci, uuid_of(pci)),
            model="NVIDIA H100 80GB HBM3",
            memory_mib=81559,
            obstacle=agent.obstacles.get(pci, ""),
            reboot_cures=pci in agent.reboot_cures,
        )

    def _work_on(self, node: str) -> tuple[str, ...]:
        """Return the pods that hold GPU_A of a node."""
        listed = self.server.list(PODS, fields=f"spec.nodeName={node}", project=pod_of).items
        return tuple(pod.name for pod in listed if pod.gpus and not pod.ended)

    def _status(self, resource: Any, name: str, status: Any, *, space: str | None = None) -> None:
        operation = {"op": "add", "path": "/status", "value": status}
        self.server.patch(resource, name, [operation], namespace=space, subresource="status")

    def crash_pod(self, name: str, *, restarts: int, waits: bool = True) -> None:
        """Let the container of a pod have crashed so often, and wait for its next start, or run again."""
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        container = {"name": "c", "restartCount": restarts, "state": waiting if waits else {"running": {}}}
        self._status(PODS, name, {"phase": "Running", "containerStatuses": [container]}, space="work")

    def remove_pod(self, name: str) -> None:
        """Take a pod away at once."""
        self.server.delete(PODS, name, namespace="work", grace_seconds=0)

    def end_pod(self, name: str) -> None:
        """Let a pod end by itself."""
        with contextlib.suppress(AssertionError):
            self._status(PODS, name, {"phase": "Succeeded"}, space="work")

    def pool(self, name: str = "h100", *, size: int = 1, **shape: Any) -> None:
        """Make a pool of standby nodes of this fleet's shape, but for what is told."""
        spec = {"shape": {"product": PRODUCT, "count": 2, **shape}, "size": size}
        self.server.create(STANDBY_POOLS, {"metadata": {"name": name}, "spec": spec})


def uuid_of(pci: str) -> str:
    """Return the UUID of a GPU."""
    return f"GPU-{pci.replace(':', '-')}"
