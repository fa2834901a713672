"""Moves a case by the table: the first row that holds, its effects asked for. Which rows there are is in the table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuward.isolation.boot_conditions import is_lifted
from gpuward.isolation.conditions import NOT_DONE
from gpuward.isolation.move import Move
from gpuward.isolation.node_conditions import is_tainting
from gpuward.isolation.table import MOVES, moves_from
from gpuward.isolation.ticket import in_a_line
from gpuward.model.case import ENDED, Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.scene import Scene

MOST_MOVES = 12
"""Moves of one case at one moment; a way of more is a circle."""


REPAIRS = frozenset({EffectKind.PAUSE, EffectKind.RESET, EffectKind.REBOOT})
"""What only mode repair asks for."""
TOUCHES = REPAIRS | {
    *(EffectKind.DRAIN, EffectKind.TAINT, EffectKind.PROMOTE, EffectKind.NOTICE, EffectKind.EVICT, EffectKind.CLEAR),
}
"""What changes the machine, but for the undoing of it: not asked for in mode observe."""
_FORGONE: dict[Mode, frozenset[EffectKind]] = {Mode.OBSERVE: TOUCHES, Mode.ISOLATE: REPAIRS, Mode.REPAIR: frozenset()}


@dataclass(frozen=True, slots=True)
class Step:
    """One row that fired: the case before and after, and the sentence."""

    move: Move
    before: Case
    after: Case


BEING_TOLD = "Jobs that asked for it are told now, where there are any."
"""What is said before it is known who was told."""


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
    for move in moves_from(case.state, moves, case=case):
        if move.condition(case, scene):
            after = _moved(case, move, scene)
            return None if after == case else Step(move, case, after)
    return None


def ask(case: Case, order: Order, *, forced: bool = False) -> Case:
    """Return the case with a person's order; what was tried before does not count against it.

    `forced`: the reset is wanted although this model and driver were never qualified.

    Only a parked case is tried again, and not while it is being released; only one that has not ended is released.
    """
    is_parked = case.state is CaseState.PARKED and case.order is not Order.RELEASE
    if case.state in ENDED or (order is Order.RETRY and not is_parked):
        return case
    if order is Order.APPROVE:
        return replace(case, approved=True)
    if order is Order.OFF:
        return replace(case, off=case.of_node)
    return replace(case, order=order, entered_with=len(case.effects), forced=case.forced or forced)


def forgo(case: Case, mode: Mode, *, at: float) -> Case:
    """Return the case for an agent that begins in `mode`: what was asked for before and is not allowed now is not done.

    Whether it was done before the agent ended is not known, so it counts as a mark.
    """
    for effect in case.effects:
        if effect.outcome is Outcome.ASKED and effect.kind in _FORGONE[case.drill or mode]:
            why = f"the agent ended before it was known, and mode {mode} does not allow it"
            case = settle(case, effect.number, Outcome.FAILED, at=at, why=why)
    return case


def settle(case: Case, number: int, outcome: Outcome, *, at: float, why: str = "", boot: str = "") -> Case:
    """Return the case with the outcome of an effect, ordered on `boot`; an outcome that is known already stands."""
    effects = tuple(
        replace(effect, outcome=outcome, ended_at=at, why=why, boot=boot)
        if effect.number == number and effect.outcome is Outcome.ASKED
        else effect
        for effect in case.effects
    )
    return replace(case, effects=effects)


def shift(case: Case, seconds: float) -> Case:
    """Return the case as if its clock had always shown what it shows since it was set by `seconds`.

    What is counted in spans, such as a probation or the resets of a day, then goes on as if nobody had set it.
    """
    return replace(
        case,
        opened_at=case.opened_at + seconds,
        since=case.since + seconds,
        effects=tuple(
            replace(
                effect,
                asked_at=effect.asked_at + seconds,
                ended_at=None if effect.ended_at is None else effect.ended_at + seconds,
            )
            for effect in case.effects
        ),
    )


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
    return _asked(_let_go(entered, at=scene.now), move.effects, scene)


def _let_go(case: Case, *, at: float) -> Case:
    """Return the case; a drill that has ended waits for no outcome: nothing of it stands on the machine."""
    if case.drill is None or case.state not in ENDED:
        return case
    for effect in case.effects:
        case = settle(case, effect.number, Outcome.FAILED, at=at, why="the drill was over before")
    return case


def _asked(case: Case, effects: Iterable[EffectKind], scene: Scene) -> Case:
    """Return the case with the effects asked for that are not idle: nothing is undone twice, or drained twice."""
    for kind in effects:
        if _is_needed(kind, case, scene) and (scene.mode is not Mode.OBSERVE or kind not in TOUCHES):
            effect = Effect(number=len(case.effects) + 1, kind=kind, asked_at=scene.now)
            case = replace(case, effects=(*case.effects, effect))
            if kind is EffectKind.REBOOT:
                case = replace(case, boot=scene.node.boot)
            if kind is EffectKind.EVICT:
                case = replace(case, victims=tuple(dict.fromkeys((*case.victims, *(scene.victims or ())))))
    return case


def _is_needed(kind: EffectKind, case: Case, scene: Scene) -> bool:
    return kind in scene.reach and _NEEDED.get(kind, _always)(case, scene)


def _always(_case: Case, _scene: Scene) -> bool:
    return True


def _was_done(kind: EffectKind, case: Case) -> bool:
    return any(effect.kind is kind and effect.outcome is Outcome.DONE for effect in case.effects)


_NEEDED: dict[EffectKind, Callable[[Case, Scene], bool]] = {
    EffectKind.DRAIN: lambda case, scene: not case.marks.drained or is_lifted(case, scene),
    EffectKind.UNDRAIN: lambda case, _scene: case.marks.drained,
    EffectKind.RESTORE: lambda case, _scene: case.marks.altered,
    EffectKind.TAINT: lambda case, _scene: not is_tainting(case),
    EffectKind.UNTAINT: lambda case, _scene: case.marks.tainted,
    EffectKind.PROMOTE: lambda case, _scene: not _was_done(EffectKind.PROMOTE, case),
    EffectKind.EVICT: lambda case, scene: bool(scene.victims) and case.drill is None,
    EffectKind.CLEAR: lambda case, scene: bool(scene.victims) and case.drill is None,
}
"""When an effect changes something; those that are not here always do."""


def _fill(sentence: str, case: Case, scene: Scene) -> str:
    return sentence.format(
        brake=scene.brake,
        budget=scene.budget,
        obstacle=scene.obstacle,
        relapse=scene.relapse,
        overtaken=scene.overtaken,
        due=case.due,
        idle_reason=scene.fault.idle_reason,
        it="node" if case.of_node else "GPU",
        off=scene.node.off or "A person says so.",
        waits=scene.reboot.waits,
        ticket=in_a_line(case),
        work=_work(case, scene),
        victims="not known" if scene.victims is None else ", ".join(scene.victims),
        saving=scene.saving,
        saves=f"Jobs save their state: {scene.saving}" if scene.saving else BEING_TOLD,
        saved=scene.saved,
        standby=scene.standby,
        job=scene.job_fault,
        ended=_spared(scene) or "Its work has ended.",
        free=_spared(scene) or "No work holds the GPU.",
        why=_why(case),
    )


def _spared(scene: Scene) -> str:
    """Return what a drill says in place of that its work is gone; empty where nobody was spared."""
    return (
        scene.spared and f"In a drill nobody is waited for; a real case would wait for its work here: {scene.spared}."
    )


def _work(case: Case, scene: Scene) -> str:
    """Return what is waited for, in words: of a whole node, its pods; of a GPU, who runs on it, or else may again."""
    if scene.spared:
        return scene.spared
    waited_for = scene.victims if case.of_node else scene.gpu.work
    if waited_for == () and scene.keepers:
        return f"{', '.join(scene.keepers)}, which has it and may go on"
    return "not known" if waited_for is None else ", ".join(waited_for) or "it has ended"


def _why(case: Case) -> str:
    """Return why the newest effect that did not succeed did not."""
    failed = next((effect for effect in reversed(case.effects) if effect.outcome in NOT_DONE), None)
    return "" if failed is None else failed.why or f"{failed.kind} {failed.outcome}"
