"""A Node that is deleted and made anew under its name: what was begun of the old one goes on only where it may."""

from collections.abc import Mapping

from gpuward.model.case import CaseState, EffectKind
from gpuward.model.objects.standby_pool import Promotion, read_standby_pool
from gpuward.model.resource import JOBS, NODES, STANDBY_POOLS
from tests.controller.fleet import Fleet
from tests.controller.losing import LOSING, LosingFleet
from tests.kit.merging import GPU_A

STANDING_BY = {"key": "gpuward.io/standby", "effect": "NoSchedule"}
RESERVED = "gpuward.io/reserved-for"


def renew(fleet: Fleet, name: str, *taints: Mapping[str, str], ready: str = "True") -> None:
    """Let somebody delete a Node, and its kubelet, or that of another machine, make it anew."""
    labels = fleet.get(NODES, name)["metadata"]["labels"]
    fleet.server.delete(NODES, name)
    since = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-09-21T14:15:20Z"}
    metadata = {"name": name, "labels": labels}
    body = {"metadata": metadata, "spec": {"taints": list(taints)}, "status": {"conditions": [since]}}
    fleet.server.create(NODES, body)


def promotions(fleet: Fleet) -> tuple[Promotion, ...]:
    status = read_standby_pool(fleet.get(STANDBY_POOLS, "h100")).status
    return () if status is None else status.promoted


async def test_the_same_machine_is_fenced_again_while_its_case_evicts_and_nothing_is_ordered_twice() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.pod("train-0")
    fleet.frozen_pods.add("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.EVACUATING)
        renew(fleet, "gpu-1")
        await fleet.go(controller, rounds=3)
        assert fleet.taint() == "xid-79"
        assert fleet.case_state(fault) is CaseState.EVACUATING
    done = [what for _, what in fleet.agents["gpu-1"].done]
    assert sorted(done) == sorted({EffectKind.EVIDENCE, EffectKind.DRAIN})


async def test_another_machine_of_that_name_does_no_order_that_was_meant_for_the_first_and_is_not_reset() -> None:
    fleet = Fleet()
    agent = fleet.node("gpu-1")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        repairing = {CaseState.VACATED, CaseState.REPAIRING}
        await fleet.until(controller, lambda: fleet.case_state(fault) in repairing)
        agent.busy = True
        await fleet.until(controller, lambda: "pause" in fleet.orders())
        renew(fleet, "gpu-1")
        agent.boots("b2")
        agent.uuids[GPU_A] = "GPU-of-another-machine"
        agent.busy = False
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert "is not GPU-" in case.because
    assert not {EffectKind.PAUSE, EffectKind.RESET} & {what for _, what in agent.done}


async def test_a_reservation_is_not_put_on_the_new_node() -> None:
    fleet = Fleet()
    fleet.node("gpu-1", obstacles={GPU_A: "It fell off the bus."})
    fleet.node("spare", taints=(STANDING_BY,))
    fleet.pool()
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
        assert RESERVED in fleet.taints("spare")
        renew(fleet, "spare")
        await fleet.go(controller, rounds=5)
        assert RESERVED not in fleet.taints("spare")
        await fleet.time.pass_by(310)
        await fleet.go(controller)
    assert promotions(fleet)[0].freed_at is not None


async def test_the_end_of_a_reservation_takes_none_off_that_the_new_node_has_for_another_case() -> None:
    fleet = Fleet()
    for name in ("gpu-1", "gpu-2"):
        fleet.node(name)
    fleet.node("a-spare", taints=(STANDING_BY,))
    fleet.pool()
    async with fleet.running() as controller:
        for number, name in enumerate(("gpu-1", "gpu-2")):
            fleet.pod(f"train-{number}", name, ownerReferences=fleet.owner(JOBS, f"train-{number}"))
            fault = fleet.fault(48, name)
            await fleet.time.pass_by(0.1)
            await fleet.settled(controller, fault, CaseState.CLOSED)
            if not number:
                await fleet.time.pass_by(200)
                renew(fleet, "a-spare", STANDING_BY)
                await fleet.go(controller)
        first, second = promotions(fleet)
        assert (first.node, second.node) == ("a-spare", "a-spare")
        await fleet.time.pass_by(first.at + 310 - fleet.time.now())
        await fleet.go(controller)
        assert promotions(fleet)[0].freed_at is not None
        assert fleet.taints("a-spare")[RESERVED] == second.job
        await fleet.time.pass_by(300)
        await fleet.go(controller)
    assert RESERVED not in fleet.taints("a-spare")


async def test_how_long_the_old_node_was_away_does_not_count_for_the_new_one() -> None:
    fleet = LosingFleet()
    fleet.node("gpu-1")
    for name in ("gpu-2", "gpu-3"):
        fleet.node(name)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.lived(controller, LOSING.lost_seconds - 2)
        renew(fleet, "gpu-1", ready="False")
        await fleet.lived(controller, LOSING.lost_seconds - 2)
        assert fleet.gpu_cases() == []
        await fleet.lived(controller, 6)
    assert len(fleet.of_nodes()) == 1
