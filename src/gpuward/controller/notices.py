"""Which jobs are told of a case, which of their pods have the notice, and which pods are given time to save.

What a job is told stands in the case before its first pod is told. Pods are read by the job's own label, and only
those that opted in. Nothing is written here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gpuward.controller.outcomes import Heard, is_open
from gpuward.controller.pausing import Answer
from gpuward.isolation.noticing import Earlier, notice_of, planned
from gpuward.isolation.saying import listed
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Order, Outcome
from gpuward.model.counted import many
from gpuward.model.job import JobRef, is_part, selector_of
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.objects.notice import MOST_JOBS, MOST_UNTOLD, Notice, Noticed, Verb, opted_in, read_notice
from gpuward.model.objects.owned import CHECKPOINT, NOTICE
from gpuward.model.objects.values import ObjectError
from gpuward.model.pod import PodSight, pod_of
from gpuward.model.resource import PODS
from gpuward.ports import Cluster, EdgeError, Object

_NAMED = 3
NOBODY = "No job on the node asked to be told."
MOST_LATE_SECONDS = 300.0
"""So long after it was asked for a job may still be told, and given its time: nothing keeps a sick node for ever."""
_MOST_BELIEVED = 100_000
"""A job's owner may write its annotations too: what counts higher is not ours."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A pod that may be told, and what it was told so far; None: nothing that can be read."""

    pod: PodSight
    version: str
    has_annotations: bool
    notice: Notice | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A notice that a pod shall have, and has not."""

    to: Reader
    notice: Notice


@dataclass(slots=True)
class Telling:
    """What is known of the notices of one node's cases."""

    plans: dict[str, tuple[Noticed, ...]] = field(default_factory=dict)
    """By case, what its jobs are told, to be saved with it."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """By case, what became of the effect."""
    letters: dict[str, list[Letter]] = field(default_factory=dict)
    """By case, what is to be written on pods once the plan is saved."""
    passed_over: dict[str, str] = field(default_factory=dict)
    """By case, which further jobs asked to be told and are not, in a sentence."""
    waiting: set[str] = field(default_factory=set)
    """The pods of the node, by UID, that are not evicted yet: their time to save is not over."""
    saving: dict[str, str] = field(default_factory=dict)
    """By case, who still saves, in words."""
    saved: dict[str, str] = field(default_factory=dict)
    """By case, who was told, in a sentence."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it is looked at; `pods` None: nobody could look, or nobody had to."""

    now: float
    cases: Sequence[Case]
    saved: Mapping[str, GpuCase]
    pods: Mapping[str, PodSight] | None
    jobs: Mapping[str, JobRef]
    """By UID, the jobs of these pods."""
    victims: Mapping[str, tuple[str, ...] | None]
    ranks: Mapping[str, frozenset[str]]
    """By case, the UIDs of the pods that have its GPU; empty where nobody knows."""
    save_seconds: float


