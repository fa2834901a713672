"""What a case will go through when nothing goes wrong: the table itself, lived through beforehand."""

from dataclasses import replace
from functools import lru_cache

from gpuward.isolation.machine import advance, settle
from gpuward.model.case import ENDED, ON_A_SERVER, TO_A_NODE, Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import NO_GPU, FaultSight, GpuSight, NodeSight, Scene

WAIT = "wait until its work has ended"
PROBATION = "probation"
PERSON = "a person"
_MOST_STEPS = 40


def plan_of(
    case: Case, mode: Mode, *, obstacle: str = "", reach: frozenset[EffectKind] = ON_A_SERVER
) -> tuple[str, ...]:
    """Return the steps of a case from its beginning to its end, or to where a person's turn comes.

    `obstacle`: why its GPU cannot be reset; empty when it can. `reach`: what can be done where it is. Steps are kinds
    of effects, and the words above.
    """
    return _plan_of(_new(case), mode, obstacle=obstacle, reach=reach)


def _new(case: Case) -> Case:
    """Return a case that has just begun, without what tells it from others that go the same way."""
    return Case(
        id="",
        node="",
        gpu="" if case.of_node else "a GPU",
        gpu_uuid=None,
        fault="",
        code=None,
        kind="",
        title="",
        level=case.level,
        fault_class=case.fault_class,
        parks=case.parks,
        opened_at=0.0,
    )


@lru_cache(maxsize=256)
def _plan_of(case: Case, mode: Mode, *, obstacle: str, reach: frozenset[EffectKind]) -> tuple[str, ...]:
    scene = Scene(
        now=case.since,
        mode=mode,
        gpu=NO_GPU if case.of_node else GpuSight(present=True, lost=False, work=("its work",), display=False),
        fault=FaultSight(level=case.level, parks=case.parks, cleared=False, over=False, idle_reason=""),
        brake="",
        budget="",
        obstacle=obstacle,
        relapse="",
        probation_seconds=0.0,
        reach=reach & TO_A_NODE if case.of_node else reach,
        node=NodeSight(answers=not case.of_node, lost=case.of_node),
        victims=("a pod",) if EffectKind.EVICT in reach and case.level is Level.P0 else (),
    )
    steps: list[str] = []
    for _ in range(_MOST_STEPS):
        before = case
        for step in advance(case, scene):
            case = step.after
            steps += [str(effect.kind) for effect in case.effects[len(step.before.effects) :]]
            steps += [PROBATION] if step.move.to is CaseState.PROBATION and not step.move.stays else []
        for effect in case.effects:
            case = settle(case, effect.number, Outcome.DONE, at=scene.now)
        if case.state in ENDED or case.state is CaseState.PARKED:
            break
        if case == before and ((scene.gpu.work, scene.victims) == ((), ()) or case.state is CaseState.SUSPECT):
            break
        if case == before:
            steps.append(WAIT)
            scene = replace(scene, gpu=replace(scene.gpu, work=()), victims=())
    return (*steps, *((PERSON,) if case.state is CaseState.PARKED else ()))
