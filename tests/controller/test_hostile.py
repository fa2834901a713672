"""What others write, meant ill or broken by hand: it holds up its own node, and is told; all others get their help."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.controller.gather import Due, Gathered, Gatherer
from gpuward.controller.heed import DEFECT, MOST_FAULTS, MOST_JUDGED, MOST_SAID, node_of_case
from gpuward.controller.loop import Controller
from gpuward.isolation.decide import MOST_OPEN, MOST_STRANGERS
from gpuward.model.case import CaseState, EffectKind, Mode, Outcome
from gpuward.model.job import JobRef
from gpuward.model.objects.gpu_fault import gpu_fault, write_gpu_fault
from gpuward.model.objects.values import write
from gpuward.model.pod import owner_of
from gpuward.model.resource import CONFIG_MAPS, GPU_CASES, GPU_FAULTS, GPU_NODES, JOBS, STANDBY_POOLS, Resource
from gpuward.ports import Object, Refused
from tests.controller.fleet import NOW, REPAIRING, Fleet
from tests.kit.merging import GPU_A, GPU_B, told, xid

STANDBY = {"key": "gpuward.io/standby", "effect": "NoSchedule"}
"""The taint of a node that stands by."""


def a_fleet(*nodes: str, **terms: Any) -> Fleet:
    """Return a fleet whose gpu-1 is the enemy's."""
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    for name in ("gpu-1", *nodes):
        fleet.node(name)
    return fleet


def tell(fleet: Fleet, cursor: str, *, code: int = 79, pci: str = GPU_A, node: str = "gpu-1", **spec: Any) -> str:
    """Write a fault as an agent would that tells whatever it likes."""
    (one,) = told([xid(code, fleet.time.now() - NOW + 100.0, pci=pci, cursor=cursor)]).faults
    written = write_gpu_fault(gpu_fault(one, node))
    fleet.server.create(GPU_FAULTS, {**written, "spec": written["spec"] | spec})
    return str(written["metadata"]["name"])


def put_status(fleet: Fleet, resource: Resource, name: str, value: Any) -> None:
    """Write a status, as its writer would."""
    fleet.server.patch(resource, name, [{"op": "add", "path": "/status", "value": value}], subresource="status")


async def help_comes(fleet: Fleet, controller: Controller, node: str = "gpu-2") -> None:
    """Assert that another node is isolated in the round after its fault came."""
    fleet.fault(79, node)
    await fleet.time.pass_by(0.1)
    await fleet.time.run(controller.round())
    assert fleet.taint(node) == "xid-79", controller.newest.troubles


# --- what cannot be read ----------------------------------------------------------------------------------------------


async def test_a_fault_that_cannot_be_read_is_told_and_stops_neither_the_others_nor_the_housekeeping() -> None:
    fleet = a_fleet("gpu-2", "gpu-3", fault_seconds=60.0)
    tell(fleet, "k900", details="this is no JSON")
    async with fleet.running() as controller:
        await help_comes(fleet, controller)
        (said,) = [one for one in controller.newest.troubles if "k900" in one]
        assert said.startswith("GPUFault gpu-1.b1.k900 cannot be read: spec.details is not JSON")
        assert "distrust the node" in said
        assert fleet.taint("gpu-1") is None, "nobody knows what it says"
        old, theirs = fleet.fault(13, "gpu-3"), fleet.fault(13, "gpu-1")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
        for one in (old, theirs):
            fleet.end_fault(one)
    await fleet.time.pass_by(2 * 86_400.0)
    async with fleet.running() as controller:
        await fleet.time.run(controller.pruner.sweep())
        assert fleet.server.get(GPU_FAULTS, old) is None, "of another node"
        assert fleet.server.get(GPU_FAULTS, theirs) is not None, "of a node of which not all can be read"


async def test_of_many_things_that_cannot_be_read_some_are_named() -> None:
    fleet = a_fleet()
    for number in range(MOST_SAID + 3):
        tell(fleet, f"k{900 + number}", details="{")
    async with fleet.running() as controller:
        await fleet.go(controller)
    assert len(controller.newest.troubles) == MOST_SAID + 1
    assert "3 more objects of kind GPUFault cannot be read" in controller.newest.troubles