class Notices:
    """Looks after the notices of all cases. One round at a time: what it plans in a round it knows in that round."""

    def __init__(self, cluster: Cluster, cases: Mapping[str, GpuCase], heard: Heard) -> None:
        self._cluster = cluster
        self._cases = cases
        self._heard = heard
        self._fresh: dict[str, tuple[Noticed, ...]] = {}

    def begin(self) -> None:
        """Begin a round."""
        self._fresh.clear()

    async def look(self, node: Node) -> Telling:
        """Return what is to be told, and who has been."""
        telling = Telling()
        for case in node.cases:
            if not is_open(case) or case.drill is not None:
                continue
            status = node.saved[case.id].status
            noticed = () if status is None else status.noticed
            telling.passed_over[case.id] = "" if status is None else status.passed_over
            effect = next((e for e in case.effects if e.kind is EffectKind.NOTICE and e.outcome is Outcome.ASKED), None)
            if effect is not None:
                noticed = await self._tell(case, effect, noticed, node=node, telling=telling)
            if case.order is Order.RELEASE:
                noticed = self._taken_back(case, noticed, node)
            if status is not None and noticed != status.noticed:
                telling.plans[case.id] = noticed
            _let_save(case, noticed, node, telling)
        return telling

    async def _tell(
        self, case: Case, effect: Effect, noticed: tuple[Noticed, ...], *, node: Node, telling: Telling
    ) -> tuple[Noticed, ...]:
        """Plan what a case's jobs are told, or see how many of their pods have it; return the plan as it is now."""
        if case.order is Order.RELEASE:
            telling.answers[case.id] = (Outcome.FAILED, "it was released before its jobs were told")
            return noticed
        try:
            if not noticed:
                noticed, telling.passed_over[case.id] = await self._planned(case, node)
                if noticed:
                    self._fresh[case.id] = noticed
                elif node.victims.get(case.id) is not None:
                    telling.answers[case.id] = (Outcome.DONE, NOBODY)
            noticed = tuple([await self._seen(case, effect, one, node=node, telling=telling) for one in noticed])
        except EdgeError as error:
            if _is_over(effect, noticed, node):
                telling.answers[case.id] = (Outcome.FAILED, f"the pods of its jobs could not be read: {error}")
            return noticed
        if noticed and (_is_over(effect, noticed, node) or all(one.told_at is not None for one in noticed)):
            done = all(one.told_at is not None and one.pods for one in noticed)
            said = words_of(noticed, telling.passed_over[case.id])
            telling.answers[case.id] = (Outcome.DONE if done else Outcome.FAILED, said)
        return noticed

    async def _planned(self, case: Case, node: Node) -> tuple[tuple[Noticed, ...], str]:
        """Return what each job with a pod among the victims that opted in is to be told, and who is passed over."""
        pods = node.pods or {}
        victims = [pods[ref] for ref in node.victims.get(case.id) or () if ref in pods]
        jobs: dict[JobRef, None] = {}
        for pod in victims:
            job = node.jobs.get(pod.uid)
            if job is not None and _may_be_told(pod):
                jobs[job] = None
        plans = []
        for job in list(jobs)[:MOST_JOBS]:
            mine = [pod for pod in pods.values() if node.jobs.get(pod.uid) == job and pod.gpus]
            holders = node.ranks.get(case.id, frozenset())
            ranks = [pod.uid for pod in mine if pod.uid in holders] or ([] if holders else [pod.uid for pod in mine])
            plan = planned(
                case,
                job,
                now=node.now,
                save_seconds=node.save_seconds,
                ranks=ranks,
                earlier=self._earlier(case, job, await readers_of(job, self._cluster)),
            )
            plans.append(plan)
        return tuple(plans), _passed_over(list(jobs)[MOST_JOBS:])

    def _earlier(self, case: Case, job: JobRef, readers: Iterable[Reader]) -> list[Earlier]:
        """Return what a job was told before, by the cases, and by its pods: a case may be long gone."""
        told_by_pods = {one.notice.generation for one in readers if one.notice is not None}
        earlier = [Earlier(generation) for generation in told_by_pods if generation <= _MOST_BELIEVED]
        for name, found in self._cases.items():
            told = () if found.status is None else found.status.noticed
            told = (*told, *self._fresh.get(name, ()))
            for one in told:
                if name != case.id and one.job.is_same(job):
                    stands = is_open(as_case(found)) and one.withdrawn_at is None
                    earlier.append(Earlier(one.generation, one if stands else None))
        return earlier

    async def _seen(self, case: Case, effect: Effect, noticed: Noticed, *, node: Node, telling: Telling) -> Noticed:
        """Return what a job is told with how far that has come."""
        if noticed.told_at is not None:
            return noticed
        readers = await readers_of(noticed.job, self._cluster)
        letters = letters_of(noticed, case.id, readers)
        is_late = noticed.deadline <= node.now < effect.asked_at + MOST_LATE_SECONDS
        if is_late and letters and len(letters) == len(readers) and not self._is_answered(case, letters):
            # Nobody was there to tell the job in time: it has from now on what it was to have.
            noticed = replace(noticed, deadline=node.now + node.save_seconds)
            letters = letters_of(noticed, case.id, readers)
        untold = {pod: why for (name, pod), why in self._heard.untold.items() if name == case.id}
        left = [one for one in letters if one.to.pod.uid not in untold]
        telling.letters.setdefault(case.id, []).extend(left)
        whys = [f"{one.to.pod.ref}: {untold[one.to.pod.uid]}" for one in letters if one.to.pod.uid in untold]
        seen = replace(noticed, pods=len(readers) - len(letters), untold=tuple(whys[:MOST_UNTOLD]))
        return seen if left else replace(seen, told_at=node.now)

    def _is_answered(self, case: Case, letters: Iterable[Letter]) -> bool:
        """Return whether the server has answered to any of these, whatever it said."""
        answered = self._heard.posted | self._heard.untold.keys()
        return any((case.id, one.to.pod.uid) in answered for one in letters)

    def _taken_back(self, case: Case, noticed: tuple[Noticed, ...], node: Node) -> tuple[Noticed, ...]:
        """Return the notices of a case that is released: those of jobs of which nothing was evicted are off."""
        status = node.saved[case.id].status
        hit = {one.job for one in (() if status is None else status.victims) if one.asked_at is not None}
        hit |= {node.jobs[uid].uid for uid in self._heard.asked_at if uid in node.jobs}
        return tuple(
            one if one.withdrawn_at is not None or one.job.uid in hit else replace(one, withdrawn_at=node.now)
            for one in noticed
        )


