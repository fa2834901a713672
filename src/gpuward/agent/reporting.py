"""From what an agent sees and did to the status of its node's object. Pure; sending it is not here."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuward.agent.bench import holds_of
from gpuward.agent.sight import Seen, obstacle_of, reboot_cures, sight_of
from gpuward.model.case import Case, EffectKind, Mode, Outcome
from gpuward.model.fault import Fault
from gpuward.model.level import Level
from gpuward.model.node import NodeReading
from gpuward.model.objects.gpu_node import (
    MOST_GPUS,
    GpuState,
    Health,
    NodeGpu,
    NodeStatus,
    OrderAnswer,
    PodHold,
    summary_of,
)
from gpuward.model.objects.limits import GPU_UUID, PCI, UID, Name

_SAYS: Mapping[GpuState, str] = {
    GpuState.LOST: "It no longer answers.",
    GpuState.RESETTING: "It is being reset.",
    GpuState.IDLE: "It is drained by gpuward, and nothing holds it.",
    GpuState.DRAINING: "It is drained by gpuward; what holds it goes on.",
    GpuState.DRAINED: "Somebody else drained it.",
    GpuState.UNKNOWN: "The driver does not show it.",
    GpuState.ACTIVE: "",
}


@dataclass(frozen=True, slots=True)
class Seeing:
    """What an agent saw at one moment, and what it did; `seen` and `faults` by address, `boot` as objects spell it."""

    version: str
    boot: str
    mode: Mode
    reading: NodeReading | None
    trouble: str
    seen: Mapping[str, Seen]
    faults: Mapping[str, Fault]
    """The worst fault that goes on, of each GPU that has one."""
    cases: tuple[Case, ...]
    answers: tuple[OrderAnswer, ...]


def status_of(seeing: Seeing) -> NodeStatus:
    """Return the status as it is written; it is the same as long as nothing changed."""
    shown = [pci for pci in sorted(seeing.seen) if _fits(PCI, pci)][:MOST_GPUS]
    gpus = tuple(_gpu(seeing.seen[pci], seeing) for pci in shown)
    return NodeStatus(
        agent_version=seeing.version,
        boot=seeing.boot,
        mode=seeing.mode,
        driver_version=None if seeing.reading is None else seeing.reading.driver_version,
        summary=summary_of(gpus),
        trouble=seeing.trouble or _unread(seeing),
        gpus=gpus,
        orders=seeing.answers,
    )


def worst_by_gpu(faults: Iterable[Fault]) -> dict[str, Fault]:
    """Return the worst fault of each GPU that has one at P1 or above, the oldest of equal ones; by address."""
    worst: dict[str, Fault] = {}
    for fault in faults:
        pci, level = fault.pci, fault.verdict.level
        if pci is not None and level >= Level.P1 and (pci not in worst or level > worst[pci].verdict.level):
            worst[pci] = fault
    return worst


def state_of(seen: Seen, cases: Iterable[Case]) -> GpuState:
    """Return what a GPU is doing; `cases` are those that are no drills."""
    pending = [
        effect.kind
        for case in cases
        if case.gpu == seen.was.pci
        for effect in case.effects
        if effect.outcome is Outcome.ASKED
    ]
    if EffectKind.RESET in pending:
        return GpuState.RESETTING
    if seen.lost:
        return GpuState.LOST
    if seen.drained:
        return GpuState.IDLE if sight_of(seen).work == () else GpuState.DRAINING
    if seen.drained_by_others:
        return GpuState.DRAINED
    return GpuState.ACTIVE if seen.reading is not None else GpuState.UNKNOWN


def _gpu(seen: Seen, seeing: Seeing) -> NodeGpu:
    reading, was = seen.reading, seen.was
    state = state_of(seen, seeing.cases)
    fault = seeing.faults.get(was.pci)
    return NodeGpu(
        pci=was.pci,
        state=state,
        health=_health(state, fault),
        sight=sight_of(seen),
        index=None if reading is None else reading.index,
        uuid=was.uuid if was.uuid is not None and _fits(GPU_UUID, was.uuid) else None,
        model=seen.model,
        minor=was.minor,
        mig=seen.mig,
        persistence=None if reading is None else reading.persistence,
        ecc=None if reading is None else reading.ecc,
        remap=None if reading is None else reading.remap,
        recovery_action=seen.recovery_action,
        holds=tuple(PodHold(words, uid) for words, uid in holds_of(seen.holders or ()) if _fits(UID, uid)),
        obstacle=obstacle_of(seen),
        reboot_cures=reboot_cures(seen),
        because=_because(state, fault),
    )


def _health(state: GpuState, fault: Fault | None) -> Health:
    """Return whether it has a fault; without one only a GPU that was read just now is known to be healthy."""
    if fault is not None or state is GpuState.LOST:
        return Health.FAULTY
    return Health.HEALTHY if state is GpuState.ACTIVE else Health.UNKNOWN


def _because(state: GpuState, fault: Fault | None) -> str:
    return " ".join(part for part in (_SAYS[state], "" if fault is None else fault.verdict.because) if part)


def _unread(seeing: Seeing) -> str:
    if seeing.reading is None:
        return "The GPUs could not be read the last time."
    return "" if seeing.seen else "No GPU was seen."


def _fits(name: Name, text: str) -> bool:
    return name.least <= len(text) <= name.most and re.fullmatch(name.pattern.strip("^$"), text, re.ASCII) is not None
