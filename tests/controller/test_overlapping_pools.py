"""Pools that share nodes: each node is of one of them, and a pool that goes without says which one counts."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.isolation.standby import Claim, claim_on
from gpuward.model.case import CaseState
from gpuward.model.objects.standby_pool import PoolStatus, Shape, read_standby_pool
from gpuward.model.resource import STANDBY_POOLS
from tests.controller.fleet import Fleet

STANDING_BY = ({"key": "gpuward.io/standby", "effect": "NoSchedule"},)
H100 = Shape("H100", 8)


def status_of(fleet: Fleet, pool: str) -> PoolStatus:
    status = read_standby_pool(fleet.get(STANDBY_POOLS, pool)).status
    assert status is not None
    return status


def a_fleet(**second: Any) -> Fleet:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.node("spare", taints=STANDING_BY)
    fleet.pool("first")
    fleet.pool("second", **second)
    return fleet


async def test_of_two_pools_alike_the_second_says_that_the_first_has_all_nodes() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller)
    assert status_of(fleet, "first").ready == ("spare",)
    second = status_of(fleet, "second")
    assert (second.ready, second.short) == ((), 1)
    assert second.because == ("0 of 1 stand by; StandbyPool first, the first by name, has every node of its shape")
    assert any(
        "Standby pool second: 0 of 1 stand by; StandbyPool first" in one.because for one in fleet.told.happenings
    )


async def test_a_node_that_wears_the_taint_of_another_pool_is_named_with_the_pool_that_it_is_of() -> None:
    fleet = Fleet()
    fleet.node("spare", taints=STANDING_BY)
    fleet.label("spare", "network.topology.nvidia.com/leaf", "b1")
    fleet.pool("first", fabricBlock="b1")
    fleet.pool("second")
    async with fleet.running() as controller:
        await fleet.go(controller)
    assert status_of(fleet, "first").ready == ("spare",)
    assert status_of(fleet, "second").because == (
        "0 of 1 stand by; spare is of StandbyPool first, the first by name of its shape"
    )


async def test_a_pool_counts_no_node_of_another_shape_that_wears_its_taint() -> None:
    fleet = a_fleet(product="NVIDIA-L4")
    async with fleet.running() as controller:
        await fleet.go(controller)
    assert status_of(fleet, "first").ready == ("spare",)
    assert (status_of(fleet, "second").ready, status_of(fleet, "second").short) == ((), 1)


async def test_a_pool_is_refilled_though_a_node_of_another_pool_wears_the_same_taint() -> None:
    fleet = a_fleet(product="NVIDIA-L4")
    fleet.node("other", taints=STANDING_BY)
    fleet.label("other", "nvidia.com/gpu.product", "NVIDIA-L4")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert status_of(fleet, "first").ready == ("gpu-1",)


async def test_a_node_of_no_pools_shape_that_stands_by_is_told() -> None:
    fleet = Fleet()
    fleet.node("spare", taints=STANDING_BY)
    fleet.pool("h100", product="H100")
    async with fleet.running() as controller:
        await fleet.go(controller)
    assert "spare has no pool's shape: 2 x NVIDIA-H100-80GB-HBM3" in status_of(fleet, "h100").because


@pytest.mark.parametrize(
    ("first", "second", "claim"),
    [
        (H100, H100, Claim("a", whole=True)),
        (H100, replace(H100, fabric_block="b1"), Claim("a", whole=True)),
        (replace(H100, fabric_block="b1"), replace(H100, driver="550"), Claim("a", whole=False)),
        (replace(H100, fabric_block="b1"), H100, None),
        (replace(H100, fabric_block="b1"), replace(H100, fabric_block="b2"), None),
        (H100, replace(H100, mig_layout="1g.10gb"), None),
        (H100, Shape("L4", 8), None),
    ],
)
def test_a_pool_before_another_claims_nodes_that_have_both_shapes(
    first: Shape, second: Shape, claim: Claim | None
) -> None:
    assert claim_on("b", {"a": first, "b": second}) == claim
    assert claim_on("a", {"a": first, "b": second}) is None
