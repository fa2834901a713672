"""What came of the faults of a while: which took a GPU out, or would have in mode observe, and which were withheld."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuward.controller.desk.glance import CaseGlance, FaultGlance, fault_glance
from gpuward.controller.desk.reading import Desk
from gpuward.isolation import conditions as when
from gpuward.isolation.table import MOVES
from gpuward.model.case import CaseState, EffectKind, Mode
from gpuward.model.resource import GPU_FAULTS

_OBSERVED = frozenset(
    move.say.replace("{it}", it)
    for move in MOVES
    if move.condition in {when.observing, when.observed_over}
    for it in ("GPU", "node")
)
"""What the table says of a case that only the mode held back."""
_TAKES_OUT = frozenset({str(EffectKind.DRAIN), str(EffectKind.TAINT)})


class Came(StrEnum):
    """What came of a fault."""

    WOULD = "would be taken out"
    """The mode was observe, and nothing else held it back."""
    TAKEN = "taken out"
    WITHHELD = "withheld"
    """Something else held it back."""
    WAITS = "waits"
    """It is not decided yet, or held for now."""
    NO_CASE = "no case"
    """Its level calls for none."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A case, what came of it, and the pods that it hit: on its GPU when the fault came, or evicted for it."""

    case: CaseGlance
    came: Came
    why: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The faults of one code and class with the same end. `nodes` and `pods` are how many were hit."""

    kind: str
    code: int | None
    title: str
    fault_class: str
    level: str
    came: Came
    count: int
    nodes: int
    pods: int
    why: str
    """Of the newest one."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that came since a moment, drills left out."""

    since: float
    now: float
    incidents: tuple[Incident, ...]
    groups: tuple[Group, ...]
    drills: int


async def report(desk: Desk, *, since: float) -> Report:
    """Return what came of the faults since a moment. Raises as the cluster."""
    listed = await desk.cluster.list(GPU_FAULTS, project=fault_glance)
    faults = {fault.name: fault for fault in listed.items}
    cases = [case for case in await desk.cases(ended=True) if (case.opened_at or desk.now) >= since]
    incidents = tuple(_incident(case, faults) for case in cases if not case.drill)
    idle = [fault for fault in faults.values() if fault.judged and not fault.case and (fault.at or desk.now) >= since]
    return Report(
        since=since,
        now=desk.now,
        incidents=incidents,
        groups=(*_groups(incidents), *_without_case(idle)),
        drills=sum(bool(case.drill) for case in cases),
    )


def _incident(case: CaseGlance, faults: Mapping[str, FaultGlance]) -> Incident:
    fault = faults.get(case.fault)
    came, why = _came(case)
    held = () if fault is None else fault.pods
    return Incident(case, came, why, tuple(sorted({*held, *case.pods})))


def _came(case: CaseGlance) -> tuple[Came, str]:
    """Return what came of a case, and why in its own words."""
    if not _TAKES_OUT.isdisjoint(case.effects):
        return Came.TAKEN, case.due or case.because
    if case.mode == Mode.OBSERVE and not _OBSERVED.isdisjoint({case.because, case.first_because, *case.said}):
        return Came.WOULD, case.because
    if case.state == CaseState.SUSPECT:
        return Came.WAITS, case.because
    return Came.WITHHELD, case.because


def _groups(incidents: Iterable[Incident]) -> Iterable[Group]:
    grouped: dict[tuple[object, ...], list[Incident]] = {}
    for one in incidents:
        case = one.case
        key = (
            one.came,
            case.fault_class,
            case.kind,
            case.code,
            case.level,
            one.why if one.came is not Came.TAKEN else "",
        )
        grouped.setdefault(key, []).append(one)
    for members in grouped.values():
        newest = members[-1].case
        yield Group(
            kind=newest.kind,
            code=newest.code,
            title=newest.title,
            fault_class=newest.fault_class,
            level=newest.level,
            came=members[-1].came,
            count=len(members),
            nodes=len({one.case.node for one in members}),
            pods=len({pod for one in members for pod in one.pods}),
            why=members[-1].why,
        )


def _without_case(faults: Iterable[FaultGlance]) -> Iterable[Group]:
    grouped: dict[tuple[object, ...], list[FaultGlance]] = {}
    for one in sorted(faults, key=lambda fault: fault.at or 0.0):
        grouped.setdefault((one.fault_class, one.kind, one.code, one.level), []).append(one)
    for members in grouped.values():
        newest = members[-1]
        yield Group(
            kind=newest.kind,
            code=newest.code,
            title=newest.title,
            fault_class=newest.fault_class,
            level=newest.level,
            came=Came.NO_CASE,
            count=len(members),
            nodes=len({one.node for one in members}),
            pods=len({pod for one in members for pod in one.pods}),
            why=newest.because,
        )
