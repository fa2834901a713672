"""With `sick-gpu` only the pods of the sick GPU go: those that its agent names, by UID or by name, once it has told."""

from dataclasses import replace

import pytest

from gpuward.controller.tenants import AWAITED_SECONDS, tenants_of
from gpuward.isolation.evacuation import EvictionTerms, Scope
from gpuward.model.case import CaseState, EffectKind
from gpuward.model.objects.gpu_fault import FaultHolder, FaultPod, FaultPods, FaultStatus, GpuFault, PodRef, gpu_fault
from gpuward.model.pod import PodSight, pod_of
from gpuward.model.resource import PODS
from tests.controller.fleet import REPAIRING, Fleet
from tests.kit.merging import GPU_B, told, xid

SICK_ONLY = EvictionTerms(scope=Scope.SICK_GPU, deadline_seconds=30.0)


@pytest.fixture
def fleet() -> Fleet:
    """Return a fleet of one node with two pods, each on a GPU of its own."""
    fleet = Fleet(terms=replace(REPAIRING, eviction=SICK_ONLY))
    fleet.node("gpu-1")
    fleet.pod("sick-0")
    fleet.pod("well-0")
    return fleet


async def test_a_pod_that_is_known_by_its_name_only_goes_and_the_other_one_stays(fleet: Fleet) -> None:
    async with fleet.running() as controller:
        fault = fleet.fault(48, pods_follow=True)
        fleet.tenants(fault, FaultPod("work", "sick-0"))
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.pods() == ["work/well-0"])
        await fleet.settled(controller, fault, CaseState.EVACUATING)
    assert fleet.pods() == ["work/well-0"]
    assert fleet.case(fault).victims == ("work/sick-0",)


async def test_no_pod_goes_before_the_agent_has_told_whose_gpu_it_was_and_then_the_right_one_does(fleet: Fleet) -> None:
    async with fleet.running() as controller:
        fault = fleet.fault(48, pods_follow=True)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=20)
        assert fleet.case(fault).state in {CaseState.SAVING, CaseState.EVACUATING}
        assert fleet.pods() == ["work/sick-0", "work/well-0"]
        uid = fleet.get(PODS, "sick-0", space="work")["metadata"]["uid"]
        fleet.tenants(fault, FaultPod("work", "sick-0", uid))
        await fleet.until(controller, lambda: fleet.pods() == ["work/well-0"])


async def test_a_gpu_on_which_nothing_runs_is_not_repaired_before_the_agent_has_told_whose_it_is(fleet: Fleet) -> None:
    agent = fleet.agents["gpu-1"]
    agent.work = ()
    async with fleet.running() as controller:
        fault = fleet.fault(48, pods_follow=True)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=20)
        assert fleet.case(fault).state in {CaseState.SAVING, CaseState.EVACUATING}
        assert EffectKind.RESET not in [what for _, what in agent.done]
        fleet.tenants(fault, FaultPod("work", "sick-0"))
        await fleet.until(controller, lambda: fleet.pods() == ["work/well-0"])


async def test_an_agent_that_never_tells_is_not_waited_for_for_ever(fleet: Fleet) -> None:
    async with fleet.running() as controller:
        fault = fleet.fault(48, pods_follow=True)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=int(AWAITED_SECONDS) + 5)
    assert fleet.case(fault).victims == ()
    assert fleet.pods() == ["work/sick-0", "work/well-0"]


async def test_an_idle_p1_is_not_drained_before_its_agent_has_told_whose_it_is_nor_while_that_pod_is_there() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.pod("train-0")
    fleet.agents["gpu-1"].work = ()
    async with fleet.running() as controller:
        fault = fleet.fault(31, pods_follow=True)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=10)
        assert fleet.case(fault).state is CaseState.FENCED
        fleet.tenants(fault, FaultPod("work", "train-0"))
        await fleet.go(controller, rounds=10)
        assert fleet.case(fault).state is CaseState.FENCED
        fleet.server.delete(PODS, "train-0", namespace="work", grace_seconds=0)
        await fleet.settled(controller, fault, CaseState.CLOSED)


async def test_the_whole_node_is_vacated_without_waiting_for_the_kubelet() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.pod("sick-0")
    fleet.pod("well-0")
    async with fleet.running() as controller:
        fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=8)
    assert fleet.pods() == []


# --- which pods those are -------------------------------------------------------------------------------------------


def _pod(name: str, uid: str) -> PodSight:
    return pod_of({"metadata": {"namespace": "ml", "name": name, "uid": uid}})


def _fault(cursor: str, *pods: FaultPod, holders: tuple[FaultHolder, ...] = ()) -> GpuFault:
    (one,) = told([xid(48, 0.0, cursor=cursor)]).faults
    fault = gpu_fault(one, "gpu-1", holders=holders)
    return replace(fault, status=FaultStatus(pods=FaultPods(1.0, pods)))


async def test_who_has_the_gpu_is_told_by_uid_before_name_and_by_name_for_faults_of_the_case_only(fleet: Fleet) -> None:
    async with fleet.running() as controller:
        name = fleet.fault(48, pods_follow=True)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
    case = replace(fleet.case(name), fault="gpu-1.b1.k7")
    pods = [_pod("a", "u-a"), _pod("b", "u-b"), _pod("c", "u-c"), _pod("d", "u-d")]
    own = replace(_fault("k7", FaultPod("ml", "a"), FaultPod("ml", "b", "an-earlier-b")))
    own = replace(own, head=replace(own.head, name="gpu-1.b1.k7"))
    older = _fault("k1", FaultPod("ml", "d"), holders=(FaultHolder(1, pod=PodRef(uid="u-c")),))
    elsewhere = replace(older, spec=replace(older.spec, gpu=GPU_B, holders=(FaultHolder(1, pod=PodRef(uid="u-d")),)))
    assert tenants_of(case, pods, [own], now=0.0) == frozenset({"u-a"})
    assert tenants_of(case, pods, [own, older, elsewhere], now=0.0) == frozenset({"u-a", "u-c"})
    untold = replace(own, spec=replace(own.spec, pods_follow=True), status=None)
    assert tenants_of(case, pods, [replace(own, status=None)], now=case.opened_at) == frozenset()
    assert tenants_of(case, pods, [untold], now=case.opened_at + AWAITED_SECONDS - 1) is None
    assert tenants_of(case, pods, [untold], now=case.opened_at + AWAITED_SECONDS) == frozenset()
