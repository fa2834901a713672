"""What an agent tells the cluster: its status when it changed, each fault once, and all of it after an outage."""

from dataclasses import replace

import pytest

from gpuward.model.case import EffectKind, Mode
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_fault import PodRef
from gpuward.model.objects.gpu_node import GpuState, Health
from gpuward.model.resource import GPU_FAULTS, GPU_NODES
from gpuward.sim.cluster.network import Presence
from gpuward.sim.cluster.weather import Odds, SeededWeather
from tests.agent_member.node import BOOT, NODE, Node
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend_driver import a_holder, hung


async def test_the_object_is_made_without_a_spec_and_tells_every_gpu(node: Node) -> None:
    told = node.object()
    assert told.spec is None
    assert told.status is not None
    assert told.status.boot == BOOT
    assert told.status.mode is Mode.OBSERVE
    assert told.status.summary == "3 of 3 active"
    assert told.status.driver_version == "575.51.02"
    gpu = node.gpu()
    assert (gpu.state, gpu.health, gpu.minor, gpu.mig) == (GpuState.ACTIVE, Health.HEALTHY, 0, False)
    assert (gpu.uuid, gpu.model) == (node.driver.gpus[GPU_A].uuid, "NVIDIA H100 80GB HBM3")


async def test_nothing_is_written_while_nothing_changes_not_even_by_a_new_agent(node: Node) -> None:
    version = node.version()
    await node.live(30)
    await node.restart()
    await node.live(30)
    assert node.version() == version


async def test_the_mode_is_the_controllers_and_is_told_back(node: Node) -> None:
    node.want(mode=Mode.ISOLATE)
    await node.live(3)
    status = node.object().status
    assert status is not None
    assert status.mode is Mode.ISOLATE


async def test_that_the_lines_of_a_fault_go_on_is_told_now_and_then(node: Node) -> None:
    node.xid(48)
    await node.live(5)
    (first,) = node.faults()
    versions = set()
    for _ in range(60):
        node.xid(48)
        await node.live(1)
        versions.add(node.faults()[0].head.version)
    (fault,) = node.faults()
    assert fault.newest is not None
    assert first.spec.last.wall is not None
    assert (fault.newest.last.wall or 0.0) - first.spec.last.wall > 25
    assert 2 <= len(versions) <= 4, "not each line is told"


async def test_an_xid_is_a_fault_with_its_name_from_node_boot_and_cursor(node: Node) -> None:
    node.driver.held[0] = [replace(a_holder(4321, "train"), pod_uid="7d1f", container_id="c0ffee")]
    node.xid(79)
    await node.live(3)
    (fault,) = node.faults()
    assert fault.head.name == f"{NODE}.{BOOT}.k0"
    assert (fault.spec.code, fault.spec.gpu, fault.level) == (79, GPU_A, Level.P0)
    assert fault.spec.fault_class is FaultClass.HARDWARE
    assert [(one.pid, one.name, one.container_id) for one in fault.spec.holders] == [(4321, "train", "c0ffee")]
    assert [one.pod for one in fault.spec.holders] == [PodRef(uid="7d1f")]
    gpu = node.gpu()
    assert gpu.health is Health.FAULTY
    assert gpu.sight.work == ("train (pid 4321)",)


async def test_a_fault_that_only_goes_on_is_written_once(node: Node) -> None:
    node.xid(79)
    await node.live(3)
    (before,) = node.faults()
    node.xid(79)
    await node.live(10)
    (after,) = node.faults()
    assert before.head.version == after.head.version


async def test_evidence_that_changes_the_verdict_leaves_what_the_controller_wrote(node: Node) -> None:
    node.xid(45)
    await node.live(3)
    (told,) = node.faults()
    judged = {
        "at": "2026-11-30T10:00:00.000000Z",
        "level": str(told.level),
        "class": str(told.spec.fault_class),
        "seenLevel": str(told.level),
        "seenClass": str(told.spec.fault_class),
        "because": "it was judged",
    }
    operation = {"op": "add", "path": "/status", "value": {"judged": judged}}
    node.cluster.server.patch(GPU_FAULTS, told.head.name, [operation], subresource="status")
    node.xid(79)
    await node.live(20)
    after = next(one for one in node.faults() if one.head.name == told.head.name)
    assert after.status is not None
    assert after.status.judged is not None
    assert after.status.judged.because == "it was judged"
    assert after.newest is not None
    assert after.newest.verdict.explained_by is not None


async def test_how_a_fault_ends_makes_no_object_anew_that_was_pruned(node: Node) -> None:
    node.xid(45)
    await node.live(3)
    (fault,) = node.faults()
    await node.cluster.delete(GPU_FAULTS, fault.head.name)
    node.xid(79)
    await node.live(20)
    assert [one.spec.code for one in node.faults()] == [79]


async def test_a_finding_of_a_reading_is_a_fault_and_it_is_told_when_it_is_over(node: Node) -> None:
    healthy = node.driver.gpus[GPU_B]
    node.driver.gpus[GPU_B] = replace(healthy, remap=replace(healthy.remap, failed=True))
    await node.live(12)
    (fault,) = node.faults()
    assert fault.spec.gpu == GPU_B
    node.driver.gpus[GPU_B] = healthy
    await node.live(12)
    (fault,) = node.faults()
    assert fault.newest is not None
    assert fault.newest.over


async def test_what_came_while_the_api_was_away_is_told_when_it_is_back(node: Node) -> None:
    node.turn(Presence.AWAY)
    node.xid(31)
    node.xid(43, GPU_B)
    await node.live(60)
    node.turn(Presence.THERE)
    await node.live(60)
    assert [fault.spec.code for fault in node.faults()] == [31, 43]


