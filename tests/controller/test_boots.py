"""A node that boots by itself while something is ordered: that is asked for anew, and nothing is lost."""

from dataclasses import replace
from enum import StrEnum
from typing import Any

import pytest

from gpuward.agent.orders import UNDONE_BY_BOOT
from gpuward.isolation.boot_conditions import MOST_TRIES
from gpuward.isolation.evacuation import EvictionTerms
from gpuward.isolation.table import NOT_AGAIN
from gpuward.model.case import Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_node import ORDERED, OrderAnswer, read_gpu_node
from gpuward.model.resource import GPU_NODES
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.fleet import REPAIRING
from tests.controller.operated import DCGM, PLUGIN, TRUE, OperatedFleet
from tests.controller.test_killed_anywhere import check_it_lives
from tests.kit.merging import GPU_A

S = CaseState
FOREVER = 10_000
NOT_KNOWN = "The GPU is free, it is not known to be drained, and the mode does not allow a repair."


class When(StrEnum):
    """When the node boots."""

    BEFORE = "before the agent saw the order"
    MEANWHILE = "when it was under way"
    AFTER = "when it was done"


class BootingFleet(OperatedFleet):
    """A fleet whose node boots so often as something is ordered."""

    def __init__(self, what: EffectKind, when: When = When.BEFORE, *, times: int = 1, mode: Mode = Mode.REPAIR) -> None:
        super().__init__(terms=replace(REPAIRING, mode=mode))
        self.what, self.when, self.times = what, when, times
        self.boots: list[str] = []
        """The orders at which it was booted."""
        self.operated("gpu-1")
        self.daemon("plugin", gate=PLUGIN)
        self.daemon("dcgm", gate=DCGM)

    def move(self) -> None:
        """Let all of them do what is due, and boot the node if that is."""
        for order in self._fresh()[: self.times - len(self.boots)]:
            self.boots.append(order)
            self._end(order)
            self.agents["gpu-1"].boots(f"b{len(self.boots) + 1}")
        super().move()

    def did(self, kind: EffectKind) -> int:
        """Return how often the agent did something."""
        return [what for _, what in self.agents["gpu-1"].done].count(kind)

    def _fresh(self) -> list[str]:
        spec = read_gpu_node(self.get(GPU_NODES, "gpu-1")).spec
        orders = () if spec is None else spec.orders
        return [order.id for order in orders if order.what is self.what and order.id not in self.boots]

    def _end(self, order: str) -> None:
        if self.when is When.AFTER:
            super().move()
        elif self.when is When.MEANWHILE and self.what not in UNDONE_BY_BOOT:
            answer = OrderAnswer(order, Outcome.FAILED, self.time.now(), "the node was booted anew")
            self.agents["gpu-1"].answers[order] = answer


async def lived(fleet: BootingFleet, state: CaseState = S.CLOSED) -> Case:
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        return await fleet.settled(controller, fault, state)


def kinds_of(case: Case) -> list[EffectKind]:
    return [effect.kind for effect in case.effects]


def untouched(fleet: BootingFleet) -> bool:
    """Return whether nothing of ours is left on the node."""
    return (fleet.taint(), fleet.gates(), fleet.agents["gpu-1"].drained) == (None, TRUE, set())


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("what", [kind for kind in ORDERED if kind is not EffectKind.RESET])
async def test_a_boot_while_anything_is_ordered_needs_no_person(what: EffectKind, when: When) -> None:
    fleet = BootingFleet(what, when)
    case = await lived(fleet)
    assert len(fleet.boots) == 1
    assert "parked" not in {one.after for one in fleet.told.happenings}
    assert fleet.did(EffectKind.RESET) == 1
    assert fleet.agents["gpu-1"].done[-1][1] is EffectKind.VERIFY
    assert kinds_of(case)[-1] is EffectKind.UNTAINT
    assert untouched(fleet)


@pytest.mark.parametrize("when", list(When))
async def test_a_boot_while_a_reset_is_ordered_is_one_and_is_proven(when: When) -> None:
    fleet = BootingFleet(EffectKind.RESET, when)
    case = await lived(fleet)
    assert kinds_of(case)[-4:] == [EffectKind.RESET, EffectKind.RESTORE, EffectKind.VERIFY, EffectKind.UNTAINT]
    assert fleet.did(EffectKind.RESET) == (1 if when is When.AFTER else 0)
    assert untouched(fleet)


async def test_a_proof_that_fails_after_such_a_boot_goes_to_a_person() -> None:
    fleet = BootingFleet(EffectKind.RESET)
    fleet.agents["gpu-1"].fails[EffectKind.VERIFY] = "its ECC counters rise"
    case = await lived(fleet, S.PARKED)
    assert case.because == "The proof failed: its ECC counters rise"
    assert fleet.gates() == TRUE