async def test_a_case_that_cannot_be_read_keeps_the_marks_of_its_own_node_and_no_other() -> None:
    # A node may be called as another one begins.
    fleet = a_fleet("gpu-1.rack-2", "gpu-2", mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        faults = [fleet.fault(79, node) for node in ("gpu-1", "gpu-1.rack-2")]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=6)
        for fault in faults:
            case = fleet.get(GPU_CASES, f"c-{fault}")
            if fault.startswith("gpu-1.b1."):
                put_status(fleet, GPU_CASES, f"c-{fault}", {**case["status"], "since": "2026-11-30T03:12:07+99:99"})
            else:
                fleet.server.delete(GPU_CASES, f"c-{fault}")
                fleet.server.delete(GPU_FAULTS, fault)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.taint("gpu-1") == "xid-79", "what was done there is not known"
        assert fleet.taint("gpu-1.rack-2") is None, "no case of that one asks for it"
        assert any(said.startswith(f"GPUCase c-{faults[0]} cannot be read") for said in controller.newest.troubles)
        await help_comes(fleet, controller)


@pytest.mark.parametrize(
    ("case", "node"),
    [
        ("c-gpu-1.b1.k7", "gpu-1"),
        ("c-gpu-1.b1.k7-2", "gpu-1"),
        ("c-a.b.c.b1.k7", "a.b.c"),
        ("c-gpu-1.drill.x1", "gpu-1"),
        ("mine", ""),
        ("c-x.y", ""),
    ],
)
def test_a_cases_name_tells_its_node_as_a_whole(case: str, node: str) -> None:
    assert node_of_case(case) == node


async def test_a_node_of_which_nothing_can_be_read_is_unknown_and_not_healthy() -> None:
    fleet = a_fleet("gpu-2")
    fleet.agents["gpu-1"].silent = True
    status = fleet.get(GPU_NODES, "gpu-1")["status"]
    put_status(
        fleet, GPU_NODES, "gpu-1", {**status, "orders": [{"id": "x", "outcome": "done", "at": "0000-01-01T00:00:00Z"}]}
    )
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        condition = fleet.condition()
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("Unknown", "GPUsUnseen")
        assert "cannot be read" in condition["message"]
        await help_comes(fleet, controller)


# --- a flood ----------------------------------------------------------------------------------------------------------


async def test_a_flood_of_addresses_opens_few_cases_and_keeps_nobody_waiting() -> None:
    fleet = a_fleet("gpu-2")
    fleet.agents["gpu-1"].silent = True
    for number in range(1000):
        tell(fleet, f"k{10_000 + number}", pci=f"{number:04x}:77:00")
    async with fleet.running() as controller:
        await help_comes(fleet, controller)
        await fleet.go(controller, rounds=3)
        on_gpu_1 = [case for case in fleet.gpu_cases() if case.spec.node == "gpu-1"]
        assert len(on_gpu_1) == MOST_STRANGERS, "the server has no GPU at any of these"
        assert any(f"1000 faults, of which {MOST_FAULTS} are looked at" in said for said in controller.newest.troubles)


async def test_where_nobody_knows_which_gpus_a_node_has_it_has_as_many_cases_as_a_server_could() -> None:
    fleet = a_fleet("gpu-2")
    fleet.agents["gpu-1"].gpus = ()
    fleet.move()
    for number in range(100):
        tell(fleet, f"k{10_000 + number}", pci=f"{number:04x}:77:00")
    async with fleet.running() as controller:
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
        await help_comes(fleet, controller)
    assert len([case for case in fleet.gpu_cases() if case.spec.node == "gpu-1"]) == MOST_OPEN


async def test_a_flood_on_one_gpu_is_judged_bit_by_bit_and_its_real_fault_first() -> None:
    fleet = a_fleet("gpu-2")
    for number in range(400):
        tell(fleet, f"k{10_000 + number}", code=13, pci=GPU_B)
    real = fleet.fault(79)
    async with fleet.running() as controller:
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
        assert fleet.taint() == "xid-79"
        judged = [
            one["metadata"]["name"] for one in fleet.server.list(GPU_FAULTS).items if "judged" in one.get("status", {})
        ]
        assert len(judged) == MOST_JUDGED
        await help_comes(fleet, controller)
        await fleet.go(controller, rounds=8)
        assert not [one for one in fleet.server.list(GPU_FAULTS).items if "judged" not in one.get("status", {})]
    assert fleet.judged_case(real) == f"c-{real}"


async def test_one_node_is_given_one_standby_however_many_of_its_gpus_fail() -> None:
    fleet = a_fleet("spare-1", "spare-2", mode=Mode.ISOLATE)
    for name in ("spare-3", "spare-4"):
        fleet.node(name, taints=(STANDBY,))
    fleet.pool(size=2)
    async with fleet.running() as controller:
        faults = [fleet.fault(79, pci=GPU_A), fleet.fault(79, pci=GPU_B)]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=20)
        cases = [fleet.case(fault) for fault in faults]
        assert [case.state for case in cases] == [CaseState.PARKED, CaseState.PARKED]
        told = {one.why for case in cases for one in case.effects if one.kind is EffectKind.PROMOTE}
        assert told == {"node spare-3 was released for its work"}, "and it stands for both cases"
    assert [name for name in ("spare-3", "spare-4") if STANDBY["key"] not in fleet.taints(name)] == ["spare-3"]


