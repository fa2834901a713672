"""Marks that were taken for undone because their node had left the cluster, and stand when it is there again.

The case has ended by then. Its own order to undo is given once more, under another name: to lift a drain as long as the
agent says that gpuward has the GPU drained, and to start what was stopped once, both on the boot of the mark alone.
What came of it is written in the case, which ends that. An agent says of no drain that it is gpuward's where it knows
that a person has set it; of one that a person set again on the same boot, after gpuward's was lifted by hand, it may.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuward.controller.gather import Picture
from gpuward.controller.latecomers import goes_on
from gpuward.controller.outcomes import UNDOES, is_taken_for_undone, order_id
from gpuward.controller.pace import Pace
from gpuward.controller.record import Tell, write_status
from gpuward.controller.views import GpuNodeView
from gpuward.isolation.announcing import MARK_STAYS
from gpuward.model.case import Case, Effect, EffectKind, Outcome
from gpuward.model.happening import Happening, What
from gpuward.model.objects.gpu_case import GpuCase, TimelineEntry, as_case
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.objects.gpu_node import GpuState, OrderAnswer
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES
from gpuward.ports import Cluster, Conflict

_BY_US = frozenset({GpuState.DRAINING, GpuState.IDLE})
"""How an agent tells of a GPU that it has drained itself, for a case or alone."""
_STANDS: Mapping[EffectKind, frozenset[GpuState]] = {
    EffectKind.UNDRAIN: _BY_US,
    EffectKind.RESTORE: _BY_US | {GpuState.ACTIVE},
}
"""As what its agent tells of a GPU on which each undo may be owed; that services were stopped no agent tells."""
_MARKS: Mapping[EffectKind, frozenset[EffectKind]] = {
    EffectKind.UNDRAIN: frozenset({EffectKind.DRAIN}),
    EffectKind.RESTORE: frozenset({EffectKind.DRAIN, EffectKind.PAUSE}),
}
"""What each undo undoes."""
_BY_HAND: Mapping[EffectKind, str] = {
    EffectKind.UNDRAIN: "the GPU is still drained: {why}; lift it by hand: `nvidia-smi drain -p {pci}.0 -m 0`",
    EffectKind.RESTORE: "services or persistence mode may still be off: {why}; put them back by hand",
}
"""What is to be done where an undo failed."""
SINCE = "its node had left the cluster, and came back without a boot: it was tried then: {outcome}"
"""Kept in the case in place of outcomes.GONE: nothing is owed any more."""


class Returned:
    """Has marks undone that stand on nodes that came back."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace, tell: Tell) -> None:
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._tell = tell

    def owed(self, name: str, view: GpuNodeView) -> list[Case]:
        """Return the cases of a node whose undoing is asked for again; none while there is no such node."""
        cases = self._picture.cases.of(name)
        if name not in self._picture.nodes.objects or not any(map(_may_owe, cases)):
            return []
        return owed_again(cases, self._picture.faults.of(name), view)

    async def settle(self, name: str, view: GpuNodeView) -> None:
        """Write in its case what an agent has answered; what stays is told, once. Raises Unreachable or Refused."""
        for case in self.owed(name, view):
            answered = list(_answered(case, view.answers))
            found = self._picture.cases.objects.get(case.id)
            if answered and found is not None:
                await self._write(found, answered)

    async def _write(self, found: GpuCase, answered: Sequence[tuple[Effect, OrderAnswer]]) -> None:
        if found.status is None:
            return
        now, said = self._pace.clock.now(), _said(found, answered)
        whys = {effect.number: SINCE.format(outcome=answer.why or answer.outcome) for effect, answer in answered}
        status = replace(
            found.status,
            effects=tuple(replace(one, why=whys.get(one.number, one.why)) for one in found.status.effects),
            because=said or found.status.because,
            timeline=(*found.status.timeline, *([TimelineEntry(now, What.SAID, said)] if said else []))[-128:],
        )
        try:
            written = await write_status(self._cluster, GPU_CASES, found.head, status=write(status))
        except Conflict:
            return  # the next round sees it as it is
        self._picture.cases.learn(written)
        if said:
            gpu = found.spec.gpu or ""
            self._tell(Happening(now, What.SAID, found.spec.node, gpu=gpu, case=found.head.name, because=said))


def owed_again(cases: Sequence[GpuCase], faults: Iterable[GpuFault], view: GpuNodeView) -> list[Case]:
    """Return the ended cases of a node whose marks still stand, with the undoing asked for again.

    None of a GPU that another case works on, or a fault of which was not judged: its agent may have drained it alone.
    """
    busy = {one.spec.gpu for one in cases if goes_on(one)}
    busy |= {one.spec.gpu for one in faults if one.is_due}
    ended = [as_case(one) for one in cases if not goes_on(one) and one.spec.drill is None and one.spec.gpu not in busy]
    owed: dict[str, Case] = {}
    for pci in sorted({case.gpu for case in ended}):
        for undo in sorted(UNDOES):
            for case, effect in _debt([one for one in ended if one.gpu == pci], undo, view):
                owed[case.id] = _asked_again(owed.get(case.id, case), effect)
    return list(owed.values())


def _may_owe(found: GpuCase) -> bool:
    return found.status is not None and any(map(is_taken_for_undone, found.status.effects))


def _debt(of_gpu: Sequence[Case], undo: EffectKind, view: GpuNodeView) -> Iterator[tuple[Case, Effect]]:
    """Yield the newest undo of the newest case that had set or undone the mark, if nobody did it and it may stand."""
    kinds = _MARKS[undo] | {undo}
    touching = [case for case in of_gpu if _newest(case, kinds) is not None]
    case = max(touching, key=lambda one: one.since, default=None)
    if case is None:
        return
    effect = _newest(case, frozenset({undo}))
    # No mark outlives a boot.
    boots = {one.boot for one in case.effects if one.kind in _MARKS[undo] and one.outcome is not Outcome.REFUSED}
    if effect is None or not is_taken_for_undone(effect) or view.known_boot not in boots:
        return
    is_given = view.spec is not None and any(one.id == order_id(case, effect) for one in view.spec.orders)
    if is_given or any(gpu.pci == case.gpu and gpu.state in _STANDS[undo] for gpu in view.gpus):
        yield case, effect


def _newest(case: Case, kinds: frozenset[EffectKind]) -> Effect | None:
    found = (one for one in reversed(case.effects) if one.kind in kinds and one.outcome is not Outcome.REFUSED)
    return next(found, None)


def _asked_again(case: Case, effect: Effect) -> Case:
    effects = (replace(one, outcome=Outcome.ASKED) if one.number == effect.number else one for one in case.effects)
    return replace(case, effects=tuple(effects))


def _answered(case: Case, answers: Mapping[str, OrderAnswer]) -> Iterator[tuple[Effect, OrderAnswer]]:
    for effect in case.effects:
        answer = answers.get(order_id(case, effect)) if effect.outcome is Outcome.ASKED else None
        if answer is not None and answer.outcome is not Outcome.ASKED:
            yield effect, answer


def _said(found: GpuCase, answered: Sequence[tuple[Effect, OrderAnswer]]) -> str:
    """Return in a sentence which marks stay, and what to do by hand; empty where none does."""
    pci = (found.spec.gpu or "").upper()
    left = [
        _BY_HAND[effect.kind].format(why=answer.why or answer.outcome, pci=pci)
        for effect, answer in answered
        if answer.outcome is not Outcome.DONE
    ]
    return f"{MARK_STAYS} {'; '.join(left)}." if left else ""
