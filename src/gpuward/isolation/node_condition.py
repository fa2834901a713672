"""The condition of ours on a Node: what it says of the GPUs, and the change that makes it so. It patches nothing.

A node's conditions are many owners': one entry is ours, by its type, and no other is touched. It is written only when
what it says has changed, so that its heartbeat is the time of that, not of a round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from gpuward.isolation.saying import WHOSE, gpu_of, listed, trouble_of
from gpuward.model.case import ENDED, Case, CaseState
from gpuward.model.objects.gpu_node import Health, NodeGpu
from gpuward.model.objects.owned import CONDITION

NAMED = 3
"""So many cases or GPUs are named; the others are counted."""
MOST_CHARACTERS = 1024
Operations = Sequence[Mapping[str, Any]]


class ConditionStatus(StrEnum):
    """What a condition says, in the words of Kubernetes. Unknown is not healthy."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionReason(StrEnum):
    """Why it says that, in one word for programs."""

    CASE_OPEN = "CaseOpen"
    """A case is open that has marks on the node."""
    GPU_FAULTY = "GPUFaulty"
    """A GPU has a fault that goes on, and no mark was set for it."""
    GPUS_UNSEEN = "GPUsUnseen"
    """Nobody can say how the GPUs are: the agent told nothing yet, cannot see them, or sees none."""
    GPU_UNKNOWN = "GPUUnknown"
    """Nobody can say how one of them is."""
    GPUS_HEALTHY = "GPUsHealthy"
    """All of them were read, and none has a fault."""


@dataclass(frozen=True, slots=True)
class Saying:
    """What the condition says."""

    status: ConditionStatus
    reason: ConditionReason
    message: str


def saying_of(cases: Iterable[Case], gpus: Sequence[NodeGpu], *, unseen: str) -> Saying:
    """Return what the condition of a node says. `unseen`: why its GPUs cannot be seen now; empty when they can."""
    marked = [case for case in cases if case.state not in ENDED and case.drill is None and case.marks]
    if marked:
        return Saying(ConditionStatus.TRUE, ConditionReason.CASE_OPEN, _of_cases(marked, gpus))
    faulty = [gpu for gpu in gpus if gpu.health is Health.FAULTY]
    if faulty:
        return Saying(ConditionStatus.TRUE, ConditionReason.GPU_FAULTY, f"{_named(faulty)}: a fault goes on")
    if unseen or not gpus:
        return Saying(ConditionStatus.UNKNOWN, ConditionReason.GPUS_UNSEEN, _cut(unseen or "no GPU is seen"))
    unknown = [gpu for gpu in gpus if gpu.health is not Health.HEALTHY]
    if unknown:
        message = f"{_named(unknown)}: nobody can say whether it is healthy"
        return Saying(ConditionStatus.UNKNOWN, ConditionReason.GPU_UNKNOWN, message)
    return Saying(ConditionStatus.FALSE, ConditionReason.GPUS_HEALTHY, f"{len(gpus)} seen, none with a fault")


def condition_of(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return our condition on a node, None when it wears none."""
    place = _place(node)
    return None if place is None else _conditions(node)[place]


def says(found: Mapping[str, Any] | None, saying: Saying) -> bool:
    """Return whether a condition says this."""
    return found is not None and all(found.get(key) == value for key, value in _words(saying).items())


def condition_operations(node: Mapping[str, Any], saying: Saying | None, *, at: float) -> Operations:
    """Return the JSON patch of a node's status that lets it say this, or takes ours away for None; empty: it is so.

    The patch fails as a whole when our entry is no longer at its place: read again then.
    """
    place, found = _place(node), condition_of(node)
    if saying is None:
        return () if place is None else (_still(place), {"op": "remove", "path": _path(place)})
    if says(found, saying):
        return ()
    entry = _entry(saying, found, at=at)
    if place is not None:
        return (_still(place), {"op": "replace", "path": _path(place), "value": entry})
    # Two that add at once would be two of one type: only the version tells that nobody else did.
    version = (node.get("metadata") or {}).get("resourceVersion")
    return ({"op": "test", "path": "/metadata/resourceVersion", "value": version}, _addition(node, entry))


def _addition(node: Mapping[str, Any], entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the operation that adds an entry after all others, where there are any."""
    if _conditions(node):
        return {"op": "add", "path": "/status/conditions/-", "value": entry}
    if node.get("status") is None:
        return {"op": "add", "path": "/status", "value": {"conditions": [entry]}}
    return {"op": "add", "path": "/status/conditions", "value": [entry]}


def _entry(saying: Saying, found: Mapping[str, Any] | None, *, at: float) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    was_so = found is not None and found.get("status") == saying.status and found.get("lastTransitionTime")
    since = found["lastTransitionTime"] if found is not None and was_so else stamp
    return {"type": CONDITION, **_words(saying), "lastHeartbeatTime": stamp, "lastTransitionTime": since}


def _words(saying: Saying) -> dict[str, str]:
    return {"status": str(saying.status), "reason": str(saying.reason), "message": saying.message}


def _of_cases(cases: Sequence[Case], gpus: Sequence[NodeGpu]) -> str:
    """Return the cases in words, the worst first; nothing in it changes with each step of a case."""
    indexes = {gpu.pci: gpu.index for gpu in gpus}
    worst = sorted(cases, key=lambda case: (-case.level, case.opened_at, case.id))
    said = [_of_case(case, indexes) for case in worst[:NAMED]]
    more = len(worst) - NAMED
    return _cut("; ".join(said) + (f"; and {more} more" if more > 0 else ""))


def _of_case(case: Case, indexes: Mapping[str, int | None]) -> str:
    waits = " waits for a person" if case.state is CaseState.PARKED else ""
    return f"{gpu_of(case.gpu, indexes)}: {trouble_of(case)}: {WHOSE[case.fault_class]}, {case.level}; {case.id}{waits}"


def _named(gpus: Sequence[NodeGpu]) -> str:
    return listed([gpu_of(gpu.pci, {gpu.pci: gpu.index}) for gpu in gpus], NAMED)


def _still(place: int) -> Mapping[str, Any]:
    return {"op": "test", "path": f"{_path(place)}/type", "value": CONDITION}


def _path(place: int) -> str:
    return f"/status/conditions/{place}"


def _place(node: Mapping[str, Any]) -> int | None:
    types = [one.get("type") for one in _conditions(node)]
    return types.index(CONDITION) if CONDITION in types else None


def _conditions(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (node.get("status") or {}).get("conditions") or ()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
