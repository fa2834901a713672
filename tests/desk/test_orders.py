"""`approve`, `retry`, `release`, `pause` and `resume` on a cluster: a person's word reaches the controller, once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind, Mode
from gpuward.model.objects.pause import PAUSE
from gpuward.model.resource import CONFIG_MAPS, GPU_CASES, Resource
from gpuward.ports import Conflict, Object, Refused
from tests.controller.fleet import REPAIRING, Fleet
from tests.desk.people import SPACE, ask, beat, told


def orders_of(fleet: Fleet, case: str) -> list[dict[str, Any]]:
    return list(fleet.get(GPU_CASES, case)["spec"].get("orders", []))


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    return fleet


async def test_a_release_undoes_every_mark_and_says_so() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.PARKED)
        beat(fleet)
        case = f"c-{fault}"
        answer = await ask(fleet, "release", case, "--because", "it was a loose cable", controller=controller)
        assert answer.code == 0, answer.out
        assert answer.out.splitlines()[0] == (
            f"{case}: release is asked for by admin; every mark is undone, and the case is closed"
        )
        assert f"{case}: heard, and it is parked: Released by a person" in answer.out
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.CLOSED)
        assert fleet.taint() is None
    (order,) = orders_of(fleet, case)
    assert order == {"number": 1, "what": "release", "by": "admin", "because": "it was a loose cable"}


async def test_an_order_that_nobody_hears_is_kept_and_said_to_be() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() is not None)
    case = f"c-{fault}"
    answer = await ask(fleet, "release", case, "--wait-seconds", "3", "--by", "bob")
    assert answer.code == 1
    assert "no controller leads: the order is kept in the case, and heard as soon as one does" in answer.out
    assert f"{case}: not heard yet" in answer.out
    assert [one["by"] for one in orders_of(fleet, case)] == ["bob"]
    value = (await ask(fleet, "release", case, "--wait-seconds", "0", "--json")).object()
    assert [(one["number"], one["heard"]) for one in value["orders"]] == [(2, False)]


async def test_a_release_of_a_node_is_one_of_all_its_open_cases() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        first, second = fleet.fault(48), fleet.fault(48, pci="0000:5e:00")
        await fleet.until(controller, lambda: len(fleet.gpu_cases()) == 2)
        answer = await ask(fleet, "release", "gpu-1", controller=controller)
        assert answer.code == 0, answer.out
        closed = CaseState.CLOSED
        await fleet.until(controller, lambda: {fleet.case_state(first), fleet.case_state(second)} == {closed})
    with pytest.raises(Refused, match="gpu-1 has no open case"):
        await ask(fleet, "release", "gpu-1")


async def test_a_case_that_waits_for_a_word_goes_ahead_with_it() -> None:
    fleet = a_fleet(approval=True)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=5)
        assert fleet.taint() is None
        answer = await ask(fleet, "approve", f"c-{fault}", controller=controller)
        assert (answer.code, "it may go ahead" in answer.out) == (0, True)
        await fleet.until(controller, lambda: fleet.taint() == "xid-48")
        with pytest.raises(Refused, match="was approved before"):
            await ask(fleet, "approve", f"c-{fault}")


async def test_a_retry_is_forced_when_asked_and_only_of_a_parked_case_in_mode_repair() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].fails[EffectKind.PAUSE] = "it hangs"
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        with pytest.raises(Refused, match="there is no case"):
            await ask(fleet, "retry", f"c-{fault}")
        await fleet.until(controller, lambda: fleet.taint() is not None)
        with pytest.raises(Refused, match="only a parked one is tried again"):
            await ask(fleet, "retry", f"c-{fault}")
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.PARKED)
        del fleet.agents["gpu-1"].fails[EffectKind.PAUSE]
        answer = await ask(fleet, "retry", f"c-{fault}", "--force", controller=controller)
        assert answer.code == 0, answer.out
        assert orders_of(fleet, f"c-{fault}")[0]["forced"] is True
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.CLOSED)
        with pytest.raises(Refused, match="is closed: there is nothing to release any more"):
            await ask(fleet, "release", f"c-{fault}")


async def test_a_retry_in_a_mode_that_repairs_nothing_names_the_remedy() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.PARKED)
    with pytest.raises(Refused, match="gpu-1 is in mode isolate: let its mode be repair in the settings"):
        await ask(fleet, "retry", f"c-{fault}")


class Racing:
    """A cluster where somebody else is first, a few times."""

    def __init__(self, fleet: Fleet, case: str, times: int) -> None:
        self._fleet = fleet
        self._case = case
        self.times = times

    def __getattr__(self, name: str) -> Any:
        """Return a call of the cluster."""
        return getattr(self._fleet.cluster, name)

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], **asked: Any
    ) -> Object:
        """Let another person's order in first."""
        if self.times > 0:
            self.times -= 1
            self._fleet.order(self._case, what="approve", by="somebody else")
        return await self._fleet.cluster.patch(resource, name, operations, **asked)


