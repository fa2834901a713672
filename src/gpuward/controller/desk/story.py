"""One incident from the line in the log to its proof, as its objects tell it. How it is worded is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.controller.desk.glance import NodeGlance, names_of
from gpuward.controller.desk.reading import Desk
from gpuward.isolation.kernel.text import shown
from gpuward.isolation.lost import obstacle_in_a_drill
from gpuward.isolation.plan import plan_of
from gpuward.model.case import ON_A_CLUSTER, Mode, Order
from gpuward.model.fault import Verdict
from gpuward.model.objects.gpu_case import CaseOrder, GpuCase, as_case, read_gpu_case
from gpuward.model.objects.gpu_fault import GpuFault, read_gpu_fault
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import GPU_CASES, GPU_FAULTS
from gpuward.ports import Refused


@dataclass(frozen=True, slots=True)
class Story:
    """A case with the fault that opened it. `trouble` says why the fault is not told; it may be gone by now."""

    case: GpuCase
    node: NodeGlance | None
    fault: GpuFault | None
    rules: tuple[str, ...] = ()
    """The rules that had a say, on the node and in the fleet."""
    plan: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the log that it rests on."""
        if self.fault is None:
            return ()
        newest = self.fault.newest
        evidence = newest.evidence if newest is not None and newest.evidence else self.fault.spec.evidence
        return tuple(shown(line.text) for line in evidence)

    @property
    def had_gpu(self) -> tuple[str, ...]:
        """The pods that had its GPU when the fault came, as far as the kubelet and the processes told."""
        return () if self.fault is None else names_of(self.fault.pods)

    @property
    def had_gpu_trouble(self) -> str:
        """Why it is not known which pods had it, or not of every pod; empty when it is."""
        if self.fault is None or self.case.spec.gpu is None:
            return self.trouble
        told = None if self.fault.status is None else self.fault.status.pods
        if told is not None:
            return told.trouble
        return "the kubelet has not answered yet" if self.fault.spec.pods_follow else "the kubelet was not asked"

    @property
    def index(self) -> int | None:
        """The number of its GPU; None where it is not known, and for a case of the whole node."""
        pci = self.case.spec.gpu
        gpu = None if self.node is None or pci is None else self.node.gpu_named("", pci=pci)
        return None if gpu is None else gpu.index

    @property
    def verdict(self) -> Verdict | None:
        """What the agent made of the lines; None where nobody knows."""
        return None if self.fault is None else self.fault.verdict


async def story_of(desk: Desk, name: str) -> Story:
    """Return the story of a case. Raises Refused when it is not there or cannot be read, else as the cluster."""
    found = await desk.cluster.get(GPU_CASES, name)
    if found is None:
        raise Refused(f"there is no case {name}; `gpuward cases --all` lists them")
    case = read_case(found, name)
    fault, trouble = await fault_of(desk, case)
    return Story(
        case=case,
        node=await desk.node(case.spec.node),
        fault=fault,
        rules=() if fault is None else _rules_of(fault),
        plan=_plan(case),
        trouble=trouble,
    )


def read_case(found: Mapping[str, Any], name: str) -> GpuCase:
    """Return a case. Raises Refused with what is wrong with it, and where to look."""
    try:
        return read_gpu_case(found)
    except ObjectError as error:
        raise Refused(
            f"the case {name} cannot be read: {error}; `kubectl get gpucase {name} -o yaml` shows it"
        ) from error


async def fault_of(desk: Desk, case: GpuCase) -> tuple[GpuFault | None, str]:
    """Return the fault that opened a case, or why it cannot be told of."""
    if case.spec.drill is not None:
        return None, "it is a drill: its line was made up, and no fault was told"
    if case.spec.gpu is None:
        return None, "it is no line of a log: the node does not answer"
    found = await desk.cluster.get(GPU_FAULTS, case.spec.fault)
    if found is None:
        return None, f"the fault {case.spec.fault} is gone"
    try:
        return read_gpu_fault(found), ""
    except ObjectError as error:
        return None, f"the fault {case.spec.fault} cannot be read: {error}"


def _rules_of(fault: GpuFault) -> tuple[str, ...]:
    """Return the rules that the agent and the controller name, each once."""
    judged = None if fault.status is None else fault.status.judged
    return tuple(dict.fromkeys((*fault.verdict.rules, *(() if judged is None else judged.rules))))


def _plan(case: GpuCase) -> tuple[str, ...]:
    """Return what was intended when it was opened; for a case that was only observed, what would be done."""
    if case.spec.plan:
        return tuple(map(str, case.spec.plan))
    mode = case.spec.drill or case.spec.mode or Mode.OBSERVE
    now = as_case(case)
    way = Mode.ISOLATE if mode is Mode.OBSERVE else mode
    return plan_of(now, way, obstacle=obstacle_in_a_drill(now), reach=ON_A_CLUSTER)


def is_heard(case: GpuCase, order: CaseOrder) -> bool:
    """Return whether the controller has heard an order."""
    return case.status is not None and order.number <= case.status.heard


def is_releasing(case: GpuCase) -> bool:
    """Return whether every mark of a case is being undone."""
    return case.status is not None and case.status.order is Order.RELEASE