async def test_false_alarms_do_not_use_up_the_nodes_that_stand_by() -> None:
    fleet = a_fleet()
    fleet.node("spare-1", taints=(STANDBY,))
    fleet.pool(size=1)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31, pods=("train-0",))
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.FENCED)
        assert STANDBY["key"] not in fleet.taints("spare-1")
        fleet.take_back(fault)
        await fleet.settled(controller, fault, CaseState.WITHDRAWN)
        await fleet.until(controller, lambda: STANDBY["key"] in fleet.taints("spare-1"), rounds=400)
        await fleet.until(controller, lambda: fleet.get(STANDBY_POOLS, "h100")["status"]["ready"] == ["spare-1"])
        (given,) = fleet.get(STANDBY_POOLS, "h100")["status"]["promoted"]
        assert "refilledAt" in given


# --- lies about others ------------------------------------------------------------------------------------------------


async def test_an_agent_has_no_say_about_the_pods_of_other_nodes() -> None:
    fleet = a_fleet("gpu-2", "gpu-3", mode=Mode.ISOLATE)
    owner, labels = fleet.owner(JOBS, "train"), {"batch.kubernetes.io/job-name": "train"}
    for node in ("gpu-2", "gpu-3"):
        fleet.pod(f"on-{node}", node, ownerReferences=owner, labels=labels)
    fleet.agents["gpu-1"].gpus = (GPU_A, GPU_B, "0000:11:00")
    async with fleet.running() as controller:
        await fleet.go(controller)
        for pci in (GPU_A, GPU_B, "0000:11:00"):
            fleet.fault(31, pci=pci, pods=("on-gpu-3",))
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        fault = fleet.fault(31, "gpu-2", pods=("on-gpu-2",))
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.taint("gpu-2") == "xid-31", fleet.case(fault).because
        assert not [case for case in fleet.gpu_cases() if case.spec.jobs and case.spec.node == "gpu-1"]


BAD_OWNERS = (
    {"uid": "no uid !"},
    {"uid": "x" * 300},
    {"uid": "a:b"},
    {"name": "../../secrets/x"},
    {"name": "a,b=c"},
    {"name": "Ünï"},
    {"name": "n" * 300},
    {"kind": "Job!"},
    {"kind": "K" * 300},
    {"apiVersion": "batch/v1/../x"},
    {"apiVersion": "a" * 5000},
)


@pytest.mark.parametrize("wrong", BAD_OWNERS, ids=lambda wrong: f"{next(iter(wrong))}")
async def test_a_pod_of_an_owner_that_nothing_is_called_holds_up_no_case(wrong: dict[str, str]) -> None:
    fleet = a_fleet()
    fleet.node("spare-1", taints=(STANDBY,))
    fleet.pool()
    labels = {"gpuward.io/checkpoint": "true"}
    bad = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1", "controller": True} | wrong
    # What has one owner that is there is not collected as garbage.
    keeps = {**fleet.owner(CONFIG_MAPS, "there")[0], "controller": False}
    fleet.pod("enemy", gpus=2, ownerReferences=[bad, keeps], labels=labels)
    fleet.pod(
        "train-0", ownerReferences=fleet.owner(JOBS, "train"), labels=labels | {"batch.kubernetes.io/job-name": "train"}
    )
    async with fleet.running() as controller:
        fault = fleet.fault(79, pods=("enemy",))
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
        assert controller.newest.troubles == ()
    (notice,) = [one for one in case.effects if one.kind is EffectKind.NOTICE]
    assert notice.outcome is Outcome.DONE
    assert "Job work/train was told to save, 1 of its pods" in notice.why
    assert fleet.pods() == []


@pytest.mark.parametrize("wrong", [{}, *BAD_OWNERS], ids=lambda wrong: f"{next(iter(wrong), 'none')}")
def test_an_owner_that_is_read_can_be_written_in_a_case(wrong: dict[str, str]) -> None:
    bad = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1", "controller": True} | wrong
    owner = owner_of({"metadata": {"ownerReferences": [bad]}})
    assert (owner is None) is bool(wrong)
    if owner is not None:
        write(JobRef(owner.kind, owner.api_version, "work", owner.name, owner.uid))


