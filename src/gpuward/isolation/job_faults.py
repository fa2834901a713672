"""The same application fault on many GPUs of one job is that job's own: its program is at fault, not the hardware."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuward.model.job import JobRef

LEAST_GPUS = 3
"""On so many GPUs of one job a fault is the job's own (research on repeats: a program fails wherever it lands)."""
WINDOW_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class JobFault:
    """An application fault of one GPU while pods of these jobs held it. `name` is the kind of fault, as `xid:31`."""

    fault: str
    name: str
    node: str
    gpu: str
    jobs: tuple[JobRef, ...]


def own_faults(found: Iterable[JobFault], *, least: int = LEAST_GPUS) -> Mapping[str, str]:
    """Return by fault why it is its job's own, in a sentence; those that are not are left out.

    Of a GPU that pods of several jobs hold nobody can say whose program it was: it counts for none.
    """
    gpus: dict[tuple[str, JobRef], set[tuple[str, str]]] = {}
    alone = [(one, one.jobs[0]) for one in found if len(one.jobs) == 1]
    for one, job in alone:
        gpus.setdefault((one.name, job), set()).add((one.node, one.gpu))
    return {
        one.fault: f"{one.name} came on {len(held)} GPUs of {job}, so it is that job's own fault and not the hardware's"
        for one, job in alone
        if len(held := gpus[one.name, job]) >= least
    }
