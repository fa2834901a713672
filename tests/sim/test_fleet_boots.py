"""A whole pretend fleet with the product's own agents, one node of which boots while something is ordered."""

from dataclasses import replace

import pytest

from gpuward.model.case import Case, CaseState, EffectKind
from gpuward.model.happening import Happening, What, as_object
from gpuward.model.objects.gpu_node import ORDERED
from gpuward.model.resource import GPU_NODES
from gpuward.sim.fleet import leftovers
from gpuward.sim.fleet.acts import CALM_SECONDS, HASTY, run_in
from gpuward.sim.fleet.fleet import Fleet
from gpuward.sim.fleet.time import Time
from gpuward.sim.fleet.weather import Kind, Stroke
from gpuward.sim.fleet.workloads import Following
from tests.kit.journal_laws import broken_laws
from tests.sim.test_fleet import STILL

NODE = "node-01"


class Booter:
    """Boots a node so often as something is ordered there, before its agent hears it or a moment later."""

    def __init__(self, fleet: Fleet, what: EffectKind, *, times: int, after: float) -> None:
        self.booted: list[str] = []
        self._fleet, self._what, self._times, self._after = fleet, what, times, after
        Following(fleet.server, (GPU_NODES,), self._look)

    def _look(self) -> None:
        found = self._fleet.server.get(GPU_NODES, NODE) or {}
        orders = (found.get("spec") or {}).get("orders") or ()
        fresh = [one["id"] for one in orders if one["what"] == self._what and one["id"] not in self.booted]
        for order in fresh[: self._times - len(self.booted)]:
            self.booted.append(order)
            if self._after:
                self._fleet.later(self._after, lambda: self._fleet.power(NODE, on=False))
            else:
                self._fleet.power(NODE, on=False)
            self._fleet.later(self._after + 1.0, lambda: self._fleet.power(NODE, on=True))


def lived(what: EffectKind, *, times: int = 1, after: float = 0.0) -> tuple[list[Case], list[Happening], list[str]]:
    """Return the cases of such a life, its journal, and everything that went wrong."""
    told: list[Happening] = []
    terms = replace(HASTY, lost_seconds=300.0)

    async def live(time: Time) -> tuple[list[Case], list[Happening], list[str]]:
        fleet = Fleet(STILL, seed=3, terms=terms, tell=told.append, time=time)
        async with fleet.living():
            booter = Booter(fleet, what, times=times, after=after)
            fleet.expect([Stroke(1, 30.0, Kind.ILL, 0, 0, "double-bit")])
            await fleet.live_until(60.0)
            settled = await fleet.settle(within_seconds=CALM_SECONDS)
            cases = list(fleet.witness.seen.cases.values())
            left = [*leftovers.left_over(fleet.server, fleet.machines, cases), *leftovers.stuck(cases), *fleet.crashes]
            left += broken_laws([as_object(one) for one in fleet.witness.seen.lines if one.node == NODE])
            return cases, told, [*left, *([] if settled and booter.booted else ["it did not settle, or boot"])]

    return run_in(live)


@pytest.mark.parametrize("after", [0.0, 1.5, 5.0])
@pytest.mark.parametrize("what", ORDERED)
def test_a_node_that_boots_while_something_is_ordered_returns_by_itself(what: EffectKind, after: float) -> None:
    cases, told, wrong = lived(what, after=after)
    assert wrong == []
    (case,) = cases
    assert case.state is CaseState.CLOSED
    assert not any(one.what is What.MOVED and one.after == "parked" for one in told)
    assert sum(effect.kind is EffectKind.RESET for effect in case.effects) <= 1


def test_one_that_boots_again_and_again_waits_for_a_person() -> None:
    cases, told, wrong = lived(EffectKind.VERIFY, times=6)
    assert wrong == []
    parked = [one.because for one in told if one.what is What.MOVED and one.after == "parked"]
    assert parked == ["The node was booted again and again during the repair."]
    assert {case.state for case in cases} == {CaseState.CLOSED}, "a person came, and released it"
