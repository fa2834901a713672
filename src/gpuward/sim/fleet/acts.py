"""A life in two acts: foul weather, in which every law must hold, then calm, in which all must come to an end.

One seed fixes the fleet, what strikes it and everything else. What comes of it is returned, nothing is printed.
"""

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpuward.controller.terms import Terms
from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.evacuation import EvictionTerms
from gpuward.model.case import Case, Mode
from gpuward.model.happening import Happening, What
from gpuward.sim.fleet import leftovers
from gpuward.sim.fleet.ending import ended_by_signals
from gpuward.sim.fleet.fleet import Fleet
from gpuward.sim.fleet.layout import Layout
from gpuward.sim.fleet.time import PretendLoop, Time
from gpuward.sim.fleet.weather import DAY_SECONDS, Kind, Rates, Stroke, plan, without
from gpuward.sim.fleet.workloads import Workload

_T = TypeVar("_T")
_RUNS = (100.0, 600.0)
"""How long a pod of a small fleet runs."""
ACT_SECONDS = 200.0
CALM_SECONDS = 1200.0
FOUL = Rates(
    ill_a_gpu=0.9 * DAY_SECONDS / ACT_SECONDS / 6,
    flapping_a_gpu=0.1 * DAY_SECONDS / ACT_SECONDS / 6,
    alarms_a_gpu=0.2 * DAY_SECONDS / ACT_SECONDS / 6,
    silences_a_node=0.1 * DAY_SECONDS / ACT_SECONDS,
    powers_a_node=0.05 * DAY_SECONDS / ACT_SECONDS,
    agents_a_node=0.15 * DAY_SECONDS / ACT_SECONDS,
    roughs=0.7 * DAY_SECONDS / ACT_SECONDS,
    aways=0.2 * DAY_SECONDS / ACT_SECONDS,
    controllers=0.8 * DAY_SECONDS / ACT_SECONDS,
)
"""In a few minutes what else takes weeks: about one GPU in six falls ill."""
HASTY = Terms(
    mode=Mode.REPAIR,
    probation_seconds=60.0,
    eviction=EvictionTerms(deadline_seconds=120.0),
    brake=Brake(share=1.0, window_seconds=120.0),
    budget=Budget(),
    evict_again_seconds=3.0,
    round_seconds=5.0,
)
"""What people usually give half an hour to takes a minute."""


@dataclass(slots=True)
class Played:
    """What a life came to. All lists but `cases`, `journal` and `witnessed` are empty when it went well."""

    seed: int
    strokes: tuple[Stroke, ...]
    settled: bool = False
    cases: list[Case] = field(default_factory=list)
    journal: list[Happening] = field(default_factory=list)
    witnessed: list[Happening] = field(default_factory=list)
    """Every step of every case, as it was saved."""
    left_over: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    unfounded: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """Return everything that went wrong, in sentences."""
        broken = [f"law {one.rule} in {one.case}" for one in self.journal if one.what is What.LAW]
        unsettled = [] if self.settled else [f"it did not settle within {CALM_SECONDS:g} s of calm"]
        return [*broken, *self.crashes, *self.unfounded, *self.left_over, *self.stuck, *self.missed, *unsettled]


def small(seed: int) -> Layout:
    """Return a small fleet by its seed: two to four nodes with two GPUs, sometimes one that stands by."""
    dice = random.Random(f"{seed} layout")  # noqa: S311  the same seed must give the same run
    nodes = dice.choice((2, 2, 3, 3, 4))
    standbys = 1 if nodes > 2 and dice.random() < 0.7 else 0  # noqa: PLR2004  two nodes have none to spare
    work = (
        Workload("train", 1, 2, grace_seconds=dice.choice((10, 30, 90)), run_seconds=_RUNS, asks=seed % 2 == 0),
        Workload("serve", 2, 1, serves=True, run_seconds=_RUNS),
    )
    return Layout(
        nodes=nodes,
        gpus=2,
        standbys=standbys,
        workloads=work,
        replicas=dice.choice((1, 2)),
        skew_seconds=dice.choice((0.0, 5.0, 120.0)),
        visit_seconds=(20.0, 90.0),
    )


def play(
    seed: int,
    *,
    terms: Terms = HASTY,
    rates: Rates = FOUL,
    less: Sequence[int] = (),
    strokes: Sequence[Stroke] | None = None,
    layout: Layout | None = None,
) -> Played:
    """Return what a seed's life came to; `less` are the numbers of strokes that are left out."""
    layout = layout or small(seed)
    days = ACT_SECONDS / DAY_SECONDS
    planned = plan(seed, nodes=layout.nodes, gpus=layout.gpus, days=days, rates=rates) if strokes is None else strokes
    kept = without([_shortened(one) for one in planned], less)
    played = Played(seed, kept)
    run_in(lambda time: _play(played, layout, terms, time=time))
    return played


def run_in(life: Callable[[Time], Coroutine[Any, Any, _T]], *, speed: float | None = None) -> _T:
    """Run a life in a pretend time of its own, and return what it returns.

    A signal ends the life first, in order; then it is what it would have been: Ctrl-C raises KeyboardInterrupt.
    """
    time = Time()
    loop = PretendLoop(time, speed)
    task = loop.create_task(life(time))
    try:
        with ended_by_signals(lambda: loop.wake(task.cancel)):
            return loop.run_until_complete(task)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _play(played: Played, layout: Layout, terms: Terms, *, time: Time) -> None:
    fleet = Fleet(layout, seed=played.seed, terms=terms, tell=played.journal.append, rates=FOUL, time=time)
    async with fleet.living():
        fleet.expect(played.strokes)
        await fleet.live_until(ACT_SECONDS)
        played.settled = await fleet.settle(within_seconds=CALM_SECONDS)
        played.cases = list(fleet.witness.seen.cases.values())
        played.witnessed = fleet.witness.seen.lines
        played.left_over = leftovers.left_over(fleet.server, fleet.machines, played.cases)
        played.stuck = leftovers.stuck(played.cases)
        played.unfounded = leftovers.unfounded(played.cases, fleet.truths)
        played.missed = leftovers.missed(fleet.machines, played.cases)
        played.crashes = [*fleet.crashes, *(death for agent in fleet.agents.values() for death in agent.deaths)]


def _shortened(stroke: Stroke) -> Stroke:
    """Return a stroke that is over within the act."""
    return replace(stroke, seconds=min(stroke.seconds, _LONGEST.get(stroke.kind, stroke.seconds)))


_LONGEST = {Kind.FLAPPING: 80.0, Kind.SILENCE: 90.0, Kind.POWER: 60.0, Kind.ROUGH: 120.0, Kind.AWAY: 40.0}
