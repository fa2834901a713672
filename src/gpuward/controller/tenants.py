"""Which pods of a node have the GPU of a case, by what its agent told with the case's faults. Nothing is read here."""

from collections.abc import Iterable, Sequence

from gpuward.model.case import Case
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.pod import PodSight

AWAITED_SECONDS = 60.0
"""How long a case waits for its agent to tell whose GPU it was: the kubelet is asked three times within this."""


def tenants_of(
    case: Case, pods: Iterable[PodSight], faults: Sequence[GpuFault], *, now: float
) -> frozenset[str] | None:
    """Return the UIDs of the pods that have the GPU of a case; None while its agent may still tell of some.

    A pod of which only the name was told counts only for a fault of the case: for an older one it was another pod.
    """
    if are_awaited(case, faults, now=now):
        return None
    refs = [(ref, _is_of(fault, case)) for fault in faults if fault.spec.gpu == case.gpu for ref in fault.pods]
    uids = {ref.uid for ref, _ in refs if ref.uid}
    names = {(ref.namespace, ref.name) for ref, of_case in refs if of_case and not ref.uid}
    return frozenset(pod.uid for pod in pods if pod.uid in uids or (pod.namespace, pod.name) in names)


def are_awaited(case: Case, faults: Iterable[GpuFault], *, now: float) -> bool:
    """Return whether the agent said that it asks whose GPU it was, and has not told yet, within its time."""
    fault = next((one for one in faults if one.head.name == case.fault), None)
    if fault is None or not fault.spec.pods_follow or now >= case.opened_at + AWAITED_SECONDS:
        return False
    return fault.status is None or fault.status.pods is None


def are_named(case: Case, faults: Iterable[GpuFault]) -> bool:
    """Return whether any pod was told of that has the GPU of a case."""
    return any(fault.pods for fault in faults if fault.spec.gpu == case.gpu)


def _is_of(fault: GpuFault, case: Case) -> bool:
    judged = None if fault.status is None else fault.status.judged
    return fault.head.name == case.fault or (judged is not None and judged.case == case.id)
