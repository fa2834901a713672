"""Drains that were taken for lifted because their node had left the cluster, and are seen when it is there again.

The case has ended by then. Its own order to undo is given once more, under its own name, as long as the agent says that
it is still drained by gpuward. What a person drained an agent never says that of.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuward.controller.latecomers import goes_on
from gpuward.controller.outcomes import is_taken_for_undone
from gpuward.controller.views import GpuNodeView
from gpuward.model.case import Case, Outcome
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.objects.gpu_node import GpuState

_BY_US = frozenset({GpuState.DRAINING, GpuState.IDLE})
"""How an agent tells of a GPU that it has drained itself, for a case or alone."""


def is_any_drained(view: GpuNodeView) -> bool:
    """Return whether a GPU of a node is drained by gpuward."""
    return any(gpu.state in _BY_US for gpu in view.gpus)


def owed_again(cases: Sequence[GpuCase], faults: Iterable[GpuFault], view: GpuNodeView) -> list[Case]:
    """Return the ended cases of a node whose drain still stands, with their undoing asked for again.

    None of a GPU that another case works on, or a fault of which was not judged: its agent may have drained it alone.
    """
    busy = {one.spec.gpu for one in cases if goes_on(one)}
    busy |= {one.spec.gpu for one in faults if one.is_due}
    drained = {gpu.pci for gpu in view.gpus if gpu.state in _BY_US} - busy
    return [_asked_again(case) for pci in sorted(drained) for case in _newest(pci, cases)]


def _newest(pci: str, cases: Iterable[GpuCase]) -> list[Case]:
    """Return the newest case of a GPU, if its drain was only taken for lifted."""
    of_gpu = [as_case(one) for one in cases if one.spec.gpu == pci and one.spec.drill is None]
    newest = max(of_gpu, key=lambda case: case.since, default=None)
    return [] if newest is None or not any(map(is_taken_for_undone, newest.effects)) else [newest]


def _asked_again(case: Case) -> Case:
    effects = (replace(one, outcome=Outcome.ASKED) if is_taken_for_undone(one) else one for one in case.effects)
    return replace(case, effects=tuple(effects))
