"""How the whole fleet looks in one round: what the brakes count, and which GPUs are out of service in each pool."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuward.controller.gather import Picture
from gpuward.controller.outcomes import is_open
from gpuward.controller.terms import Terms
from gpuward.controller.views import NodeView, labels_of
from gpuward.isolation.decide import Snapshot, acts, is_out
from gpuward.isolation.fleet import Berth, Fleet, Tally, fault_name
from gpuward.model.case import ENDED, Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.settings.pools import PoolTerms

if TYPE_CHECKING:
    from gpuward.model.level import FaultClass

_OUT = frozenset({EffectKind.DRAIN, EffectKind.TAINT})
"""What takes a GPU, or its node, out of service."""


class Berths:
    """Where each node stands, told anew only when its labels may have changed."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._known: dict[str, tuple[NodeView | None, Berth, PoolTerms]] = {}

    @property
    def longest_seconds(self) -> float:
        """How long ago a case may have ended and still be counted."""
        brakes = [pool.brakes for pool in (self._terms.of({}), *self._terms.pools)]
        return max(brake.window_seconds for one in brakes for brake in (one.pool, one.rack, one.kind))

    def of(self, name: str, node: NodeView | None) -> Berth:
        """Return where a node stands."""
        return self._of(name, node)[1]

    def may_act(self, name: str, node: NodeView | None) -> bool:
        """Return whether anything may be done there without a person's word."""
        pool = self.pool(name, node)
        return pool.mode is not Mode.OBSERVE and not pool.approval

    def pool(self, name: str, node: NodeView | None) -> PoolTerms:
        """Return the terms of a node."""
        return self._of(name, node)[2]

    def _of(self, name: str, node: NodeView | None) -> tuple[NodeView | None, Berth, PoolTerms]:
        known = self._known.get(name)
        if known is None or known[0] is not node:
            labels = labels_of(node)
            pool = self._terms.of(labels)
            berth = Berth(name, pool.name, labels.get(self._terms.rack_label, ""), pool.brakes)
            known = (node, berth, pool)
            self._known[name] = known
        return known


class Census:
    """The nodes that look sick and the GPUs that are out, when a round begins and as its decisions change it."""

    def __init__(self, picture: Picture, berths: Berths, *, now: float) -> None:
        self._nodes = picture.nodes.objects
        self._berths = berths
        self._now = now
        self._paused = picture.paused()
        self._out: dict[str, dict[str, list[FaultClass]]] = {}
        self._tally = Tally((self._berth(name) for name in picture.gpu_nodes.objects), now=now)
        for case in _mattering(picture.cases.objects.values(), since=now - berths.longest_seconds):
            self._count(case)

    def expect(self, snapshots: Iterable[Snapshot]) -> None:
        """Count the nodes whose faults will open a case in this round, all of them before the first is decided on."""
        for seen in snapshots:
            known = {case.fault for case in seen.cases}
            for fault in seen.faults:
                if acts(fault) and fault.id not in known:
                    self._tally.look_sick(
                        self._berth(seen.node), fault_name(fault.kind, fault.code), at=self._now, waits=False
                    )

    def of(self, name: str) -> Fleet:
        """Return what a decision about a node must know of the others. One that is out already is held by no brake."""
        berth = self._berth(name)
        out = self._out.get(berth.pool, {})
        elsewhere = tuple(one for node, classes in out.items() if node != name for one in classes)
        if name in out:
            return Fleet(out=elsewhere)
        return Fleet(held=self._tally.holds(berth), held_kinds=self._tally.holds_kinds(berth), out=elsewhere)

    def note(self, name: str, cases: Sequence[Case]) -> None:
        """Take in what was decided about a node, so that the next decision of the round counts it."""
        self._out.get(self._berth(name).pool, {}).pop(name, None)
        for case in cases:
            if case.drill is None and is_open(case):
                self._count(case)

    def held(self, name: str) -> str:
        """Return why no GPU of a node may be taken out, also by its agent alone; empty when one may."""
        return self._paused or self._tally.holds(self._berth(name))

    def _berth(self, name: str) -> Berth:
        return self._berths.of(name, self._nodes.get(name))

    def _count(self, case: Case) -> None:
        berth, kind = self._berth(case.node), fault_name(case.kind, case.code)
        may_act = self._berths.may_act(case.node, self._nodes.get(case.node)) or case.approved
        isolated_at = _isolated_at(case)
        if case.state is not CaseState.WITHDRAWN:
            waits = case.state is CaseState.SUSPECT and may_act
            self._tally.look_sick(berth, kind, at=case.opened_at, waits=waits)
        if isolated_at is not None:
            self._tally.isolate(berth, kind, at=isolated_at)
        if is_open(case) and is_out(case):
            self._out.setdefault(berth.pool, {}).setdefault(case.node, []).append(case.fault_class)


def _isolated_at(case: Case) -> float | None:
    asked = (one for one in case.effects if one.kind in _OUT and one.outcome is not Outcome.REFUSED)
    return next((one.asked_at for one in asked), None)


def _mattering(cases: Iterable[GpuCase], *, since: float) -> Iterator[Case]:
    """Yield the cases that go on, and those that ended lately; drills are none."""
    for one in cases:
        status = one.status
        ended_before = status is not None and status.state in ENDED and status.since < since
        if one.spec.drill is None and not ended_before:
            yield as_case(one)
