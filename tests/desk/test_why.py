"""`gpuward why` and `report` on a cluster: the whole story from its objects, and what observe mode would have done."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.cli.wiring import UsageError
from gpuward.controller.desk.glance import fault_glance, node_glance
from gpuward.model.case import CaseState, EffectKind, Mode
from gpuward.model.objects.gpu_fault import FaultPod
from gpuward.model.objects.notice import MOST_JOBS, Noticed
from gpuward.model.objects.owned import CHECKPOINT
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, JOBS, PODS
from gpuward.ports import Refused
from tests.controller.fleet import REPAIRING, Fleet, uuid_of
from tests.controller.losing import LOSING, LosingFleet
from tests.desk.people import ask, told
from tests.kit.merging import GPU_A, GPU_B


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    fleet.pod("train-0")
    return fleet


async def lived(fleet: Fleet, code: int = 48) -> str:
    """Let a fault be dealt with to its end."""
    async with fleet.running() as controller:
        fault = fleet.fault(code)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    return f"c-{fault}"


async def test_a_story_goes_from_the_line_to_the_proof() -> None:
    fleet = a_fleet()
    case = await lived(fleet)
    heads = [line.split()[0] for line in (await told(fleet, "why", case)).splitlines()]
    order = ["case", "where", "what", "line", "row", "rule", "verdict", "do", "plan", "step", "pod", "proof", "opened"]
    seen = [head for head in dict.fromkeys(heads) if head in order]
    assert seen == [head for head in order if head in seen]
    assert {"line", "row", "verdict", "plan", "step", "pod", "proof", "then", "now"} <= set(heads)
    value = (await ask(fleet, "why", case, "--json")).object()
    (story,) = value["stories"]
    assert (value["what"], story["case"], story["state"]) == ("case", case, "closed")
    assert any("Xid" in line for line in story["lines"])
    assert story["pods"][0]["pod"] == "work/train-0"
    assert story["pods"][0]["gone_at"] is not None
    assert story["proof"]["outcome"] == "done"
    assert [one["effect"] for one in story["effects"]][:3] == ["evidence", "drain", "taint"]
    assert story["plan"][:3] == ["evidence", "drain", "taint"]
    assert any(one["state"] == "closed" for one in story["timeline"])


async def test_a_ticket_has_what_a_person_needs_who_takes_over() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].fails[EffectKind.RESET] = "the tool says no"
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.settled(controller, fault, CaseState.PARKED)
    lines = (await told(fleet, "why", f"c-{fault}", "--ticket")).splitlines()
    fields = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert fields == ["Node", "GPU", "UUID", "Model", "Fault", "Since", "Log", "Tried", "Due", "Case"]
    text = "\n".join(lines)
    for part in (uuid_of(GPU_A), "H100", "Xid 48", "failed, the tool says no", "A person must look", f"c-{fault}"):
        assert part in text


@pytest.mark.parametrize("word", ["gpu-1", f"gpu-1/{GPU_A}", uuid_of(GPU_A), GPU_A, "{fault}"])
async def test_a_case_is_found_by_its_node_gpu_or_fault(word: str) -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: bool(fleet.judged_case(fault)))
    value = (await ask(fleet, "why", word.format(fault=fault), "--json")).object()
    assert [one["case"] for one in value["stories"]] == [f"c-{fault}"]


async def test_what_names_nothing_or_too_much_is_said_with_the_remedy() -> None:
    fleet = a_fleet()
    fleet.node("gpu-2")
    with pytest.raises(Refused, match="names no case, node, GPU or fault that was told of; `gpuward cases --all`"):
        await ask(fleet, "why", "nothing")
    with pytest.raises(Refused, match=f"2 nodes have a GPU {GPU_A}; say which: gpu-1/{GPU_A}, gpu-2/{GPU_A}"):
        await ask(fleet, "why", GPU_A)
    with pytest.raises(Refused, match="gpu-1 has no GPU 7"):
        await ask(fleet, "why", "gpu-1/7")
    assert "gpu-1 has no case, and had none" in await told(fleet, "why", "gpu-1")


async def test_of_a_node_without_open_cases_the_newest_is_told() -> None:
    fleet = a_fleet()
    case = await lived(fleet)
    out = await told(fleet, "why", "gpu-1")
    assert out.startswith("gpu-1 has no open case; this is its newest:\n")
    assert case in out


async def test_a_case_whose_fault_is_gone_or_broken_is_told_all_the_same() -> None:
    fleet = a_fleet()
    case = await lived(fleet)
    fleet.server.delete(GPU_FAULTS, case.removeprefix("c-"))
    assert f"line     the fault {case.removeprefix('c-')} is gone" in await told(fleet, "why", case)


async def test_a_case_that_cannot_be_read_says_what_is_wrong_and_where_to_look() -> None:
    fleet = a_fleet()
    case = await lived(fleet)

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return getattr(fleet.cluster, name)

        async def get(self, resource: Any, name: str, **asked: Any) -> Any:
            found = await fleet.cluster.get(resource, name, **asked)
            return {**found, "spec": {"node": 7}} if resource == GPU_CASES and found is not None else found

    with pytest.raises(Refused, match=r"cannot be read: spec.node must be .*kubectl get gpucase"):
        await ask(fleet, "why", case, cluster=Broken())


async def test_a_report_from_a_time_that_is_still_to_come_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="2999-01-01 is still to come by the clock of the cluster"):
        await ask(a_fleet(), "report", "--since", "2999-01-01")


@pytest.mark.parametrize("since", ["99999999999d", "9" * 400 + "w", "741000d"])
async def test_a_report_from_before_all_time_is_wrong_usage(since: str) -> None:
    with pytest.raises(UsageError, match=r"--since: '[0-9]+[dw.']+ leads to no year from 1 to 9999"):
        await ask(a_fleet(), "report", "--since", since)


async def test_the_report_says_what_observe_mode_would_have_done_and_to_whom() -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    fleet.node("gpu-2")
    async with fleet.running() as controller:
        would = fleet.fault(48)
        fleet.fault(13, "gpu-2", pci=GPU_B)
        taken_back = fleet.fault(31, "gpu-2")
        await fleet.go(controller, rounds=3)
        fleet.take_back(taken_back)
        await fleet.go(controller, rounds=5)
    value = (await ask(fleet, "report", "--since", "1d", "--json")).object()
    assert {one["case"]: one["came"] for one in value["cases"]}[f"c-{would}"] == "would be taken out"
    came = {(one["code"], one["came"], one["class"]): one["count"] for one in value["groups"]}
    assert came[48, "would be taken out", "hardware"] == 1
    assert any(code == 13 and what == "no case" for code, what, _ in came)
    assert {one["case"]: one["gpu"] for one in value["cases"]}[f"c-{would}"] == 0
    out = await told(fleet, "report")
    assert f"would be taken out: gpu-1 GPU 0 ({GPU_A}), with" in out
    assert "in mode observe the brake and the budgets are not asked" in out


async def test_the_report_names_the_pods_that_the_kubelet_and_the_processes_tell_of_each_once() -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    async with fleet.running() as controller:
        case, held = fleet.fault(48, pods_follow=True), fleet.fault(13, "gpu-1", pci=GPU_B, pods_follow=True)
        uid = fleet.get(PODS, "train-0", space="work")["metadata"]["uid"]
        for fault in (case, held):
            fleet.tenants(fault, FaultPod("work", "train-0", uid), FaultPod("work", "side-0"))
        await fleet.go(controller, rounds=5)
    value = (await ask(fleet, "report", "--json")).object()
    assert [one["pods"] for one in value["cases"]] == [["work/side-0", "work/train-0"]]
    assert {one["code"]: one["pods"] for one in value["groups"]} == {48: 2, 13: 2}
    assert "with work of work/side-0, work/train-0" in await told(fleet, "report")


@pytest.mark.parametrize("word", ["c-{fault}", "gpu-1", "gpu-1/0", "{fault}"])
async def test_a_story_names_the_pods_that_had_the_gpu_in_mode_observe_too(word: str) -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    async with fleet.running() as controller:
        fault = fleet.fault(48, pods=("train-0",), pods_follow=True)
        await fleet.go(controller, rounds=5)
        name = word.format(fault=fault)
        waiting = "had GPU  work/train-0; of others it is not known: the kubelet has not answered yet"
        assert waiting in (await told(fleet, "why", name)).splitlines()
        uid = fleet.get(PODS, "train-0", space="work")["metadata"]["uid"]
        fleet.tenants(fault, FaultPod("work", "train-0", uid), FaultPod("work", "side-0"))
        await fleet.go(controller, rounds=5)
    assert "had GPU  work/side-0, work/train-0" in (await told(fleet, "why", name)).splitlines()
    (story,) = (await ask(fleet, "why", name, "--json")).object()["stories"]
    assert (story["had_gpu"], story["had_gpu_trouble"]) == (["work/side-0", "work/train-0"], "")
    assert story["pods"] == []


async def test_a_gpu_that_no_pod_had_is_told_as_that_and_unknown_is_not_none() -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    async with fleet.running() as controller:
        free, unknown = fleet.fault(48, pods_follow=True), fleet.fault(48, pci=GPU_B)
        fleet.tenants(free)
        await fleet.go(controller, rounds=5)
    assert "had GPU  no pod" in (await told(fleet, "why", f"c-{free}")).splitlines()
    said = "had GPU  not known: the kubelet was not asked"
    assert said in (await told(fleet, "why", f"c-{unknown}")).splitlines()
    (story,) = (await ask(fleet, "why", f"c-{unknown}", "--json")).object()["stories"]
    assert (story["had_gpu"], story["had_gpu_trouble"]) == ([], "the kubelet was not asked")


async def test_a_pod_of_which_only_the_uid_is_known_is_told_by_it_and_not_beside_its_name() -> None:
    holders = [{"pid": pid, "pod": {"uid": uid}} for pid, uid in enumerate(("u-1", "u-2"), 1)]
    pods = [{"namespace": "work", "name": "train-0", "uid": "u-1"}]
    seen = fault_glance({"metadata": {}, "spec": {"holders": holders}, "status": {"pods": {"pods": pods}}})
    assert seen.pods == ("work/train-0", "UID u-2")


async def test_the_report_tells_what_was_done_and_what_held_the_rest_back() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE, approval=True)
    async with fleet.running() as controller:
        waits, done = fleet.fault(48), fleet.fault(79, pci=GPU_B)
        await fleet.go(controller, rounds=2)
        fleet.order(f"c-{done}", what="approve", by="alice")
        await fleet.until(controller, lambda: fleet.taint() is not None)
    value = (await ask(fleet, "report", "--json")).object()
    came = {one["case"]: (one["came"], one["why"]) for one in value["cases"]}
    assert came[f"c-{done}"][0] == "taken out"
    assert came[f"c-{waits}"] == ("waits", "Waits for a person's word: approve it.")


async def test_a_while_without_faults_is_said_to_be_one() -> None:
    fleet = a_fleet()
    assert "no fault was told of since then" in await told(fleet, "report", "--since", "2h")


async def test_a_lost_node_has_a_story_without_a_line_and_can_be_said_to_be_off() -> None:
    fleet = LosingFleet(terms=LOSING)
    fleet.node("gpu-1")
    fleet.answer("gpu-1")
    fleet.pod("train-0")
    async with fleet.running() as controller:
        await fleet.lived(controller, 3)
        fleet.lose("gpu-1")
        await fleet.in_state(controller, CaseState.PARKED)
        (case,) = (one.id for one in fleet.of_nodes())
        out = await told(fleet, "why", "gpu-1")
        assert "where    gpu-1, the whole node" in out
        assert "line     it is no line of a log: the node does not answer" in out
        assert "row      node_lost; `gpuward explain node_lost` tells all of it" in out
        assert f"{case}  P0 parked  gpu-1  since" in await told(fleet, "status")
        answer = await ask(fleet, "off", case, controller=controller)
        assert (answer.code, "its pods may be deleted, unless the node answers" in answer.out) == (0, True)
        await fleet.until(controller, lambda: fleet.pods() == [])


async def test_only_a_lost_node_is_said_to_be_off() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=3)
    with pytest.raises(Refused, match="only a lost node can be said to be off"):
        await ask(fleet, "off", f"c-{fault}")


async def test_a_job_that_was_told_to_save_is_named_with_its_time() -> None:
    fleet = a_fleet()
    fleet.pod("train-1", labels={CHECKPOINT: "yes"}, ownerReferences=fleet.owner(JOBS, "train"))
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: bool(fleet.gpu_cases()) and bool(noticed(fleet)))
        await fleet.go(controller, rounds=2)
    out = await told(fleet, "why", f"c-{fault}")
    assert "told     " in out
    assert "to save" in out
    (notice,) = (await ask(fleet, "why", f"c-{fault}", "--json")).object()["stories"][0]["notices"]
    assert notice["job"].split("/") == ["Job", "work", "train"]
    assert set(notice) == {"job", "generation", "issued", "deadline", "told_at", "told", "untold", "withdrawn_at"}


async def test_jobs_that_a_case_does_not_tell_are_named_wherever_it_is_shown() -> None:
    fleet = a_fleet()
    for number in range(MOST_JOBS + 1):
        owner = fleet.owner(JOBS, f"job-{number:02}")
        fleet.pod(f"job-{number:02}-0", labels={CHECKPOINT: "true"}, ownerReferences=owner)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: bool(noticed(fleet)))
        await fleet.go(controller, rounds=2)
    said = f"1 further job that asked for it is not told, for a case tells {MOST_JOBS} at most: Job work/job-"
    for words in (("why", f"c-{fault}"), ("cases",), ("status",)):
        assert said in await told(fleet, *words)
    (story,) = (await ask(fleet, "why", f"c-{fault}", "--json")).object()["stories"]
    (case,) = (await ask(fleet, "cases", "--json")).object()["cases"]
    assert story["passed_over"].startswith(said)
    assert case["passed_over"] == story["passed_over"]


def noticed(fleet: Fleet) -> tuple[Noticed, ...]:
    return tuple(one for case in fleet.gpu_cases() if case.status is not None for one in case.status.noticed)


def test_a_gpu_whose_uuid_is_not_known_is_not_the_one_at_another_address() -> None:
    gpus = [{"index": 0, "pci": GPU_A}, {"index": 1, "pci": GPU_B}]
    node = node_glance({"metadata": {"name": "gpu-1"}, "status": {"gpus": gpus}})
    found = node.gpu_named("", pci=GPU_B)
    assert found is not None
    assert found.index == 1
