"""The controller killed at each of its calls while jobs are told: each pod is told one thing, the end is the same."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind, Order
from gpuward.model.objects.owned import NOTICE
from gpuward.model.resource import PODS, Resource
from gpuward.ports import Cluster
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.test_killed_anywhere import check_it_lives
from tests.controller.test_notices import TERMS, Jobs
from tests.kit.merging import GPU_A

ROUNDS = 24
FOREVER = 10_000
Told = dict[str, list[str]]


def a_fleet(*, released: bool) -> tuple[Jobs, str, Told]:
    """Return a fleet with a job on three nodes one of which falls ill, and what its pods were told in turn."""
    fleet = Jobs(eviction=replace(TERMS.eviction, save_seconds=60.0 if released else 6.0))
    fleet.agents["gpu-1"].obstacles[GPU_A] = "It fell off the bus."
    fleet.job_set("llm", ("gpu-1", "gpu-2", "gpu-3"))
    fleet.job("plain", () if released else ("gpu-1",), opted=False)
    told: Told = defaultdict(list)
    real = fleet.server.patch

    def noted(resource: Resource, name: str, operations: Any, **how: Any) -> Any:
        made = real(resource, name, operations, **how)
        if resource is PODS:
            told[name].append(made["metadata"]["annotations"][NOTICE])
        return made

    fleet.server.patch = noted  # type: ignore[method-assign]  # only noted
    return fleet, fleet.fault(79), told


async def lived(fleet: Jobs, fault: str, cluster: Cluster, *, released: bool) -> None:
    """Let the fleet live with a controller on `cluster`, and with another from when that dies."""
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                check_it_lives(controller)
                for _ in range(ROUNDS):
                    is_told = fleet.case_state(fault) is CaseState.SAVING and fleet.notice("llm-2-0") is not None
                    if released and is_told and not fleet.whole(fault).spec.orders:
                        fleet.order(fleet.case(fault).id, what=str(Order.RELEASE))
                    await fleet.go(controller)
        except Died:
            continue
        return


def ended(fleet: Jobs, fault: str) -> Any:
    """Return what the fleet has come to, but for times, and for how many were told when a release came."""
    status = fleet.whole(fault).status
    assert status is not None
    case = fleet.case(fault)
    noticed = [(str(one.job), one.generation, one.persist, one.untold) for one in status.noticed]
    notices = {pod: fleet.notice(pod.partition("/")[2]) for name in fleet.agents for pod in fleet.pods(name)}
    pods = {pod: None if one is None else (one.verb, one.generation) for pod, one in notices.items()}
    effects = [(one.kind, one.outcome) for one in case.effects if one.kind is not EffectKind.NOTICE]
    return case.state, effects, [victim.pod for victim in status.victims], noticed, pods, fleet.taints("gpu-1")


async def test_left_alone_it_comes_to_its_end() -> None:
    fleet, fault, told = a_fleet(released=False)
    await lived(fleet, fault, fleet.cluster, released=False)
    assert fleet.case_state(fault) is CaseState.PARKED
    assert {pod: len(notices) for pod, notices in told.items()} == dict.fromkeys(("llm-0-0", "llm-1-0", "llm-2-0"), 1)
    assert fleet.pods("gpu-1") == []


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("released", [False, True], ids=["evicted", "released"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_each_pod_is_told_one_thing(after: bool, released: bool) -> None:  # noqa: FBT001  rows
    fleet, fault, _ = a_fleet(released=released)
    cluster = MortalCluster(fleet.cluster, last=FOREVER, after=False)
    await lived(fleet, fault, cluster, released=released)
    calls, end = cluster.calls, ended(fleet, fault)
    assert calls > 30
    for last in range(1, calls + 1):
        fleet, fault, told = a_fleet(released=released)
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        await lived(fleet, fault, cluster, released=released)
        assert cluster.is_dead
        assert ended(fleet, fault) == end, f"killed at call {last}"
        assert all(len(notices) == len(set(notices)) for notices in told.values()), f"killed at call {last}"
