"""Which faults of applications are their job's own: looked at across nodes, as far as cases and pods tell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpuward.controller.gather import Gathered, Picture
from gpuward.controller.heed import is_over
from gpuward.controller.jobs import Jobs
from gpuward.controller.pace import Pace
from gpuward.isolation.decide import acts
from gpuward.isolation.fleet import fault_name
from gpuward.isolation.job_faults import WINDOW_SECONDS, JobFault, own_faults
from gpuward.model.fault import Fault
from gpuward.model.job import JobRef
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_case import GpuCase


class Programs:
    """Knows of each new application fault at P1 whose pods held its GPU, and by that which faults are a job's own.

    `own`: by fault why it is its job's own, as the newest `look` found.
    """

    def __init__(self, jobs: Jobs, picture: Picture, *, pace: Pace) -> None:
        self.own: Mapping[str, str] = {}
        self._jobs = jobs
        self._picture = picture
        self._pace = pace

    async def look(self, gathered: Sequence[Gathered]) -> list[Gathered]:
        """Return what was gathered with the jobs of each new fault of an application, and count all of them."""
        known = [await self._with_jobs(one) for one in gathered]
        self.own = own_faults((*self._of_cases(), *(fault for one in known for fault in _news(one))))
        return known

    async def _with_jobs(self, one: Gathered) -> Gathered:
        cased = {case.fault for case in one.snapshot.cases}
        news = [fault for fault in one.snapshot.faults if _is_of_an_application(fault) and fault.id not in cased]
        jobs = {fault.id: await self._holding(fault.id) for fault in news}
        return replace(one, jobs=jobs) if jobs else one

    async def _holding(self, fault: str) -> tuple[JobRef, ...]:
        found = self._picture.faults.objects.get(fault)
        return () if found is None else await self._jobs.holding(found)

    def _of_cases(self) -> Iterator[JobFault]:
        """Yield the faults of cases that came lately, or go on."""
        since = self._pace.clock.now() - WINDOW_SECONDS
        for case in self._picture.cases.objects.values():
            spec = case.spec
            if not spec.jobs or spec.drill is not None or spec.gpu is None:
                continue
            if spec.opened_at > since or self._goes_on(case):
                jobs = tuple(JobRef(job.kind, job.api_version, job.namespace, job.name, job.uid) for job in spec.jobs)
                yield JobFault(spec.fault, fault_name(spec.kind, spec.code), spec.node, spec.gpu, jobs)

    def _goes_on(self, case: GpuCase) -> bool:
        fault = self._picture.faults.objects.get(case.spec.fault)
        return fault is not None and not is_over(fault)


def _news(one: Gathered) -> Iterator[JobFault]:
    for fault in one.snapshot.faults:
        jobs = one.jobs.get(fault.id)
        if jobs and fault.pci is not None:
            yield JobFault(fault.id, fault_name(fault.kind, fault.code), one.snapshot.node, fault.pci, jobs)


def _is_of_an_application(fault: Fault) -> bool:
    return acts(fault) and fault.verdict.level is Level.P1 and fault.verdict.fault_class is FaultClass.APPLICATION
