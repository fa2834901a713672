"""A drill on a cluster: a case that is marked as one, made of the same rows as a real fault's. It moves by decide."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuward.controller.desk.naming import gpu_of
from gpuward.controller.desk.ordering import followed
from gpuward.controller.desk.reading import Desk
from gpuward.controller.desk.story import read_case
from gpuward.isolation.decide import Snapshot, acts, drill_case
from gpuward.isolation.drill import Drill, drilled
from gpuward.isolation.lost import obstacle_in_a_drill
from gpuward.isolation.merge import Merger
from gpuward.isolation.plan import plan_of
from gpuward.model.case import ENDED, ON_A_CLUSTER, CaseState, EffectKind, Mode, Outcome
from gpuward.model.fault import Fault
from gpuward.model.objects.gpu_case import GpuCase, as_case, spec_of, write_gpu_case
from gpuward.model.objects.gpu_fault import CURSOR, fault_name, safe_part
from gpuward.model.objects.head import Head
from gpuward.model.objects.limits import PART_OF_NAME
from gpuward.model.resource import GPU_CASES
from gpuward.ports import Refused


@dataclass(frozen=True, slots=True)
class Drilled:
    """The made-up fault, and the case that was opened for it; None: no case is due for such a fault."""

    fault: Fault
    case: GpuCase | None


async def begin(desk: Desk, node: str, gpu: str, code: int, *, mode: Mode | None, merger: Merger) -> Drilled:
    """Open the case of a drill on a GPU. Raises Refused with a sentence where that cannot be, else as the cluster."""
    seen, found = await gpu_of(desk, node, gpu)
    fault = drilled(code, found.pci, merger, node=node, at=desk.now)
    if fault is None:
        raise Refused(f"no row of the book takes Xid {code} for a fault; `gpuward explain --list` names them")
    if not acts(fault):
        return Drilled(fault, None)
    busy = next((case for case in await desk.cases(node=node) if case.gpu == found.pci), None)
    if busy is not None:
        raise Refused(
            f"GPU {gpu} of {node} has a case, {busy.name}: a drill waits until it has ended, or takes another"
        )
    drill = Drill(replace(_named(fault, node), gpu_uuid=found.uuid or None), mode or _mode_of(seen.wanted))
    case = drill_case(drill, Snapshot(now=desk.now, mode=drill.mode, node=node, cases=(), faults=()))
    steps = plan_of(case, drill.mode, obstacle=obstacle_in_a_drill(case), reach=ON_A_CLUSTER)
    plan = tuple(EffectKind(step) for step in steps if step in set(EffectKind))
    body = write_gpu_case(GpuCase(Head(case.id), spec_of(case, mode=drill.mode, plan=plan)))
    return Drilled(drill.fault, read_case(await desk.cluster.create(GPU_CASES, body), case.id))


async def follow(
    desk: Desk,
    case: GpuCase,
    *,
    wait_seconds: float,
    told: Callable[[GpuCase], None],
    away: Callable[[str], None],
) -> GpuCase:
    """Look at the case until it has ended or the time is over; return it as it is then.

    `told` hears of every look, `away` why there is none, once each time that the API stops answering.
    """
    seen = await followed(desk, case, is_over, wait_seconds=wait_seconds, told=told, away=away)
    if seen is None:
        raise Refused(f"the case {case.head.name} was taken away before the drill had ended")
    return seen


def is_over(case: GpuCase) -> bool:
    """Return whether a drill has ended."""
    return as_case(case).state in ENDED


def went_well(case: GpuCase) -> bool:
    """Return whether a drill ended as it should: by itself, nothing rehearsed in vain, no real fault in its way."""
    now = as_case(case)
    failed = any(effect.outcome in {Outcome.FAILED, Outcome.REFUSED} for effect in now.effects)
    wanted = CaseState.WITHDRAWN if now.drill is Mode.OBSERVE else CaseState.CLOSED
    return now.state is wanted and not failed


def _mode_of(word: str) -> Mode:
    return Mode(word) if word in set(Mode) else Mode.OBSERVE


def _named(fault: Fault, node: str) -> Fault:
    """Return the fault under a name that an object can have, with its own boot: what it is stands in it."""
    boot, cursor = safe_part(fault.boot, PART_OF_NAME), safe_part(fault.id.rpartition(".")[2], CURSOR)
    return replace(fault, id=fault_name(node, boot, cursor), node=node)
