"""Doubt the sensor before the fleet: how many nodes may look sick in a while, by pool, rack and kind of fault.

A brake counts nodes that look sick, whether they were taken out or wait to be. Beyond the most that its terms allow it
holds, and lets one node through each window as a trial, until fewer look sick. What it holds is only new isolation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor

from gpuward.model.counted import many
from gpuward.model.level import FaultClass


@dataclass(frozen=True, slots=True)
class FleetBrake:
    """At most `share` of the nodes of a scope, never more than `nodes`, at least `least`, in `window_seconds`."""

    share: float = 0.2
    nodes: int | None = None
    least: int = 2
    window_seconds: float = 600.0

    @property
    def fewest(self) -> int:
        """How many may look sick whatever the size."""
        return self.least if self.nodes is None else min(self.least, self.nodes)

    def most(self, size: int) -> int:
        """Return how many nodes of a scope of this size may look sick."""
        share = max(self.least, floor(self.share * size))
        return share if self.nodes is None else min(share, self.nodes)


@dataclass(frozen=True, slots=True)
class FleetBrakes:
    """The brakes of a pool: for all of it, for each rack, and for each kind of fault within it."""

    pool: FleetBrake = field(default_factory=FleetBrake)
    rack: FleetBrake = field(default_factory=lambda: FleetBrake(share=0.5))
    kind: FleetBrake = field(default_factory=FleetBrake)


@dataclass(frozen=True, slots=True)
class Berth:
    """Where a node stands: its pool and its rack, empty where nobody says; and the brakes there."""

    node: str
    pool: str
    rack: str
    brakes: FleetBrakes


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a decision about one node must know of all others."""

    held: str = ""
    """Why a brake holds every new isolation of the node, in a sentence; empty when none does."""
    held_kinds: Mapping[str, str] = field(default_factory=dict)
    """Why a brake holds a kind of fault there, by its name (`xid:79`, `node_lost`)."""
    out: tuple[FaultClass, ...] = ()
    """Whose fault took each GPU of the pool's other nodes out of service."""
    jobs: Mapping[str, str] = field(default_factory=dict)
    """By fault, why it is the fault of the job that runs there, in a sentence."""

    def holds(self, kind: str) -> str:
        """Return why a new isolation for this kind of fault must wait, empty when it need not."""
        return self.held or self.held_kinds.get(kind, "")


UNBRAKED = FleetBrakes(*(FleetBrake(least=1_000_000) for _ in range(3)))
"""Brakes that never hold."""
ALONE = Fleet()
"""The fleet of a server alone."""


def fault_name(kind: str, code: int | None) -> str:
    """Return the name of a kind of fault as settings spell it: `xid:79`, `sxid:12028`, `rm_init_failed`."""
    family = next((name for name in ("sxid", "xid") if kind.startswith(name)), None)
    return f"{family}:{code}" if family is not None and code is not None else kind


@dataclass(frozen=True, slots=True)
class _Scope:
    what: str
    pool: str
    name: str = ""


class Tally:
    """Counts the nodes that look sick at one moment, and those that were taken out within the window of each scope.

    `berths`: every node that has GPUs. `now` is in Unix seconds.
    """

    def __init__(self, berths: Iterable[Berth], *, now: float) -> None:
        self._now = now
        self._berths = berths
        self._counted: dict[_Scope, int] = {}
        self._sick: dict[_Scope, set[str]] = {}
        self._isolated: dict[_Scope, set[str]] = {}

    def look_sick(self, berth: Berth, kind: str, *, at: float, waits: bool) -> None:
        """Count a node: its trouble began at `at`; one that still `waits` to be taken out counts however old it is."""
        for scope, brake in _scopes(berth, kind):
            if waits or abs(self._now - at) < brake.window_seconds:
                self._sick.setdefault(scope, set()).add(berth.node)

    def isolate(self, berth: Berth, kind: str, *, at: float) -> None:
        """Count a node that was taken out at `at`."""
        for scope, brake in _scopes(berth, kind):
            # A moment far ahead is from before the clock was set back: it says nothing.
            if abs(self._now - at) < brake.window_seconds:
                self._isolated.setdefault(scope, set()).add(berth.node)
                self._sick.setdefault(scope, set()).add(berth.node)

    def holds(self, berth: Berth) -> str:
        """Return why every new isolation of a node must wait, empty when none need."""
        if not self._isolated:
            return ""
        return next((why for scope, brake in _scopes(berth) if (why := self._why(scope, brake))), "")

    def holds_kinds(self, berth: Berth) -> dict[str, str]:
        """Return why new isolation for a kind of fault must wait, by the names of those that must."""
        kinds = [scope for scope in self._sick if scope.what == _KIND and scope.pool == berth.pool]
        return {scope.name: why for scope in kinds if (why := self._why(scope, berth.brakes.kind))}

    def _sizes(self) -> dict[_Scope, int]:
        """Return how many nodes each scope has; they are counted when it is first asked for."""
        if not self._counted:
            for berth in self._berths:
                for scope, _ in _scopes(berth):
                    self._counted[scope] = self._counted.get(scope, 0) + 1
        return self._counted

    def _why(self, scope: _Scope, brake: FleetBrake) -> str:
        sick = len(self._sick.get(scope, ()))
        if sick <= brake.fewest or not self._isolated.get(scope):
            return ""
        size = self._sizes().get(_Scope(_POOL, scope.pool) if scope.what == _KIND else scope, 0)
        if sick <= brake.most(size):
            return ""
        minutes = f"{brake.window_seconds / 60:g} min"
        return (
            f"of the {many(size, 'node')} of {_where(scope)} more than {brake.most(size)} look sick within {minutes}, "
            f"which is doubted; one is taken out each {minutes} until they are fewer"
        )


_POOL, _RACK, _KIND = "pool", "rack", "kind"


def _scopes(berth: Berth, kind: str = "") -> Iterable[tuple[_Scope, FleetBrake]]:
    yield _Scope(_POOL, berth.pool), berth.brakes.pool
    if berth.rack:
        yield _Scope(_RACK, berth.pool, berth.rack), berth.brakes.rack
    if kind:
        yield _Scope(_KIND, berth.pool, kind), berth.brakes.kind


def _where(scope: _Scope) -> str:
    match scope.what:
        case "kind":
            return f"pool {scope.pool} with {scope.name}"
        case "rack":
            return f"rack {scope.name} in pool {scope.pool}"
        case _:
            return f"pool {scope.pool}"
