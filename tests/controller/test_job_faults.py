"""An application fault on many GPUs of one job, on a pretend fleet: it is held, and the nodes stay in service."""

from dataclasses import replace

from gpuward.model.case import CaseState, Mode
from gpuward.model.objects.gpu_case import GpuCase
from gpuward.model.resource import JOBS
from tests.controller.fleet import REPAIRING, Fleet


def a_fleet() -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, mode=Mode.ISOLATE))
    train = fleet.owner(JOBS, "train")
    for number in range(4):
        fleet.node(f"gpu-{number}")
        fleet.pod(f"train-{number}", f"gpu-{number}", ownerReferences=train)
    return fleet


def fails(fleet: Fleet, number: int) -> str:
    """Let the pod of the job on a node fail at its GPU."""
    return fleet.fault(31, f"gpu-{number}", pods=(f"train-{number}",))


def saved(fleet: Fleet, fault: str) -> GpuCase:
    (found,) = [one for one in fleet.gpu_cases() if one.spec.fault == fault]
    return found


async def test_a_job_that_fails_on_three_nodes_at_once_takes_none_of_them_away() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        faults = [fails(fleet, number) for number in range(3)]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert [fleet.case(one).because for one in faults] == [
            "Left alone: xid:31 came on 3 GPUs of Job work/train, so it is that job's own fault and not the hardware's."
        ] * 3
        assert {fleet.taint(f"gpu-{number}") for number in range(4)} == {None}
        assert [job.name for job in saved(fleet, faults[0]).spec.jobs] == ["train"]
        for one in faults:
            fleet.end_fault(one)
        await fleet.go(controller, rounds=3)
        assert {fleet.case_state(one) for one in faults} == {CaseState.WITHDRAWN}


async def test_nodes_that_were_tainted_for_the_first_of_them_are_given_back() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        first = [fails(fleet, number) for number in range(2)]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        assert [fleet.taint("gpu-0"), fleet.taint("gpu-1")] == ["xid-31", "xid-31"]
        fails(fleet, 2)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=6)
        assert {fleet.taint(f"gpu-{number}") for number in range(4)} == {None}
        assert [fleet.case_state(one) for one in first] == [CaseState.WITHDRAWN] * 2


async def test_another_controller_knows_it_from_the_cases_when_the_pods_are_gone() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        faults = [fails(fleet, number) for number in range(3)]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
    for number in range(3):
        fleet.remove_pod(f"train-{number}")
    async with fleet.running() as other:
        await fleet.go(other, rounds=4)
    assert {fleet.case_state(one) for one in faults} == {CaseState.SUSPECT}
    assert {fleet.taint(f"gpu-{number}") for number in range(4)} == {None}


async def test_one_node_that_goes_on_alone_after_the_others_is_the_hardwares() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        faults = [fails(fleet, number) for number in range(3)]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        for one in faults[:2]:
            fleet.end_fault(one)
        await fleet.go(controller, rounds=3)
        assert fleet.case_state(faults[2]) is CaseState.SUSPECT
        await fleet.time.pass_by(600.0)
        await fleet.go(controller, rounds=3)
        assert fleet.taint("gpu-2") == "xid-31"
