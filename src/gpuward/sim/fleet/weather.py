"""What will happen to a pretend fleet, and when: planned from a seed before the run, each stroke with its number.

What a stroke does is in fleet. One that is left out changes no other: each kind has dice of its own.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpuward.sim.cluster.weather import Odds
from gpuward.sim.fleet.ailments import AILMENTS, ALARMS

DAY_SECONDS = 86_400.0


class Kind(StrEnum):
    """What sort of stroke it is."""

    ILL = "ill"
    """A GPU falls ill, or its program breaks; `name` is the row of ailments."""
    FLAPPING = "flapping"
    """The same, and its lines come again and again for `seconds`."""
    ALARM = "alarm"
    """A line comes that is none of the kernel's faults; `name` is the row of alarms."""
    SILENCE = "silence"
    """A machine is cut off from the network for `seconds`."""
    POWER = "power"
    """A machine loses its power, and boots after `seconds`."""
    ROUGH = "rough"
    """Calls to the API server fail, hang, or collide for `seconds`."""
    AWAY = "away"
    """The API server is away for `seconds`."""
    CONTROLLER = "controller"
    """The leading controller is killed at its next call but a few."""
    AGENT = "agent"
    """An agent is killed, and started again after `seconds`."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """One thing that happens, so many seconds after the run began. `node` and `gpu` count from 0."""

    number: int
    at: float
    kind: Kind
    node: int = 0
    gpu: int = 0
    name: str = ""
    seconds: float = 0.0
    calls: int = 0
    after: bool = False


@dataclass(frozen=True, slots=True)
class Rates:
    """How often what happens: a day, for each GPU, for each node, or for the whole cluster."""

    ill_a_gpu: float = 0.01
    flapping_a_gpu: float = 0.001
    alarms_a_gpu: float = 0.005
    silences_a_node: float = 0.02
    powers_a_node: float = 0.005
    agents_a_node: float = 0.05
    roughs: float = 4.0
    aways: float = 0.5
    controllers: float = 2.0
    rough: Odds = field(
        default_factory=lambda: Odds(
            lost=0.05,
            unanswered=0.05,
            late=0.03,
            conflict=0.1,
            broken=0.05,
            slow=0.2,
            behind=0.1,
            breaks=0.3,
            longest_watch_seconds=30.0,
        )
    )


USUAL = Rates()


def plan(seed: int, *, nodes: int, gpus: int, days: float, rates: Rates = USUAL) -> tuple[Stroke, ...]:
    """Return all strokes of a run in the order of their times, numbered from 1 in that order."""
    strokes = sorted(_strokes(seed, nodes=nodes, gpus=gpus, days=days, rates=rates), key=lambda one: (one.at, one.kind))
    return tuple(_numbered(one, number) for number, one in enumerate(strokes, 1))


def without(strokes: Sequence[Stroke], numbers: Sequence[int]) -> tuple[Stroke, ...]:
    """Return the strokes but for some."""
    return tuple(one for one in strokes if one.number not in numbers)


def _numbered(one: Stroke, number: int) -> Stroke:
    return Stroke(
        number, one.at, one.kind, one.node, one.gpu, one.name, seconds=one.seconds, calls=one.calls, after=one.after
    )


def _strokes(seed: int, *, nodes: int, gpus: int, days: float, rates: Rates) -> Iterator[Stroke]:
    cards = nodes * gpus
    a_day = {
        Kind.ILL: rates.ill_a_gpu * cards,
        Kind.FLAPPING: rates.flapping_a_gpu * cards,
        Kind.ALARM: rates.alarms_a_gpu * cards,
        Kind.SILENCE: rates.silences_a_node * nodes,
        Kind.POWER: rates.powers_a_node * nodes,
        Kind.AGENT: rates.agents_a_node * nodes,
        Kind.ROUGH: rates.roughs,
        Kind.AWAY: rates.aways,
        Kind.CONTROLLER: rates.controllers,
    }
    for kind, often in a_day.items():
        dice = random.Random(f"{seed} {kind}")  # noqa: S311  the same seed must give the same run
        at = 0.0
        while often > 0 and (at := at + dice.expovariate(often) * DAY_SECONDS) < days * DAY_SECONDS:
            yield _thrown(kind, at, dice, nodes=nodes, gpus=gpus)


def _thrown(kind: Kind, at: float, dice: random.Random, *, nodes: int, gpus: int) -> Stroke:
    """Throw for one stroke; the same number of throws for each, so that none changes the next."""
    node, gpu, share, calls, after = (
        dice.randrange(nodes),
        dice.randrange(gpus),
        dice.random(),
        dice.randrange(1, 40),
        dice.random() < 0.5,  # noqa: PLR2004  one or the other
    )
    ailment = dice.choices(AILMENTS, [one.weight for one in AILMENTS])[0].name
    alarm = dice.choice(ALARMS).name
    name = {Kind.ILL: ailment, Kind.FLAPPING: ailment, Kind.ALARM: alarm}.get(kind, "")
    least, most = _LENGTHS.get(kind, (0.0, 0.0))
    return Stroke(0, at, kind, node, gpu, name, seconds=least + share * (most - least), calls=calls, after=after)


_LENGTHS = {
    Kind.FLAPPING: (60.0, 900.0),
    Kind.SILENCE: (5.0, 900.0),
    Kind.POWER: (120.0, 600.0),
    Kind.ROUGH: (60.0, 1200.0),
    Kind.AWAY: (5.0, 300.0),
    Kind.AGENT: (1.0, 30.0),
}
"""Seconds, from and to."""
