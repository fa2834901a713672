"""Whether a node may be rebooted for a case now: it hits every GPU and pod of the node. Nothing is rebooted here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuward.model.case import Case, CaseState, EffectKind, Outcome
from gpuward.model.counted import many, verb
from gpuward.model.pod import PodSight
from gpuward.model.scene import GpuSight, NodeSight, RebootSight

DAY_SECONDS = 86400.0
MOST_A_DAY = 3
"""More reboots of a node a day are never asked for, whatever the settings say."""
NOT_ENABLED = "no reboot is enabled"
_AT_WORK = frozenset({CaseState.REPAIRING, CaseState.VERIFYING})
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Rebooting:
    """What is settled and seen of the reboots of one node."""

    enabled: bool = False
    most_a_day: int = 1
    cures: frozenset[str] = frozenset()
    """The GPUs for which a reboot removes what stands in the way of a reset."""
    pods: tuple[str, ...] | None = None
    """Pods with GPUs that are on the node; None: nobody has looked."""


def reboot_sight(
    case: Case, cases: Iterable[Case], *, now: float, node: NodeSight, gpus: Mapping[str, GpuSight], settled: Rebooting
) -> RebootSight:
    """Return what a decision about a case needs to know of a reboot of its node."""
    cases = tuple(one for one in cases if one.drill is None)
    others = [one for one in cases if one.id != case.id and not one.ended]
    return RebootSight(
        cures=case.gpu in settled.cures,
        why_not=_why_not(cases, settled, node, now=now),
        waits=_waits(case, others, settled, node=node, gpus=gpus),
    )


def is_rebooting(case: Case) -> bool:
    """Return whether the node is rebooted for a case at this moment."""
    return any(one.kind is EffectKind.REBOOT and one.outcome is Outcome.ASKED for one in case.effects)


def is_work(pod: PodSight) -> bool:
    """Return whether a pod is work on GPUs that would be lost with its node."""
    is_daemon = pod.owner is not None and pod.owner.kind == "DaemonSet"
    return pod.gpus > 0 and not (pod.ended or pod.mirror or is_daemon)


def _why_not(cases: Iterable[Case], settled: Rebooting, node: NodeSight, *, now: float) -> str:
    if not settled.enabled:
        return NOT_ENABLED
    if not node.boot:
        return "its kubelet does not tell its boot id, so nobody could see whether it was rebooted"
    most = min(settled.most_a_day, MOST_A_DAY)
    asked = [one for case in cases for one in case.effects if one.kind is EffectKind.REBOOT]
    # One that is under way is not one too many.
    today = sum(one.asked_at >= now - DAY_SECONDS and one.outcome is not Outcome.ASKED for one in asked)
    if today < most:
        return ""
    asked_for = f"{many(today, 'reboot was', 'reboots were')} asked for within a day"
    return f"{asked_for}, and {most} {verb(most, 'is', 'are')} allowed"


def _waits(
    case: Case, others: Iterable[Case], settled: Rebooting, *, node: NodeSight, gpus: Mapping[str, GpuSight]
) -> str:
    if not node.answers:
        return "the node does not answer"
    for other in others:
        if is_rebooting(other):
            return f"it is rebooted for {other.id} already"
        if other.of_node or other.state in _AT_WORK:
            return f"{other.id} is at work on it"
    if settled.pods is None:
        return "nobody could look which pods are on it"
    if settled.pods:
        more = f" and {len(settled.pods) - _NAMED} more" if len(settled.pods) > _NAMED else ""
        return f"pods with GPUs are on it: {', '.join(settled.pods[:_NAMED])}{more}"
    busy = next((pci for pci, sight in sorted(gpus.items()) if pci != case.gpu and sight.work), "")
    return f"work runs on GPU {busy}" if busy else ""
