"""The notice: which pods get it and what it says, who is given time to save, and what a release takes back."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import Case, CaseState, EffectKind, Outcome
from gpuward.model.job import JOB, JOB_SET
from gpuward.model.objects.gpu_case import GpuCase
from gpuward.model.objects.notice import MOST_JOBS, After, BadNode, Notice, Verb, read_notice
from gpuward.model.objects.owned import NOTICE
from gpuward.model.resource import DAEMON_SETS, EVENTS, GPU_CASES, PODS, Resource
from gpuward.ports import Conflict, Refused
from tests.controller.fleet import REPAIRING, Fleet, uuid_of
from tests.kit.merging import GPU_A, GPU_B

OPTED_IN = {"gpuward.io/checkpoint": "true"}
TERMS = replace(REPAIRING, eviction=replace(REPAIRING.eviction, deadline_seconds=120.0, save_seconds=30.0))


class Jobs(Fleet):
    """A fleet with jobs whose pods are spread over nodes."""

    def __init__(self, **terms: Any) -> None:
        super().__init__(terms=replace(TERMS, **terms))
        for name in ("gpu-1", "gpu-2", "gpu-3"):
            self.node(name)

    def job(self, name: str, nodes: tuple[str, ...], *, opted: bool = True, **more: Any) -> None:
        """Make a Job with a pod on each of these nodes."""
        owner = self.owner(JOB.resource("batch/v1"), name)
        labels = {"batch.kubernetes.io/job-name": name} | (OPTED_IN if opted else {})
        for number, node in enumerate(nodes):
            self.pod(f"{name}-{number}", node, labels=labels, ownerReferences=owner, **more)

    def job_set(self, name: str, nodes: tuple[str, ...]) -> str:
        """Make a JobSet with a Job for each of these nodes, which has a pod there; return its UID."""
        owner = self.owner(JOB_SET.resource("jobset.x-k8s.io/v1alpha2"), name)
        uid = str(owner[0]["uid"])
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/jobset-uid": uid, **OPTED_IN}
        for number, node in enumerate(nodes):
            job, resource = f"{name}-{number}", JOB.resource("batch/v1")
            body = {"metadata": {"name": job, "ownerReferences": owner}, "spec": {}}
            made = self.server.create(resource, body, namespace="work")["metadata"]
            ours = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": made["uid"], "controller": True}
            mine = {**labels, "batch.kubernetes.io/job-name": job}
            self.pod(f"{job}-0", node, labels=mine, ownerReferences=[ours])
        return uid

    def notice(self, pod: str) -> Notice | None:
        """Return what a pod was told."""
        found = self.server.get(PODS, pod, namespace="work")
        text = None if found is None else (found["metadata"].get("annotations") or {}).get(NOTICE)
        return None if text is None else read_notice(text)

    def heard(self, pod: str) -> Notice:
        """Return what a pod was told; it was."""
        notice = self.notice(pod)
        assert notice is not None, f"{pod} was not told"
        return notice

    def is_going(self, pod: str) -> bool:
        """Return whether a pod was asked to end, or has."""
        found = self.server.get(PODS, pod, namespace="work")
        return found is None or "deletionTimestamp" in found["metadata"]

    def whole(self, fault: str) -> GpuCase:
        """Return the case of a fault as it is saved."""
        (found,) = [one for one in self.gpu_cases() if one.spec.fault == fault]
        return found


def effect_of(case: Case, kind: EffectKind) -> tuple[Outcome, str]:
    return next((one.outcome, one.why) for one in case.effects if one.kind is kind)


async def test_every_pod_of_the_job_is_told_on_whatever_node_and_is_given_its_time() -> None:
    fleet = Jobs()
    uid = fleet.job_set("llm", ("gpu-1", "gpu-2", "gpu-3"))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.notice("llm-2-0") is not None)
        await fleet.go(controller, rounds=2)
        case = fleet.case(fault)
        assert case.state is CaseState.SAVING
        assert "JobSet work/llm until" in case.because
        (told,) = fleet.whole(fault).status.noticed  # type: ignore[union-attr]  # it has one
        assert (str(told.job), told.job.uid, told.pods) == ("JobSet work/llm", uid, 3)
        notice = fleet.heard("llm-2-0")
        assert notice == Notice(
            id=case.id,
            job=uid,
            generation=1,
            verb=Verb.SAVE,
            reason=notice.reason,
            bad=(BadNode("gpu-1", (uuid_of(GPU_A),)),),
            issued=told.issued,
            deadline=told.issued + 30.0,
            after=After.CONTINUE,
        )
        assert "gpu-1" in notice.reason
        assert fleet.heard("llm-1-0").verb is Verb.SAVE
        assert fleet.heard("llm-0-0").verb is Verb.PERSIST
        assert not fleet.is_going("llm-0-0")
        await fleet.until(controller, lambda: fleet.is_going("llm-0-0"))
        assert fleet.time.now() >= told.deadline
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.pods("gpu-2") == ["work/llm-1-0"]
    outcome, why = effect_of(fleet.case(fault), EffectKind.NOTICE)
    assert (outcome, why) == (Outcome.DONE, "JobSet work/llm was told to save, 3 of its pods.")
    victims = fleet.whole(fault).status.victims  # type: ignore[union-attr]  # it has one
    assert [(one.pod, one.owner, one.job) for one in victims] == [("work/llm-0-0", "JobSet/llm", uid)]
    (moved,) = (one for one in fleet.events() if one["reason"] == "GPUFaultMoved")
    assert moved["regarding"] == {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "namespace": "work",
        "name": "llm",
        "uid": uid,
    }


async def test_pods_that_nobody_asked_to_tell_go_at_once_while_the_others_save() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    fleet.job("plain", ("gpu-1", "gpu-2"), opted=False)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.is_going("plain-0"))
        assert fleet.time.now() < fleet.heard("train-0").deadline
        await fleet.go(controller, rounds=3)
        assert not fleet.is_going("train-0")
        assert fleet.case(fault).because.startswith("Jobs save their state: Job work/train until")
        assert fleet.notice("plain-0") is None
        assert fleet.notice("plain-1") is None
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.pods() == []


async def test_where_nobody_opted_in_nobody_is_told_and_nothing_waits() -> None:
    fleet = Jobs()
    fleet.job("plain", ("gpu-1", "gpu-2"), opted=False)
    fleet.pod("refuses", labels={"gpuward.io/checkpoint": "false"})
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.is_going("plain-0") and fleet.is_going("refuses"))
    assert effect_of(fleet.case(fault), EffectKind.NOTICE) == (
        Outcome.DONE,
        "No job on the node asked to be told.",
    )
    assert fleet.time.passed < 15


async def test_a_job_that_has_saved_and_ended_is_waited_for_no_longer() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1",))
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.notice("train-0") is not None)
        issued = fleet.heard("train-0").issued
        fleet.end_pod("train-0")
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.VERIFYING)
        assert fleet.time.now() < issued + 30.0
        assert fleet.case(fault).victims == ()


async def test_a_pod_that_cannot_be_told_is_named_and_the_others_still_save() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    real = fleet.server.patch

    def refused(resource: Resource, name: str, operations: Any, **how: Any) -> Any:
        if resource is PODS and name == "train-1":
            raise Refused("a policy of the site says no")
        return real(resource, name, operations, **how)

    fleet.server.patch = refused  # type: ignore[method-assign]  # a policy of the site
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.SAVING)
        await fleet.go(controller, rounds=4)
        assert not fleet.is_going("train-0")
        await fleet.settled(controller, fault, CaseState.CLOSED)
    outcome, why = effect_of(fleet.case(fault), EffectKind.NOTICE)
    assert outcome is Outcome.DONE
    assert why == (
        "Job work/train was told to save, 1 of its pods, and some could not be: "
        "work/train-1: a policy of the site says no."
    )


async def test_another_node_of_the_job_gives_it_a_newer_notice_with_the_first_deadline_and_both_nodes() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2", "gpu-3"))
    async with fleet.running() as controller:
        first = fleet.fault(79, "gpu-1")
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.notice("train-2") is not None)
        before = fleet.heard("train-2")
        second = fleet.fault(48, "gpu-2", pci=GPU_B)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.heard("train-2").generation > 1)
        after = fleet.heard("train-2")
        assert (before.id, after.id) == (fleet.case(first).id, fleet.case(second).id)
        assert (before.generation, after.generation) == (1, 2)
        assert after.deadline == before.deadline
        assert [one.node for one in after.bad] == ["gpu-2", "gpu-1"]
        await fleet.go(controller, rounds=5)
        assert fleet.heard("train-2") == after
        await fleet.settled(controller, first, CaseState.CLOSED)
        await fleet.settled(controller, second, CaseState.CLOSED)
    assert fleet.heard("train-2") == after


async def test_two_nodes_of_one_job_at_the_same_moment_do_not_overwrite_each_other_in_turn() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2", "gpu-3"))
    async with fleet.running() as controller:
        faults = [fleet.fault(48, name) for name in ("gpu-1", "gpu-2")]
        await fleet.time.pass_by(0.1)
        for fault in faults:
            await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.heard("train-2").generation == 2
    assert sorted(one.node for one in fleet.heard("train-2").bad) == ["gpu-1", "gpu-2"]
    outcomes = [effect_of(fleet.case(fault), EffectKind.NOTICE)[0] for fault in faults]
    assert outcomes == [Outcome.DONE, Outcome.DONE]


async def test_a_release_while_jobs_save_evicts_nothing_and_tells_them_so() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.notice("train-1") is not None)
        case = fleet.case(fault).id
        fleet.order(case, what="release")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint() is None
    for pod in ("train-0", "train-1"):
        assert not fleet.is_going(pod)
        assert (fleet.heard(pod).id, fleet.heard(pod).generation, fleet.heard(pod).verb) == (case, 1, Verb.CANCEL)
    (noticed,) = fleet.whole(fault).status.noticed  # type: ignore[union-attr]  # it has one
    assert noticed.cancelled_at is not None


async def test_a_release_stops_the_eviction_of_those_that_still_save() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    fleet.job("plain", ("gpu-1",), opted=False)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.is_going("plain-0"))
        fleet.order(fleet.case(fault).id, what="release")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
        await fleet.time.pass_by(60)
        await fleet.go(controller, rounds=3)
    assert not fleet.is_going("train-0")
    assert fleet.heard("train-1").verb is Verb.CANCEL


async def test_a_patient_fault_tells_nobody_until_it_worsens() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.FENCED)
        await fleet.go(controller, rounds=5)
    assert fleet.notice("train-0") is None
    assert fleet.notice("train-1") is None


async def test_what_a_user_wrote_there_before_is_replaced_and_its_count_is_not_believed() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"), annotations={NOTICE: "mine!", "site/x": "y"})
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.SAVING)
        await fleet.go(controller, rounds=3)
    assert fleet.heard("train-1").generation == 1
    assert fleet.get(PODS, "train-1", space="work")["metadata"]["annotations"]["site/x"] == "y"


async def test_only_pods_that_opted_in_of_that_job_are_read() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    fleet.job("other", ("gpu-2", "gpu-3"))
    asked: set[tuple[str | None, str, str]] = set()
    real = fleet.server.list

    def noted(resource: Resource, **how: Any) -> Any:
        if resource is PODS and "project" in how:
            asked.add((how.get("namespace"), how.get("labels", ""), how.get("fields", "")))
        return real(resource, **how)

    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        fleet.server.list = noted  # type: ignore[method-assign]  # only noted
        for _ in range(12):
            await fleet.time.run(controller.round())
            fleet.server.list = real  # type: ignore[method-assign]  # what the fleet itself looks at does not count
            fleet.move()
            fleet.server.list = noted  # type: ignore[method-assign]  # only noted
            await fleet.time.pass_by(1.0)
    assert fleet.notice("other-0") is None
    assert fleet.case(fault).state is CaseState.SAVING
    assert asked == {
        (None, "", "spec.nodeName=gpu-1"),
        ("work", "gpuward.io/checkpoint,batch.kubernetes.io/job-name=train", ""),
    }


@pytest.mark.parametrize("gone", [True, False])
async def test_the_case_says_when_pods_were_asked_to_go_and_why_they_are_still_there(gone: bool) -> None:  # noqa: FBT001  both
    fleet = Jobs()
    fleet.pod("web", labels={"app": "x"}, gpus=0)
    fleet.pod("slow", finalizers=["site/slow"], gpus=0)
    fleet.budget("precious", labels={"app": "x"}, least=1)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.is_going("slow"))
        await fleet.go(controller, rounds=6)
        slow, web = fleet.whole(fault).status.victims  # type: ignore[union-attr]  # it has one
        assert slow.asked_at is not None
        assert web.asked_at is not None
        assert slow.because == "work/slow is ending, and waits for its finalizers: site/slow"
        assert "precious" in web.because
        if gone:
            fleet.server.delete(PODS, "web", namespace="work", grace_seconds=0)
            await fleet.go(controller, rounds=2)
            _, web = fleet.whole(fault).status.victims  # type: ignore[union-attr]  # it has one
            assert (web.because, web.gone_at is not None) == ("", True)


async def test_a_pod_that_takes_the_name_of_one_that_is_gone_has_to_go_too() -> None:
    fleet = Jobs()
    fleet.pod("holder", ownerReferences=fleet.owner(DAEMON_SETS, "holder"))
    fleet.pod("web-0", gpus=0)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.pods() == ["work/holder"])
        await fleet.go(controller, rounds=2)
        assert fleet.case(fault).state is CaseState.EVACUATING
        assert fleet.case(fault).pending() is None
        fleet.pod("web-0", gpus=0)
        await fleet.until(controller, lambda: fleet.pods() == ["work/holder"])
        await fleet.go(controller, rounds=2)
    asked = [one.outcome for one in fleet.case(fault).effects if one.kind is EffectKind.EVICT]
    assert asked == [Outcome.DONE, Outcome.DONE]


async def test_no_pod_is_told_what_does_not_stand_in_the_case() -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    real = fleet.server.patch
    refused: list[str] = []

    def patch(resource: Resource, name: str, operations: Any, **how: Any) -> Any:
        noticed = resource is GPU_CASES and any("noticed" in (one.get("value") or ()) for one in operations)
        if noticed and len(refused) < 3:
            refused.append(name)
            raise Conflict("somebody was faster")
        if resource is PODS:
            assert fleet.whole(fault).status.noticed, "told before it was saved"  # type: ignore[union-attr]  # it has one
        return real(resource, name, operations, **how)

    fleet.server.patch = patch  # type: ignore[method-assign]  # conflicts, and a look at what is saved
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.notice("train-1") is not None)
    assert len(refused) == 3


async def test_of_more_jobs_than_a_case_tells_it_says_how_many_more_and_which() -> None:
    fleet = Jobs()
    for number in range(MOST_JOBS + 2):
        fleet.job(f"job-{number:02}", ("gpu-1",))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.notice("job-00-0") is not None)
        await fleet.go(controller, rounds=2)
        status = fleet.whole(fault).status
        assert status is not None
        assert len(status.noticed) == MOST_JOBS
        told = {one.job.name for one in status.noticed}
        left = sorted({f"job-{number:02}" for number in range(MOST_JOBS + 2)} - told)
        said = (
            f"2 further jobs that asked for it are not told, for a case tells {MOST_JOBS} at most: "
            f"Job work/{left[0]}, Job work/{left[1]}."
        )
        assert status.passed_over == said
        await fleet.settled(controller, fault, CaseState.CLOSED)
    case = fleet.case(fault)
    assert effect_of(case, EffectKind.NOTICE)[1].endswith(said)
    assert any(said in one.because for one in fleet.told.happenings)
    assert any(said in str(one.get("note", "")) for one in fleet.server.list(EVENTS).items)
    assert [fleet.notice(f"{name}-0") for name in left] == [None, None]


async def test_a_case_that_tells_all_says_nothing_of_more() -> None:
    fleet = Jobs()
    for number in range(MOST_JOBS):
        fleet.job(f"job-{number:02}", ("gpu-1",))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    status = fleet.whole(fault).status
    assert status is not None
    assert (len(status.noticed), status.passed_over) == (MOST_JOBS, "")