async def test_of_two_who_give_an_order_at_the_same_time_none_is_lost() -> None:
    fleet = a_fleet(approval=True)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=3)
    case = f"c-{fault}"
    racing = Racing(fleet, case, 3)
    await ask(fleet, "release", case, "--wait-seconds", "0", cluster=racing)
    given = orders_of(fleet, case)
    assert [one["number"] for one in given] == [1, 2, 3, 4]
    assert [one["what"] for one in given] == ["approve"] * 3 + ["release"]


async def test_a_case_with_all_the_orders_that_it_can_hold_takes_one_more() -> None:
    fleet = a_fleet(approval=True)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=3)
    case = f"c-{fault}"
    for _ in range(32):
        fleet.order(case, what="retry", by="alice")
    await ask(fleet, "release", case, "--wait-seconds", "0")
    assert [one["number"] for one in orders_of(fleet, case)] == list(range(2, 34))


async def test_the_fleet_is_paused_and_goes_on() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        beat(fleet)
        answer = await ask(fleet, "pause", "--because", "a new driver")
        assert answer.code == 0
        assert answer.out.startswith(
            "nothing new is isolated from now on; recoveries and open cases go on: paused by admin since "
        )
        assert "it was paused before, and stays so: paused by admin" in await told(fleet, "pause", "--by", "bob")
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=5)
        assert (fleet.case_state(fault), fleet.taint()) == (CaseState.SUSPECT, None)
        assert "paused by admin" in fleet.case(fault).because
        value = (await ask(fleet, "resume", "--json")).object()
        assert (value["paused"], value["changed"], value["before"]["because"]) == (None, True, "a new driver")
        await fleet.until(controller, lambda: fleet.taint() == "xid-48")
    assert "the fleet was not paused" in await told(fleet, "resume")


async def test_who_may_not_make_the_pause_is_told_who_does() -> None:
    fleet = a_fleet()
    with pytest.raises(Refused):
        await ask(fleet, "pause", cluster=fleet.cluster.as_user("nobody", ()))
    await ask(fleet, "pause")
    assert fleet.get(CONFIG_MAPS, PAUSE, space=SPACE)["data"]["by"] == "admin"
    fleet.server.patch(
        CONFIG_MAPS, PAUSE, [{"op": "replace", "path": "/data", "value": {"note": "x"}}], namespace=SPACE
    )
    assert "paused by somebody" in await told(fleet, "pause")


async def test_a_case_that_is_taken_away_while_it_is_waited_for_is_no_traceback() -> None:
    fleet = a_fleet(approval=True)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=3)

    class Gone(Racing):
        async def patch(self, *_: Any, **_asked: Any) -> Object:
            raise Conflict("someone else was first")

    with pytest.raises(Exception, match="changed by others all the time"):
        await ask(fleet, "release", f"c-{fault}", cluster=Gone(fleet, "", 0))