@pytest.mark.parametrize("what", [EffectKind.EVIDENCE, EffectKind.PAUSE, EffectKind.VERIFY])
async def test_a_node_that_boots_again_and_again_goes_to_a_person_and_nothing_stays_stopped(what: EffectKind) -> None:
    fleet = BootingFleet(what, times=FOREVER)
    case = await lived(fleet, S.PARKED)
    assert case.because == "The node was booted again and again during the repair."
    assert case.due == "Find out why the node boots again and again, then retry."
    repair = kinds_of(case)[kinds_of(case).index(EffectKind.NOTICE) :]
    assert repair.count(what) == MOST_TRIES
    assert fleet.gates() == TRUE
    assert fleet.did(what) == 0
    fleet.times = 0
    async with fleet.running() as controller:
        fleet.order(case.id, what="retry")
        case = await fleet.settled(controller, case.fault, S.CLOSED)
    assert untouched(fleet)


@pytest.mark.parametrize("when", list(When))
async def test_a_boot_that_lifts_the_drain_of_a_case_that_only_isolates_is_followed_by_another_drain(
    when: When,
) -> None:
    fleet = BootingFleet(EffectKind.DRAIN, when, mode=Mode.ISOLATE)
    case = await lived(fleet, S.PARKED)
    assert case.because == "The GPU is free, and the mode does not allow a repair."
    assert fleet.agents["gpu-1"].drained == {case.gpu}


async def test_where_it_cannot_be_drained_again_the_case_says_so() -> None:
    fleet = BootingFleet(EffectKind.DRAIN, When.AFTER, mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: bool(fleet.boots))
        fleet.agents["gpu-1"].refuses.add(EffectKind.DRAIN)
        case = await fleet.settled(controller, fault, S.PARKED)
    assert case.because == NOT_KNOWN


async def test_a_case_that_only_isolates_is_not_parked_before_it_is_known_whether_its_gpu_is_drained() -> None:
    fleet = BootingFleet(EffectKind.DRAIN, times=0, mode=Mode.ISOLATE)
    agent = fleet.agents["gpu-1"]
    agent.refuses.add(EffectKind.DRAIN)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.FENCED)
        agent.busy = True
        fleet.remove_pod("train-0")
        await fleet.go(controller, rounds=8)
        case = fleet.case(fault)
        assert (case.state, agent.drained) == (S.VACATED, set())
        assert case.because == "The GPU is free, and it is being drained; the mode does not allow a repair."
        agent.busy = False
        case = await fleet.settled(controller, fault, S.PARKED)
    assert case.because == NOT_KNOWN
    assert case.due.startswith("Keep work off it by hand: it may not be drained.")


async def test_nor_is_one_whose_gpu_cannot_be_reset() -> None:
    fleet = BootingFleet(EffectKind.DRAIN, times=0)
    agent = fleet.agents["gpu-1"]
    agent.refuses.add(EffectKind.DRAIN)
    agent.obstacles[GPU_A] = "Replace it."
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.FENCED)
        agent.busy = True
        fleet.remove_pod("train-0")
        await fleet.go(controller, rounds=8)
        case = fleet.case(fault)
        assert (case.state, case.because) == (
            S.VACATED,
            "The GPU is free, and it is being drained; it cannot be reset: Replace it.",
        )
        agent.busy = False
        case = await fleet.settled(controller, fault, S.PARKED)
    assert case.because == "It is not known to be drained, and it cannot be reset: Replace it."
    assert case.due == "Keep work off it by hand: it may not be drained. Replace it."


def evicting(mode: Mode = Mode.REPAIR, *, deadline_seconds: float = 30.0) -> BootingFleet:
    """Return a fleet with a pod that does not go when it is asked to."""
    fleet = BootingFleet(EffectKind.DRAIN, times=0, mode=mode)
    fleet.terms = replace(fleet.terms, eviction=EvictionTerms(deadline_seconds=deadline_seconds))
    fleet.pod("train-0")
    fleet.frozen_pods.add("train-0")
    return fleet


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
async def test_where_it_cannot_be_drained_again_while_pods_are_evicted_the_case_says_so(outcome: Outcome) -> None:
    fleet = evicting(Mode.ISOLATE)
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.EVACUATING)
        assert fleet.case(fault).because == "Waits for its work to end: train-0"
        agent.boots("b2")
        agent.fails |= {EffectKind.DRAIN: "it takes too long"} if outcome is Outcome.FAILED else {}
        agent.refuses |= {EffectKind.DRAIN} if outcome is Outcome.REFUSED else set()
        await fleet.go(controller, rounds=4)
        assert fleet.case(fault).because == (
            "It is not known to be drained, programs may still start on it. Waits for its work to end: train-0"
        )
        fleet.frozen_pods.clear()
        case = await fleet.settled(controller, fault, S.PARKED)
    assert case.because == NOT_KNOWN


