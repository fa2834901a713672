"""The drain without an order: only when nobody can order, for the hardware's own P0, one GPU of a node."""

from gpuward.model.case import EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_node import GpuState
from gpuward.sim.cluster.network import Presence
from tests.agent_member.node import NODE, Node
from tests.kit.merging import GPU_A, GPU_B


async def _isolating(node: Node) -> None:
    node.want(mode=Mode.ISOLATE)
    await node.live(3)


async def test_with_the_api_gone_it_drains_after_keeping_evidence(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(40)
    assert node.driver.drained == {GPU_A}
    assert node.room.kept
    assert node.driver.calls.index("describe") < node.driver.calls.index("drain")
    assert "drained without an order: the API server has not answered" in node.said()


async def test_what_was_done_alone_is_told_when_the_api_is_back(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(40)
    node.turn(Presence.THERE)
    await node.live(60)
    (fault,) = node.faults()
    answers = {one.id: one.outcome for one in node.answers().values()}
    assert answers == {
        f"lone.{fault.head.name}.evidence": Outcome.DONE,
        f"lone.{fault.head.name}.drain": Outcome.DONE,
    }
    assert node.gpu().state is GpuState.IDLE


async def test_what_was_done_alone_is_undone_by_order_and_not_done_again(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(40)
    node.turn(Presence.THERE)
    await node.live(60)
    node.want(node.order(1, EffectKind.UNDRAIN), mode=Mode.ISOLATE)
    await node.live(10)
    assert not node.driver.drained
    assert node.gpu().state is GpuState.ACTIVE
    node.turn(Presence.AWAY)
    await node.live(60)
    assert not node.driver.drained


async def test_with_a_stale_leader_it_drains(node: Node) -> None:
    await _isolating(node)
    node.xid(48)
    await node.live(90)
    assert node.driver.drained == {GPU_A}
    assert "the leader has not renewed its Lease" in node.said()


async def test_with_the_api_there_and_a_fresh_leader_it_waits_for_its_order(node: Node) -> None:
    await _isolating(node)
    node.xid(48)
    await node.live_led(200)
    assert not node.driver.drained


async def test_a_short_silence_of_the_api_drains_nothing(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(5)
    node.turn(Presence.THERE)
    await node.live_led(60)
    assert not node.driver.drained


async def test_a_fault_of_the_application_or_the_driver_drains_nothing_alone(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(31)
    node.xid(119, GPU_B)
    await node.live(60)
    assert not node.driver.drained


async def test_a_gpu_that_the_controller_works_on_or_had_repaired_since_is_not_drained_alone(node: Node) -> None:
    node.want(mode=Mode.REPAIR)
    node.xid(48)
    await node.live_led(10)
    repair = (EffectKind.EVIDENCE, EffectKind.DRAIN, EffectKind.UNDRAIN, EffectKind.RESET, EffectKind.VERIFY)
    orders = [node.order(number, what) for number, what in enumerate(repair, 1)]
    node.want(*orders[:3])
    await node.live_led(10)
    node.turn(Presence.AWAY)
    await node.live(30)
    assert not node.driver.drained, "between two orders"
    node.turn(Presence.THERE)
    await node.live_led(40)
    node.want(*orders[3:])
    await node.live_led(10)
    node.want()
    await node.live_led(10)
    assert node.done("reset") == 1
    node.turn(Presence.AWAY)
    await node.live(60)
    assert not node.driver.drained, "it was repaired since"


async def test_a_second_gpu_is_not_drained_alone(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(40)
    node.xid(48, GPU_B)
    await node.live(60)
    assert node.driver.drained == {GPU_A}


async def test_nor_is_a_second_gpu_after_a_restart(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(40)
    await node.restart()
    node.xid(48, GPU_B)
    await node.live(60)
    assert node.driver.drained == {GPU_A}


async def test_in_mode_observe_it_drains_nothing(node: Node) -> None:
    node.turn(Presence.AWAY)
    node.xid(48)
    await node.live(60)
    assert not node.driver.drained


async def test_the_mode_that_was_last_seen_counts_after_a_restart_without_the_api(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    await node.restart()
    node.xid(48)
    await node.live(60)
    assert node.driver.drained == {GPU_A}


async def test_while_the_leaders_brake_holds_it_drains_nothing(node: Node) -> None:
    node.cluster.server.schemas.clear()
    node.want(mode=Mode.ISOLATE, held="9 of 16 GPUs were taken out within 10 min")
    await node.live(3)
    node.turn(Presence.AWAY)
    await node.restart()
    node.xid(48)
    await node.live(60)
    assert not node.driver.drained


async def test_a_finding_of_a_reading_is_not_the_kernels_own_word(node: Node) -> None:
    await _isolating(node)
    node.turn(Presence.AWAY)
    del node.driver.gpus[GPU_B]
    await node.live(120)
    assert not node.driver.drained
    node.turn(Presence.THERE)
    await node.live(60)
    assert [fault.spec.node_name for fault in node.faults()] == [NODE]