def _is_over(effect: Effect, noticed: Sequence[Noticed], node: Node) -> bool:
    """Return whether a case waits no longer for its jobs to be told."""
    return node.now >= max([effect.asked_at + node.save_seconds, *(one.deadline for one in noticed)])


def saves_until(found: GpuCase) -> float:
    """Return until when the pods of a case are given time to save; 0.0 where none is."""
    noticed = () if found.status is None else found.status.noticed
    return max((one.deadline for one in noticed if one.withdrawn_at is None), default=0.0)


async def readers_of(job: JobRef, cluster: Cluster) -> list[Reader]:
    """Return the pods of a job that opted in and have not ended. Raises what the cluster raises."""
    labels = ",".join(filter(None, (CHECKPOINT, selector_of(job))))
    listed = await cluster.list(PODS, namespace=job.namespace, labels=labels, project=_reader)
    return [one for one in listed.items if _may_be_told(one.pod) and is_part(one.pod, job)]


def letters_of(noticed: Noticed, case: str, readers: Iterable[Reader]) -> list[Letter]:
    """Return what is to be written on a job's pods: on those that have neither this notice nor a newer one.

    That it was taken back is told only to those that were told, and only while they were told nothing newer.
    """
    letters = []
    for one in readers:
        notice, has = notice_of(noticed, case, one.pod.uid), one.notice
        is_newer = has is None or has.generation < notice.generation
        if notice.verb is Verb.CANCEL:
            is_due = has is not None and has.id == case and has.generation == notice.generation and has != notice
        else:
            is_due = is_newer
        if is_due:
            letters.append(Letter(one, notice))
    return letters


def words_of(noticed: Sequence[Noticed], passed_over: str = "") -> str:
    """Return in a sentence which jobs were told, and in another which were not."""
    if not noticed:
        return NOBODY
    more = len(noticed) - _NAMED
    told = "; ".join(map(_words, noticed[:_NAMED])) + (f"; and {many(more, 'more job')}." if more > 0 else ".")
    return f"{told} {passed_over}".rstrip()


def _passed_over(jobs: Sequence[JobRef]) -> str:
    """Return in a sentence which jobs are not told; empty where all are."""
    if not jobs:
        return ""
    named = listed([str(job) for job in jobs], _NAMED)
    asked = many(len(jobs), "further job that asked for it is", "further jobs that asked for it are")
    return f"{asked} not told, for a case tells {MOST_JOBS} at most: {named}."


def _words(noticed: Noticed) -> str:
    untold = f", and some could not be: {noticed.untold[0]}" if noticed.untold else ""
    return f"{noticed.job} was told to save, {noticed.pods} of its pods{untold}"


def _let_save(case: Case, noticed: Sequence[Noticed], node: Node, telling: Telling) -> None:
    """Note which pods of the node are given time, and say of whom the case waits."""
    telling.saved[case.id] = words_of(noticed, telling.passed_over.get(case.id, ""))
    standing = [one for one in noticed if one.withdrawn_at is None and node.now < one.deadline and not _is_vain(one)]
    victims = node.victims.get(case.id) or ()
    waiting = {}
    for ref in victims:
        pod = (node.pods or {}).get(ref)
        told = None if pod is None else _told(pod, node.jobs.get(pod.uid), standing)
        if pod is not None and told is not None:
            waiting[pod.uid] = told
    telling.waiting |= waiting.keys()
    # As long as there is nobody else to be evicted the case itself waits; else they go, and the others are let save.
    if waiting and (case.state is CaseState.EVACUATING or len(waiting) == len(victims)):
        jobs = dict.fromkeys(f"{one.job} until {_clock(one.deadline)}" for one in waiting.values())
        telling.saving[case.id] = ", ".join(jobs)


def _told(pod: PodSight, job: JobRef | None, standing: Iterable[Noticed]) -> Noticed | None:
    """Return what a pod's job was told and has time for, None where it was not."""
    if job is None or not _may_be_told(pod):
        return None
    return next((one for one in standing if one.job.is_same(job)), None)


def _is_vain(noticed: Noticed) -> bool:
    """Return whether none of a job's pods could be told: then nobody saves."""
    return noticed.told_at is not None and not noticed.pods


def _may_be_told(pod: PodSight) -> bool:
    return opted_in(pod.labels) and not pod.ended and not pod.ending


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def _reader(found: Object) -> Reader:
    """Return what is kept of a pod that may be told."""
    metadata = found["metadata"]
    annotations = metadata.get("annotations") or {}
    try:
        notice = read_notice(annotations[NOTICE]) if NOTICE in annotations else None
    except ObjectError:
        notice = None
    return Reader(pod_of(found), str(metadata["resourceVersion"]), bool(annotations), notice)