async def test_a_job_label_that_no_job_is_called_by_is_not_believed() -> None:
    fleet = a_fleet()
    fleet.pod("enemy", labels={"batch.kubernetes.io/job-name": "Not_A_Name", "gpuward.io/checkpoint": "true"})
    async with fleet.running() as controller:
        fault = fleet.fault(79, pods=("enemy",))
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    (notice,) = [one.why for one in case.effects if one.kind is EffectKind.NOTICE]
    assert notice == "Pod work/enemy was told to save, 1 of its pods."


@pytest.mark.parametrize(
    "note",
    ["[" * 100_000, "x" * 200_000, "null", '"\\ud800"', '{"generation":1e999}', "9" * 5000, '{"a":' * 5000, '{"id":7}'],
    ids=range(8),
)
async def test_a_notice_that_is_none_is_nobodys_and_is_replaced(note: str) -> None:
    fleet = a_fleet()
    fleet.pod("train-0", labels={"gpuward.io/checkpoint": "true"}, annotations={"gpuward.io/notice": note})
    async with fleet.running() as controller:
        fault = fleet.fault(79, pods=("train-0",))
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    assert "Pod work/train-0 was told to save, 1 of its pods." in [one.why for one in case.effects]


# --- an error that nobody has foreseen --------------------------------------------------------------------------------


async def test_an_unforeseen_error_holds_up_its_own_node_and_says_so() -> None:
    fleet = a_fleet("gpu-2")
    cluster = fleet.cluster
    fleet.pod("train-0")

    class Faulty:
        """The cluster, with answers about the pods of one node that nothing here was made for."""

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

        async def list(self, resource: Resource, **asked: Any) -> Any:
            if "gpu-1" in asked.get("fields", ""):
                raise KeyError("spec")
            return await cluster.list(resource, **asked)

    async with fleet.running(Faulty()) as controller:
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
        await help_comes(fleet, controller)
        assert f"gpu-1: {DEFECT}: KeyError('spec')" in controller.newest.troubles
        assert fleet.defects
        fleet.defects.clear()


@pytest.mark.parametrize("others", [(), ("gpu-2",)], ids=["alone", "beside another"])
async def test_an_unforeseen_error_on_a_node_whose_fault_has_just_come_is_told_in_each_round(
    monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    fleet = a_fleet("gpu-2")
    known = Gatherer._known  # noqa: SLF001  what fails

    async def fails(gatherer: Gatherer, node: Due) -> Gathered:
        if node.name == "gpu-1":
            raise KeyError("spec")
        return await known(gatherer, node)

    monkeypatch.setattr(Gatherer, "_known", fails)
    async with fleet.running() as controller:
        for node in ("gpu-1", *others):
            fleet.fault(79, node)
        await fleet.time.pass_by(0.1)
        for number in range(1, 4):
            await fleet.time.run(controller.round())
            assert [one for one in controller.newest.troubles if DEFECT in one] == [
                f"gpu-1: {DEFECT}: KeyError('spec')"
            ]
            assert len(fleet.defects) == number
        assert [fleet.taint(node) for node in others] == ["xid-79"] * len(others)
        fleet.defects.clear()


async def test_an_object_on_which_reading_fails_ends_no_mirror() -> None:
    fleet = a_fleet("gpu-2")
    async with fleet.running() as controller:
        mirror, read = controller.picture.nodes, controller.picture.nodes._read  # noqa: SLF001  a reader that fails

        def fails(found: Object) -> Any:
            if found["metadata"]["name"] == "gpu-1":
                raise KeyError("spec")
            return read(found)

        mirror._read = fails  # noqa: SLF001  as above
        fleet.label("gpu-1", "site/x", "y")
        await fleet.time.pass_by(0.1)
        await help_comes(fleet, controller)
        assert any(
            one.startswith(f"Node gpu-1 cannot be read: {DEFECT}: KeyError") for one in controller.newest.troubles
        )
        fleet.defects.clear()


async def test_what_may_not_be_taken_away_does_not_take_the_turn_of_the_rest() -> None:
    fleet = a_fleet("gpu-2", fault_seconds=60.0)
    cluster = fleet.cluster

    class Refusing:
        """The cluster, in which something refuses that a fault is deleted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

        async def delete(self, resource: Resource, name: str, **asked: Any) -> bool:
            if name.startswith("gpu-1."):
                raise Refused("a webhook says no")
            return await cluster.delete(resource, name, **asked)

    async with fleet.running(Refusing()) as controller:
        faults = [fleet.fault(13), fleet.fault(13, "gpu-2")]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
        for one in faults:
            fleet.end_fault(one)
    await fleet.time.pass_by(2 * 86_400.0)
    async with fleet.running(Refusing()) as controller:
        assert await fleet.time.run(controller.pruner.sweep()) == 1
    assert fleet.server.get(GPU_FAULTS, faults[1]) is None
