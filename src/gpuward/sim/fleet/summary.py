"""What a run came to, counted from what happened: from the truth, the cases as they were saved, and the cluster."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from gpuward.model.case import Case, EffectKind, Outcome
from gpuward.model.counted import many
from gpuward.model.happening import Happening, What
from gpuward.model.level import Level
from gpuward.sim.fleet import leftovers
from gpuward.sim.fleet.ailments import AILMENTS
from gpuward.sim.fleet.fleet import Fleet

_URGENT = {one.name for one in AILMENTS if one.level is Level.P0}
_TAINTED_WITHIN_SECONDS = 600.0


@dataclass(slots=True)
class Told:
    """Counts what a run tells as it is told."""

    truths: list[Happening] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Laws that would have been broken, with the case."""
    lines: int = 0

    def hear(self, happening: Happening) -> None:
        """Count one."""
        self.lines += 1
        if happening.what is What.TRUTH:
            self.truths.append(happening)
        elif happening.what is What.LAW:
            self.broken.append(f"{happening.rule} in {happening.case}")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to. `complaints` is empty when all went as it should."""

    truths: Counter[str]
    states: Counter[str]
    taint_seconds: Sequence[float]
    """From a fault at P0 to the taint, where the node had none before."""
    resets: int
    standbys: int
    replaced: int
    """Pods that were made anew."""
    visits: int
    kills: int
    """Of controllers and agents."""
    complaints: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield it in sentences."""
        ills = sum(count for name, count in self.truths.items() if name in {one.name for one in AILMENTS})
        alarms = self.truths["false alarm"]
        yield f"{many(ills, 'fault')} of GPUs or programs, {many(alarms, 'false alarm')}"
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "none"
        yield f"cases: {states}"
        if self.taint_seconds:
            middle, longest = median(self.taint_seconds), max(self.taint_seconds)
            yield f"from a fault at P0 to the taint: {middle:.2f} s in the middle, {longest:.1f} s at most"
        yield (
            f"{many(self.resets, 'GPU')} reset, {many(self.standbys, 'standby node')} promoted, "
            f"{many(self.replaced, 'pod')} started, {many(self.visits, 'visit')} by a person"
        )
        yield f"controllers and agents: {many(self.kills, 'kill')}"
        yield from self.complaints or ["no law was broken, and nothing is left that no case asks for"]


def summary_of(fleet: Fleet, told: Told) -> Summary:
    """Return what a run came to."""
    cases = list(fleet.witness.seen.cases.values())
    unfounded = leftovers.unfounded(cases, fleet.truths)
    left = leftovers.left_over(fleet.server, fleet.machines, cases)
    deaths = [death for agent in fleet.agents.values() for death in agent.deaths]
    broken = [f"a law was broken: {one}" for one in told.broken]
    return Summary(
        truths=Counter(one.outcome for one in told.truths),
        states=Counter(str(case.state) for case in cases),
        taint_seconds=tuple(_taint_seconds(fleet, told.truths)),
        resets=_done(cases, EffectKind.RESET),
        standbys=_done(cases, EffectKind.PROMOTE),
        replaced=sum(fleet.owners.made.values()),
        visits=fleet.people.visits,
        kills=sum(agent.kills for agent in fleet.agents.values()) + sum(one.lives - 1 for one in fleet.replicas),
        complaints=(*broken, *fleet.crashes, *deaths, *unfounded, *left),
    )


def _taint_seconds(fleet: Fleet, truths: Sequence[Happening]) -> Iterator[float]:
    free_at: dict[str, float] = {}
    for truth in truths:
        if truth.outcome not in _URGENT or truth.at < free_at.get(truth.node, 0.0):
            continue
        after = [at for at in fleet.witness.seen.tainted_at.get(truth.node, ()) if at >= truth.at]
        if after and after[0] - truth.at < _TAINTED_WITHIN_SECONDS:
            free_at[truth.node] = after[0]
            yield after[0] - truth.at


def _done(cases: Sequence[Case], kind: EffectKind) -> int:
    return sum(
        one.kind is kind and one.outcome is Outcome.DONE for case in cases if case.drill is None for one in case.effects
    )
