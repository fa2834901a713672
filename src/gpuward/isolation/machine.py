"""Moves a case by the table: the first row that holds, its effects asked for. Which rows there are is in the table."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuward.isolation.conditions import NOT_DONE
from gpuward.isolation.table import MOVES, Move, moves_from
from gpuward.model.case import ENDED, Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.scene import Scene

MOST_MOVES = 12
"""Moves of one case at one moment; a way of more is a circle."""


REPAIRS = frozenset({EffectKind.PAUSE, EffectKind.RESET})
"""What only mode repair asks for."""
TOUCHES = REPAIRS | {EffectKind.DRAIN}
"""What changes the machine, but for the undoing of it: not asked for in mode observe."""
_FORGONE: dict[Mode, frozenset[EffectKind]] = {Mode.OBSERVE: TOUCHES, Mode.ISOLATE: REPAIRS, Mode.REPAIR: frozenset()}


@dataclass(frozen=True, slots=True)
class Step:
    """One row that fired: the case before and after, and the sentence."""

    move: Move
    before: Case
    after: Case


def advance(case: Case, scene: Scene, *, moves: Sequence[Move] = MOVES) -> Iterator[Step]:
    """Yield the steps of a case at one moment, until no row changes it or an effect is under way."""
    for _ in range(MOST_MOVES):
        step = next_step(case, scene, moves=moves)
        if step is None:
            return
        yield step
        case = step.after


def next_step(case: Case, scene: Scene, *, moves: Sequence[Move] = MOVES) -> Step | None:
    """Return the step that the table asks for, None when the case stays as it is."""
    for move in moves_from(case.state, moves):
        if move.condition(case, scene):
            after = _moved(case, move, scene)
            return None if after == case else Step(move, case, after)
    return None


def ask(case: Case, order: Order) -> Case:
    """Return the case with a person's order; what was tried before does not count against it.

    Only a parked case is tried again, and not while it is being released; only one that has not ended is released.
    """
    is_parked = case.state is CaseState.PARKED and case.order is not Order.RELEASE
    if case.state in ENDED or (order is Order.RETRY and not is_parked):
        return case
    return replace(case, order=order, entered_with=len(case.effects))


def forgo(case: Case, mode: Mode, *, at: float) -> Case:
    """Return the case for an agent that begins in `mode`: what was asked for before and is not allowed now is not done.

    Whether it was done before the agent ended is not known, so it counts as a mark.
    """
    for effect in case.effects:
        if effect.outcome is Outcome.ASKED and effect.kind in _FORGONE[mode]:
            why = f"the agent ended before it was known, and mode {mode} does not allow it"
            case = settle(case, effect.number, Outcome.FAILED, at=at, why=why)
    return case


def settle(case: Case, number: int, outcome: Outcome, *, at: float, why: str = "") -> Case:
    """Return the case with the outcome of an effect; an outcome that is known already stands."""
    effects = tuple(
        replace(effect, outcome=outcome, ended_at=at, why=why)
        if effect.number == number and effect.outcome is Outcome.ASKED
        else effect
        for effect in case.effects
    )
    return replace(case, effects=effects)


def _moved(case: Case, move: Move, scene: Scene) -> Case:
    said = _fill(move.say, case, scene)
    if move.stays:
        return _asked(replace(case, because=said), move.effects, scene)
    entered = replace(
        case,
        state=move.to,
        since=scene.now,
        entered_with=len(case.effects),
        because=said,
        due=_fill(move.due, case, scene),
        order=None,
        level=max(case.level, scene.fault.level),
    )
    return _asked(entered, move.effects, scene)


def _asked(case: Case, effects: Iterable[EffectKind], scene: Scene) -> Case:
    """Return the case with the effects asked for that are not idle: nothing is undone twice, or drained twice."""
    for kind in effects:
        if _is_needed(kind, case) and (scene.mode is not Mode.OBSERVE or kind not in TOUCHES):
            effect = Effect(number=len(case.effects) + 1, kind=kind, asked_at=scene.now)
            case = replace(case, effects=(*case.effects, effect))
    return case


def _is_needed(kind: EffectKind, case: Case) -> bool:
    marks = case.marks
    if kind is EffectKind.DRAIN:
        return not marks.drained
    if kind is EffectKind.UNDRAIN:
        return marks.drained
    return kind is not EffectKind.RESTORE or marks.altered


def _fill(sentence: str, case: Case, scene: Scene) -> str:
    return sentence.format(
        brake=scene.brake,
        budget=scene.budget,
        obstacle=scene.obstacle,
        relapse=scene.relapse,
        idle_reason=scene.fault.idle_reason,
        work="not known" if scene.gpu.work is None else ", ".join(scene.gpu.work) or "it has ended",
        why=_why(case),
    )


def _why(case: Case) -> str:
    """Return why the newest effect that did not succeed did not."""
    failed = next((effect for effect in reversed(case.effects) if effect.outcome in NOT_DONE), None)
    return "" if failed is None else failed.why or f"{failed.kind} {failed.outcome}"