async def test_pods_that_go_at_the_moment_of_a_boot_do_not_hide_that_it_is_not_drained() -> None:
    fleet = evicting(Mode.ISOLATE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.EVACUATING)
        fleet.agents["gpu-1"].boots("b2")
        fleet.agents["gpu-1"].refuses.add(EffectKind.DRAIN)
        fleet.remove_pod("train-0")
        case = await fleet.settled(controller, fault, S.PARKED)
    assert case.because == NOT_KNOWN


async def test_a_node_that_boots_again_and_again_while_its_pods_go_says_that_it_is_not_drained_and_they_go_on() -> None:
    fleet = evicting(deadline_seconds=FOREVER)
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.EVACUATING)
        for number in range(2, 12):
            agent.boots(f"b{number}")
            await fleet.go(controller, rounds=3)
        case = fleet.case(fault)
        assert (case.state, agent.drained) == (S.EVACUATING, set())
        assert kinds_of(case).count(EffectKind.DRAIN) == 1 + MOST_TRIES
        assert case.because == f"{NOT_AGAIN} Waits for its work to end: train-0"
        fleet.frozen_pods.clear()
        await fleet.settled(controller, fault, S.CLOSED)
    assert untouched(fleet)


async def test_a_node_that_boots_again_and_again_when_it_is_fenced_has_its_pods_go_all_the_same() -> None:
    fleet = BootingFleet(EffectKind.DRAIN, When.AFTER, times=MOST_TRIES)
    fleet.pod("train-0")
    fleet.frozen_pods.add("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.EVACUATING)
        assert NOT_AGAIN in {one.because for one in fleet.told.happenings}
        assert case.victims == ("work/train-0",)
        assert fleet.agents["gpu-1"].drained == {case.gpu}


async def test_evidence_and_drain_that_a_boot_came_before_are_asked_for_together_again() -> None:
    fleet = BootingFleet(EffectKind.EVIDENCE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: bool(fleet.boots))
        fleet.agents["gpu-1"].busy = True
        await fleet.go(controller, rounds=2)
        assert fleet.orders() == ["evidence", "drain"]
        fleet.agents["gpu-1"].busy = False
        await fleet.settled(controller, fault, S.CLOSED)
    assert untouched(fleet)


async def test_a_boot_while_pods_are_evicted_is_followed_by_another_drain() -> None:
    fleet = BootingFleet(EffectKind.DRAIN, times=0)
    fleet.pod("train-0")
    fleet.frozen_pods.add("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.EVACUATING)
        fleet.agents["gpu-1"].boots("b2")
        await fleet.go(controller, rounds=4)
        assert fleet.agents["gpu-1"].drained == {fleet.case(fault).gpu}
        fleet.frozen_pods.clear()
        await fleet.settled(controller, fault, S.CLOSED)
    assert untouched(fleet)


async def test_a_person_who_boots_the_node_of_a_parked_case_is_not_drained_anew() -> None:
    fleet = BootingFleet(EffectKind.DRAIN, times=0, mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.PARKED)
        fleet.agents["gpu-1"].boots("b2")
        await fleet.go(controller, rounds=4)
        assert fleet.agents["gpu-1"].drained == set()
        assert fleet.taint() == "xid-48"
        fleet.order(case.id, what="release")
        await fleet.settled(controller, fault, S.CLOSED)
    assert untouched(fleet)


async def _lived_on(fleet: BootingFleet, cluster: Any) -> str:
    """Let the fleet live with a controller on `cluster`, and with another from when that dies; return the fault."""
    fault = fleet.fault(48)
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                check_it_lives(controller)
                await fleet.go(controller, rounds=30)
        except Died:
            continue
        break
    return fault


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("what", [EffectKind.PAUSE, EffectKind.RESET])
async def test_killed_at_every_call_while_the_node_boots_it_ends_as_ever(
    what: EffectKind,
    after: bool,  # noqa: FBT001  a row
) -> None:
    whole = MortalCluster((fleet := BootingFleet(what)).cluster, last=FOREVER, after=False)
    assert fleet.case_state(await _lived_on(fleet, whole)) is S.CLOSED
    assert whole.calls > 25
    for last in range(1, whole.calls + 1):
        fleet = BootingFleet(what)
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        fault = await _lived_on(fleet, cluster)
        assert cluster.is_dead
        assert fleet.case_state(fault) is S.CLOSED, f"killed at call {last}"
        assert len(fleet.agents["gpu-1"].done) == len(set(fleet.agents["gpu-1"].done))
        assert fleet.did(EffectKind.RESET) == (0 if what is EffectKind.RESET else 1), f"killed at call {last}"
        assert untouched(fleet), f"killed at call {last}"
