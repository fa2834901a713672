"""Cases that came to be late: a leader that was stopped sent one, and when it arrives another works on that GPU.

Nothing was done for a latecomer, and nobody was told of it: it is taken away, and its fault is the other case's.
"""

from collections import defaultdict
from collections.abc import Sequence

from gpuward.model.case import ENDED
from gpuward.model.objects.gpu_case import GpuCase


def goes_on(found: GpuCase) -> bool:
    """Return whether the work on a case goes on."""
    return (found.spec.state if found.status is None else found.status.state) not in ENDED


def late_cases(cases: Sequence[GpuCase]) -> list[GpuCase]:
    """Return those of a node's cases that must not be: another goes on for that GPU, and no controller took it up."""
    if len(cases) < 2:  # noqa: PLR2004  there is no other one
        return []
    by_gpu: dict[str | None, list[GpuCase]] = defaultdict(list)
    for case in cases:
        if case.spec.drill is None and goes_on(case):
            by_gpu[case.spec.gpu].append(case)
    return [case for found in by_gpu.values() for case in sorted(found, key=_order)[1:] if _is_untouched(case)]


def _order(case: GpuCase) -> tuple[bool, int, str]:
    """Order the cases of a GPU: those that were taken up first, then as the API server made them."""
    version = case.head.version
    return _is_untouched(case), int(version) if version.isdecimal() else 0, case.head.name


def _is_untouched(case: GpuCase) -> bool:
    return case.status is None and not case.spec.orders
