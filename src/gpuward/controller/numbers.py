"""What can be told of a controller when somebody asks: its numbers, whether it lives, whether it is ready."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuward.controller.gather import Picture
from gpuward.controller.loop import Controller
from gpuward.controller.outcomes import is_open
from gpuward.controller.pace import Pace
from gpuward.controller.perform import OLDEST_SECONDS
from gpuward.controller.terms import Terms
from gpuward.controller.views import labels_of
from gpuward.isolation.announcing import held_by
from gpuward.model.case import Case
from gpuward.model.objects.gpu_case import as_case

if TYPE_CHECKING:
    from gpuward.controller.mirror import Mirror

STUCK_SECONDS = 600.0
"""A leader of which no round has ended for so long is stuck: longer than the calls of one round can take."""
Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether it is well, and how it stands, in a sentence."""

    good: bool
    says: str


class Numbers:
    """Looks at one controller; changes nothing. `leads` as the controller has it."""

    def __init__(self, controller: Controller, *, pace: Pace, terms: Terms, leads: Callable[[], bool]) -> None:
        self._controller = controller
        self._pace = pace
        self._terms = terms
        self._leads = leads
        self._led_since: float | None = None

    def samples(self) -> dict[str, Values]:
        """Return all that is looked at, by metric and by the values of its labels."""
        picture, events = self._controller.picture, self._controller.voice.events
        cases = [case for one in picture.cases.objects.values() if is_open(case := as_case(one)) and case.drill is None]
        pools = picture.pools.objects.items()
        return {
            "gpuward_leader": {(): float(self._leads())},
            "gpuward_cases_open": Counter((str(one.state), str(one.level), str(one.fault_class)) for one in cases),
            "gpuward_cases_held": Counter((by, self._pool(one)) for one in cases if (by := held_by(one))),
            "gpuward_nodes": self._nodes(picture),
            "gpuward_agents_silent": {(): float(len(self._controller.voice.agents.silent))},
            "gpuward_standby_ready": {(name,): float(len(one.status.ready)) for name, one in pools if one.status},
            "gpuward_standby_short": {(name,): float(one.status.short) for name, one in pools if one.status},
            "gpuward_round_nodes": {(): float(self._controller.newest.nodes)},
            "gpuward_picture_age_seconds": {(kind,): age for kind, age in self._ages().items() if age is not None},
            "gpuward_pruned_total": {(kind,): float(count) for kind, count in self._controller.pruner.taken.items()},
            "gpuward_events_written_total": {(): float(events.written)},
            "gpuward_events_dropped_total": {(): float(events.dropped)},
        }

    def health(self) -> Health:
        """Return whether it lives: it answers, and if it leads, its rounds come to an end."""
        if not self._leads():
            self._led_since = None
            return Health(good=True, says="following")
        now = self._pace.clock.monotonic()
        self._led_since = now if self._led_since is None else self._led_since
        age = now - max(self._controller.ended_at or self._led_since, self._led_since)
        return Health(good=age < STUCK_SECONDS, says=f"leading, the newest round ended {age:.1f} s ago")

    def readiness(self) -> Health:
        """Return whether it could lead at this moment: it has seen the whole cluster, and lately."""
        ages = self._ages()
        unseen = [kind for kind, age in ages.items() if age is None]
        if unseen:
            return Health(good=False, says=f"not seen yet: {', '.join(unseen)}")
        old = [f"{kind} {age:.0f} s" for kind, age in ages.items() if age is not None and age >= OLDEST_SECONDS]
        if old:
            return Health(good=False, says=f"nothing heard for long: {', '.join(old)}")
        return Health(good=True, says="leading" if self._leads() else "following")

    def _ages(self) -> dict[str, float | None]:
        picture = self._controller.picture
        mirrors: dict[str, Mirror[Any]] = {
            "nodes": picture.nodes,
            "gpu_nodes": picture.gpu_nodes,
            "faults": picture.faults,
            "cases": picture.cases,
            "pools": picture.pools,
            "pause": picture.pause,
        }
        return {kind: mirror.age_seconds() for kind, mirror in mirrors.items()}

    def _nodes(self, picture: Picture) -> Values:
        """Return how many GPU nodes say what; one that says nothing yet is unknown."""
        nodes = (picture.nodes.objects.get(name) for name in picture.gpu_nodes.objects)
        said = (None if node is None else node.condition for node in nodes)
        return Counter((("Unknown" if one is None else str(one.get("status"))),) for one in said)

    def _pool(self, case: Case) -> str:
        node = self._controller.picture.nodes.objects.get(case.node)
        return self._terms.of(labels_of(node)).name