async def test_what_came_while_the_api_was_away_survives_the_agent(node: Node) -> None:
    node.turn(Presence.AWAY)
    node.xid(31)
    await node.live(30)
    await node.restart()
    await node.live(30)
    node.turn(Presence.THERE)
    await node.live(60)
    assert [fault.spec.code for fault in node.faults()] == [31]


async def test_a_restart_tells_nothing_twice(node: Node) -> None:
    node.xid(31)
    await node.live(5)
    versions = [fault.head.version for fault in node.faults()]
    assert len(versions) == 1
    version = node.version()
    await node.restart()
    await node.live(30)
    assert [fault.head.version for fault in node.faults()] == versions
    assert node.version() == version


async def test_a_fault_that_was_pruned_is_not_made_anew_by_a_restart(node: Node) -> None:
    node.xid(31)
    await node.live(5)
    (fault,) = node.faults()
    await node.cluster.delete(GPU_FAULTS, fault.head.name)
    await node.restart()
    await node.live(10)
    assert node.faults() == []


@pytest.mark.parametrize("seed", range(8))
async def test_in_any_weather_it_tells_all_and_the_truth_once_it_is_calm(seed: int) -> None:
    node = Node()
    node.lead()
    odds = Odds(lost=0.2, unanswered=0.2, late=0.1, conflict=0.2, slow=0.2, breaks=0.3, behind=0.2, silent=0.1)
    calm = node.cluster
    node.cluster = replace(calm, weather=SeededWeather(seed, odds))
    await node.start()
    for code, pci in ((31, GPU_A), (43, GPU_B), (79, GPU_A), (63, GPU_B)):
        node.xid(code, pci)
        await node.live(40)
    await node.kill()
    node.cluster = calm
    await node.restart()
    await node.live(60)
    assert sorted(fault.spec.code or 0 for fault in node.faults()) == [31, 43, 63, 79]
    assert node.gpu().health is Health.FAULTY
    await node.end()


async def test_of_too_many_that_wait_the_mildest_go_first_and_it_is_said(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuward.agent.outbox.MOST_PARCELS", 2)
    node.turn(Presence.AWAY)
    for code, pci in ((43, GPU_A), (79, GPU_B), (79, GPU_A)):
        node.xid(code, pci)
        await node.live(2)
    await node.restart()
    node.turn(Presence.THERE)
    await node.live(60)
    assert [fault.spec.code for fault in node.faults()] == [79, 79]
    assert any("1 fault was not told" in warning for warning in node.warnings)


async def test_an_object_that_somebody_deleted_is_made_anew(node: Node) -> None:
    await node.cluster.delete(GPU_NODES, NODE)
    await node.live(10)
    assert node.object().status is not None
    assert node.gpu().state is GpuState.ACTIVE


async def test_history_is_told_only_when_a_reading_confirms_it() -> None:
    node = Node()
    node.lead()
    node.xid(79, GPU_A)
    node.xid(48, GPU_B)
    node.time.sleep(600)
    node.driver.gpus[GPU_A] = replace(node.driver.gpus[GPU_A], lost=True)
    await node.start()
    await node.live(20)
    told = {(fault.spec.code, fault.spec.gpu) for fault in node.faults() if fault.spec.code}
    assert told == {(79, GPU_A)}
    assert node.gpu().state is GpuState.LOST
    assert node.gpu(GPU_B).health is Health.HEALTHY
    await node.end()


async def test_a_driver_that_does_not_answer_is_trouble_and_its_gpus_are_not_healthy(node: Node) -> None:
    node.driver.troubles["read"] = hung()
    await node.live(30)
    status = node.object().status
    assert status is not None
    assert status.trouble
    assert {gpu.health for gpu in status.gpus} == {Health.UNKNOWN}


async def test_the_status_is_written_at_most_once_a_second(node: Node) -> None:
    before = int(node.version())
    for turn in range(20):
        node.driver.held[0] = [a_holder(1000 + turn, "train")]
        if turn == 0:
            node.xid(31)
        await node.live(0.5)
    assert int(node.version()) - before <= 14


async def test_what_a_server_refuses_for_a_while_is_told_once_it_does_not(node: Node) -> None:
    allowed, node.cluster = node.cluster, node.cluster.as_user("nobody", ())
    await node.restart()
    node.xid(31)
    node.driver.gpus[GPU_B] = replace(node.driver.gpus[GPU_B], lost=True)
    await node.live(20)
    assert node.faults() == []
    assert any("is forbidden" in warning for warning in node.warnings)
    node.cluster = allowed
    await node.restart()
    await node.live(60)
    assert 31 in [fault.spec.code for fault in node.faults()]
    assert node.gpu(GPU_B).state is GpuState.LOST


async def test_a_gpu_that_is_drilled_is_looked_at_also_when_its_orders_are_taken_back(node: Node) -> None:
    await node.live_led(15)
    assert node.gpu().sight.work is None, "nobody looks at a GPU that nothing is asked of"
    node.want(node.order(1, EffectKind.DRAIN, case="c-gpu-1.drill.x", drill=True))
    await node.live_led(15)
    assert node.gpu().state is GpuState.ACTIVE
    node.want()
    await node.live_led(15)
    assert node.gpu().sight.work == ()
    await node.restart()
    await node.live_led(15)
    assert node.gpu().sight.work == ()
    node.time.sleep(86_400.0)
    await node.live_led(15)
    assert node.gpu().sight.work is None
