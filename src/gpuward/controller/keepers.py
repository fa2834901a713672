"""Which pods keep the GPU of a case that lets its work end. What runs on it at a moment is the agent's to see."""

from collections.abc import Sequence

from gpuward.controller.outcomes import Looked
from gpuward.controller.tenants import are_awaited, are_named, tenants_of
from gpuward.controller.views import GpuNodeView
from gpuward.isolation.clients import is_client
from gpuward.model.case import Case, CaseState
from gpuward.model.level import Level
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.pod import PodSight


def is_kept_perhaps(case: Case, gpus: GpuNodeView | None, faults: Sequence[GpuFault]) -> bool:
    """Return whether it matters which pods are on the node: a GPU on which nothing runs is some pod's."""
    return _is_waited_for(case, gpus) and are_named(case, faults)


def keepers_of(case: Case, looked: Looked, faults: Sequence[GpuFault]) -> tuple[str, ...] | None:
    """Return the pods that have the GPU and may use it again, though nothing of theirs runs on it now; None: unknown.

    A pod between two of its processes keeps its GPU: the next must still find it. One that crashes again and again
    does not: its work has ended, whatever its kubelet starts, or the case would wait for ever.
    """
    if not _is_waited_for(case, looked.gpus):
        return ()
    if are_awaited(case, faults, now=looked.now):
        return None
    if not are_named(case, faults):
        return ()
    if looked.pods is None:
        return None
    tenants = tenants_of(case, looked.pods.values(), faults, now=looked.now) or frozenset()
    kept = (pod for pod in looked.pods.values() if pod.uid in tenants and _may_use_it(pod))
    return tuple(sorted(pod.ref for pod in kept))


def _may_use_it(pod: PodSight) -> bool:
    """Return whether a pod may start work on its GPU again; one of a DaemonSet that only looks at GPUs never does."""
    return not (pod.ended or pod.crash_looping or is_client(pod))


def _is_waited_for(case: Case, gpus: GpuNodeView | None) -> bool:
    """Return whether the case lets work end, and nothing runs on its GPU now."""
    waits = case.level is Level.P1 and case.state is CaseState.FENCED and case.drill is None and not case.of_node
    return waits and gpus is not None and any(gpu.pci == case.gpu and gpu.sight.work == () for gpu in gpus.gpus)
