"""Orders of the controller: stored first, done once, refused where they must be, answered until they are taken away."""

from typing import Any

import pytest

from gpuward.model.case import EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_node import GpuState
from gpuward.model.resource import GPU_NODES
from tests.agent_member.node import NODE, Node
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend_driver import a_holder


async def test_an_order_is_done_and_answered_and_the_gpu_says_so(node: Node) -> None:
    node.want(node.order(1, EffectKind.EVIDENCE), node.order(2, EffectKind.DRAIN))
    await node.live(4)
    assert {one.id: one.outcome for one in node.answers().values()} == {
        "case-1.1": Outcome.DONE,
        "case-1.2": Outcome.DONE,
    }
    assert node.driver.drained == {GPU_A}
    assert node.gpu().state is GpuState.IDLE
    assert node.room.kept


async def test_an_order_whose_id_is_stored_is_never_done_again_not_even_after_a_restart(node: Node) -> None:
    order = node.order(1, EffectKind.DRAIN)
    node.want(order)
    await node.live(4)
    await node.restart()
    await node.live(4)
    assert node.done("drain") == 1
    assert node.answers()["case-1.1"].outcome is Outcome.DONE


async def test_an_order_that_an_old_version_shows_again_is_not_done_again(node: Node) -> None:
    order = node.order(1, EffectKind.DRAIN)
    node.want(order)
    await node.live(4)
    node.want()
    await node.live(4)
    assert node.answers() == {}
    node.want(order)
    await node.live(4)
    assert node.done("drain") == 1


async def test_a_case_repairs_a_gpu_by_its_orders(node: Node) -> None:
    kinds = (EffectKind.DRAIN, EffectKind.PAUSE, EffectKind.UNDRAIN, EffectKind.RESET, EffectKind.VERIFY)
    orders = [node.order(number, kind) for number, kind in enumerate((*kinds, EffectKind.RESTORE), 1)]
    node.driver.running.add("nvidia-dcgm.service")
    node.driver.held[0] = [a_holder(9, "nv-hostengine", service="nvidia-dcgm.service")]
    for count in range(1, len(orders) + 1):
        node.want(*orders[:count])
        await node.live(3)
    assert {one.outcome for one in node.answers().values()} == {Outcome.DONE}, node.answers()
    assert node.driver.done_resets == 1
    assert node.driver.running == {"nvidia-dcgm.service"}
    await node.live(10)
    assert node.gpu().state is GpuState.ACTIVE


async def test_what_was_paused_is_started_again_by_an_agent_that_came_later(node: Node) -> None:
    node.driver.running.add("nvidia-dcgm.service")
    node.driver.held[0] = [a_holder(9, "nv-hostengine", service="nvidia-dcgm.service")]
    pause = node.order(1, EffectKind.PAUSE)
    node.want(pause)
    await node.live(3)
    assert not node.driver.running
    await node.restart()
    node.want(pause, node.order(2, EffectKind.RESTORE))
    await node.live(4)
    assert node.driver.running == {"nvidia-dcgm.service"}


@pytest.mark.parametrize(
    ("order", "mode", "why"),
    [
        ({"boot": "another"}, Mode.REPAIR, "meant for boot another"),
        ({"uuid": "GPU-not-here"}, Mode.REPAIR, "is not GPU-not-here"),
        ({"pci": "0000:ff:00", "uuid": None}, Mode.REPAIR, "has no GPU at 0000:ff:00"),
        ({}, Mode.OBSERVE, "mode observe does not allow drain"),
    ],
)
async def test_an_order_is_refused_where_it_must_not_be_done(
    node: Node, order: dict[str, str], mode: Mode, why: str
) -> None:
    node.want(node.order(1, EffectKind.DRAIN, **order), mode=mode)
    await node.live(4)
    answer = node.answers()["case-1.1"]
    assert answer.outcome is Outcome.REFUSED
    assert why in answer.why
    assert node.done("drain") == 0


@pytest.mark.parametrize(
    ("mode", "what", "outcome"),
    [
        (Mode.OBSERVE, EffectKind.EVIDENCE, Outcome.DONE),
        (Mode.OBSERVE, EffectKind.UNDRAIN, Outcome.DONE),
        (Mode.OBSERVE, EffectKind.RESTORE, Outcome.DONE),
        (Mode.OBSERVE, EffectKind.RESET, Outcome.REFUSED),
        (Mode.ISOLATE, EffectKind.DRAIN, Outcome.DONE),
        (Mode.ISOLATE, EffectKind.RESET, Outcome.REFUSED),
        (Mode.ISOLATE, EffectKind.PAUSE, Outcome.REFUSED),
        (Mode.REPAIR, EffectKind.RESET, Outcome.DONE),
    ],
)
async def test_each_mode_lets_its_orders_and_no_others(
    node: Node, mode: Mode, what: EffectKind, outcome: Outcome
) -> None:
    node.want(node.order(1, what), mode=mode)
    await node.live(4)
    assert node.answers()["case-1.1"].outcome is outcome


async def test_a_reset_is_refused_while_work_holds_the_gpu(node: Node) -> None:
    node.driver.held[0] = [a_holder(4321, "train")]
    node.want(node.order(1, EffectKind.RESET))
    await node.live(4)
    answer = node.answers()["case-1.1"]
    assert answer.outcome is Outcome.REFUSED
    assert "train (pid 4321)" in answer.why
    assert node.driver.done_resets == 0


async def test_a_drill_changes_nothing_on_the_machine_in_any_mode(node: Node) -> None:
    node.want(node.order(1, EffectKind.DRAIN, drill=True), mode=Mode.OBSERVE)
    await node.live(4)
    answer = node.answers()["case-1.1"]
    assert answer.outcome is Outcome.DONE
    assert answer.why.startswith("drill: ")
    assert not node.driver.drained
    assert node.gpu().state is GpuState.ACTIVE


async def test_an_order_that_cannot_be_stored_is_not_done_until_it_can(node: Node) -> None:
    node.orders.broken = True
    node.want(node.order(1, EffectKind.DRAIN))
    await node.live(4)
    assert node.done("drain") == 0
    node.orders.broken = False
    await node.live(4)
    assert node.done("drain") == 1
    assert any("cannot be saved" in warning for warning in node.warnings)


async def test_an_order_is_on_the_disk_before_it_is_done(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[bool] = []
    drain = node.driver.set_drained

    def noted(pci: str, *, on: bool, deadline_seconds: float) -> None:
        stored.append("case-1.1" in (node.orders.text or ""))
        drain(pci, on=on, deadline_seconds=deadline_seconds)

    monkeypatch.setattr(node.driver, "set_drained", noted)
    node.want(node.order(1, EffectKind.DRAIN))
    await node.live(4)
    assert stored == [True]


class Killed(Exception):
    """The agent was killed at this moment."""


@pytest.mark.parametrize("what", [EffectKind.DRAIN, EffectKind.RESET])
async def test_an_order_that_was_stored_and_not_answered_is_done_after_a_crash_and_once(
    node: Node, what: EffectKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"drain": "set_drained", "reset": "reset"}[str(what)]
    done: Any = getattr(node.driver, name)

    def then_killed(*args: object, **options: object) -> None:
        done(*args, **options)
        raise Killed

    monkeypatch.setattr(node.driver, name, then_killed)
    node.want(node.order(1, what))
    with pytest.raises(Killed):
        await node.live(6)
    monkeypatch.undo()
    await node.restart()
    await node.live(6)
    assert node.answers()["case-1.1"].outcome is Outcome.DONE
    assert node.driver.done_resets <= 1
    assert (node.driver.drained == {GPU_A}) is (what is EffectKind.DRAIN)


async def test_after_a_boot_nothing_that_was_under_way_is_done(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_args: object, **_options: object) -> None:
        raise Killed

    monkeypatch.setattr(node.driver, "set_drained", killed)
    node.want(node.order(1, EffectKind.DRAIN))
    with pytest.raises(Killed):
        await node.live(6)
    monkeypatch.undo()
    node.boot = "second-boot"
    node.lines.clear()
    await node.restart()
    await node.live(4)
    answer = node.answers()["case-1.1"]
    assert answer.outcome is Outcome.FAILED
    assert "booted anew" in answer.why
    assert not node.driver.drained


@pytest.mark.parametrize("what", [EffectKind.UNDRAIN, EffectKind.RESTORE])
async def test_an_undo_that_was_ordered_while_the_node_was_off_is_done_by_its_boot(
    node: Node, what: EffectKind
) -> None:
    drain = node.order(1, EffectKind.DRAIN)
    node.want(drain)
    await node.live(4)
    assert node.driver.drained == {GPU_A}
    node.boot = "second-boot"
    node.lines.clear()
    node.driver.drained.clear()
    node.want(drain, node.order(2, what))
    touched = len(node.driver.calls) - node.done("describe")
    await node.restart()
    await node.live(4)
    answer = node.answers()["case-1.2"]
    assert answer.outcome is Outcome.DONE
    assert answer.why.startswith("the node was booted since")
    assert len(node.driver.calls) - node.done("describe") == touched, "nothing is done to the machine"


async def test_orders_that_no_agent_of_this_version_knows_hold_up_no_others(node: Node) -> None:
    node.cluster.server.schemas.clear()
    known = node.order(2, EffectKind.DRAIN, pci=GPU_B)
    node.want(known)
    strange = {"op": "add", "path": "/spec/orders/0", "value": {"id": "case-1.1", "what": "sing"}}
    node.cluster.server.patch(GPU_NODES, NODE, [strange])
    await node.live(4)
    assert node.answers()["case-1.2"].outcome is Outcome.DONE
    assert any("an order is not understood" in warning for warning in node.warnings)
