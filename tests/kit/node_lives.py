"""Lives of the case of a whole node: it is lost, off, gone, or answers again; every step held against the laws."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpuward.isolation.move import Move
from gpuward.isolation.node_conditions import PROVE_AGAIN_SECONDS
from gpuward.isolation.table import MOVES
from gpuward.model.case import TO_A_NODE, Case, CaseState, EffectKind, Mode, Order, Outcome
from gpuward.model.level import FaultClass
from gpuward.model.scene import NO_GPU, NodeSight, Scene
from tests.kit.lives import PROBATION_SECONDS, Life, a_case, a_scene

LOST = NodeSight(answers=False, lost=True)
AWAY = NodeSight(answers=False)
OFF = NodeSight(answers=False, lost=True, off="It wears the taint.")
GONE = NodeSight(answers=False, gone=True, off="There is no such node.")
ANSWERS = NodeSight()
BACK = NodeSight(back=True)
PODS = ("ml/a", "ml/b")


def a_lost_node(**changes: Any) -> Case:
    """Return a new case of a whole node."""
    whole: dict[str, Any] = {
        "gpu": "",
        "gpu_uuid": None,
        "code": None,
        "kind": "node_lost",
        "title": "the node does not answer",
        "fault": "gpu-1.b1.lost-1",
        "fault_class": FaultClass.UNKNOWN,
    }
    return a_case(**{**whole, **changes})


def a_node_scene(node: NodeSight = LOST, **changes: Any) -> Scene:
    """Return a scene of a node that is lost, with pods on it, in mode isolate."""
    seen: dict[str, Any] = {"victims": PODS, "mode": Mode.ISOLATE, "reach": TO_A_NODE, "cleared": node.answers}
    return replace(a_scene(**{**seen, "over": node.answers, **changes}), gpu=NO_GPU, node=node)


def chance_node_life(seed: int, *, moves: Sequence[Move] = MOVES, steps: int = 40) -> Life:
    """Return a life of chance, ended by healing: the node answers for good, a person releases what is parked."""
    chance = random.Random(seed)  # noqa: S311  a seed is the whole bug report
    life = Life(case=a_lost_node(), moves=moves)
    scene = a_node_scene(unapproved=chance.random() < 0.05, mode=chance.choice([Mode.ISOLATE, *Mode]))
    odds = chance.choice([(6, 1, 1), (6, 1, 1), (1, 1, 1), (0, 1, 1)])
    for _ in range(steps):
        scene = _changed(replace(scene, now=scene.now + chance.choice([0.0, 1.0, 60.0, 700.0])), chance)
        scene = replace(scene, unapproved=scene.unapproved and not life.case.approved)
        if chance.random() < 0.08:
            life.order(chance.choice(list(Order)))
        # As the waist does: who answers is not off.
        life.case = replace(life.case, off=life.case.off and not scene.node.answers)
        life.see(scene)
        if chance.random() < 0.8:
            life.end(chance.choices(list(Outcome)[1:], weights=odds)[0], at=scene.now, why="by chance")
    return healed(life, scene.now)


def _changed(scene: Scene, chance: random.Random) -> Scene:
    if chance.random() < 0.5:
        return scene
    node = chance.choice([scene.node, LOST, AWAY, OFF, GONE, ANSWERS, BACK, BACK])
    fault = replace(scene.fault, cleared=node.answers, over=node.answers)
    return chance.choice(
        [
            replace(scene, node=node, fault=fault),
            replace(scene, node=node, fault=fault),
            replace(scene, victims=chance.choice([(), (), None, ("ml/a",), PODS, ("ml/c",)])),
            replace(scene, mode=chance.choice(list(Mode))),
            replace(scene, brake=chance.choice(["", "", "too many"])),
            replace(scene, budget=chance.choice(["", "", "one at a time"])),
            replace(scene, saving=chance.choice(["", "job ml/train"])),
            replace(scene, relapse="the node stopped answering again" if node.lost else ""),
        ]
    )


def healed(life: Life, now: float) -> Life:
    """Act two: the node answers for good, a person releases what waits. Every case must end, without a mark."""
    good = a_node_scene(BACK, victims=(), now=now + 10.0)
    life.play(good).play(replace(good, now=good.now + PROVE_AGAIN_SECONDS + 1))
    life.play(replace(good, now=good.now + PROVE_AGAIN_SECONDS + PROBATION_SECONDS + 2))
    life.play(replace(good, now=good.now + PROVE_AGAIN_SECONDS + 2 * PROBATION_SECONDS + 3))
    if life.case.state is CaseState.PARKED:
        life.order(Order.RELEASE)
        life.play(replace(good, now=good.now + PROVE_AGAIN_SECONDS + 2 * PROBATION_SECONDS + 4))
    if not life.case.ended:
        life.broken.append(f"every case ends: still {life.case.state}")
    if life.case.marks:
        life.broken.append("no mark is left in the end")
    return life


def directed_node_lives(moves: Sequence[Move] = MOVES) -> list[Callable[[], Life]]:
    """Return how to live lives of a lost node that chance seldom leads."""

    def parked() -> Life:
        return _refused(moves, EffectKind.EVICT)

    off = a_node_scene(OFF)
    away_and_empty = a_node_scene(victims=())
    proven = a_node_scene(BACK, victims=())
    later = replace(proven, now=PROBATION_SECONDS + 1)
    return [
        lambda: _life(moves).play(away_and_empty).play(proven).play(later),
        lambda: _life(moves).play(a_node_scene(saving="job ml/train")).play(a_node_scene()).play(proven).play(later),
        lambda: (
            _life(moves).play(a_node_scene(saving="job ml/train")).play(a_node_scene(BACK)).play(proven).play(later)
        ),
        lambda: _life(moves).see(a_node_scene()).play(a_node_scene(ANSWERS)),
        lambda: _life(moves).play(a_node_scene()).play(a_node_scene(victims=("ml/b", "ml/c"))).play(proven).play(later),
        lambda: _life(moves).play(a_node_scene()).play(a_node_scene(victims=None)).play(a_node_scene(BACK)).play(later),
        lambda: parked().play(a_node_scene()).play(proven).play(later),
        lambda: parked().play(off).play(a_node_scene(OFF, victims=())).play(a_node_scene(GONE, victims=())),
        lambda: parked().play(a_node_scene(GONE)).play(a_node_scene(GONE, victims=())),
        lambda: _life(moves).play(off).play(a_node_scene(OFF, victims=())).play(a_node_scene()),
        lambda: (
            _refused(moves, EffectKind.CLEAR, off).play(off).play(off).play(off).play(a_node_scene(OFF, victims=()))
        ),
        lambda: _refused(moves, EffectKind.CLEAR, off).play(away_and_empty),
        lambda: _refused(moves, EffectKind.VERIFY, proven).play(proven).play(later).play(replace(later, now=2000.0)),
        lambda: _life(moves).play(away_and_empty).play(proven).play(replace(proven, relapse="lost again")).play(later),
        lambda: _by_word(moves),
        lambda: _tried_again(moves),
        lambda: _refused(moves, EffectKind.TAINT).play(a_node_scene(now=25.0)).play(a_node_scene(now=50.0)),
        lambda: _untaintable(moves),
        lambda: _there_again(moves),
        lambda: _released_in_vain(moves),
    ]


def _life(moves: Sequence[Move]) -> Life:
    return Life(case=a_lost_node(), moves=moves)


def _refused(moves: Sequence[Move], kind: EffectKind, then: Scene | None = None) -> Life:
    """Return a life in which an effect fails the first time; `then` is seen once its pods have to end."""
    life, scene = _life(moves), a_node_scene()
    for _ in range(16):
        life.see(scene)
        effect = life.case.pending()
        hit = effect is not None and effect.kind is kind
        life.end(Outcome.FAILED if hit else Outcome.DONE, at=scene.now, why="it said no")
        if hit:
            break
        scene = scene if then is None or life.case.state is not CaseState.EVACUATING else then
    return life.see(scene)


def _by_word(moves: Sequence[Move]) -> Life:
    """Return a life in which a person says that the node is off, and later asks for another try."""
    life = _refused(moves, EffectKind.EVICT)
    life.order(Order.OFF)
    life.play(a_node_scene()).play(a_node_scene(victims=()))
    life.order(Order.RETRY)
    return life.play(a_node_scene(victims=()))


def _tried_again(moves: Sequence[Move]) -> Life:
    """Return a life whose node came back too often, until a person asks for another try."""
    life = _life(moves).play(a_node_scene(victims=()))
    for number in range(4):
        back = a_node_scene(BACK, victims=(), now=number * 10.0)
        life.play(back).play(replace(back, relapse="lost again"))
    life.order(Order.RETRY)
    return life.play(a_node_scene(BACK, victims=(), now=50.0))


def _released_in_vain(moves: Sequence[Move]) -> Life:
    """Return a life that cannot be released, and whose node turns out to be off, with a pod that came since."""
    life = _refused(moves, EffectKind.EVICT)
    life.order(Order.RELEASE)
    life.see(a_node_scene())
    life.end(Outcome.FAILED, at=0.0, why="it said no")
    life.see(a_node_scene(OFF))
    life.end(Outcome.DONE, at=0.0)
    return life.play(a_node_scene(OFF, victims=("ml/c",))).play(a_node_scene(OFF, victims=()))


def _there_again(moves: Sequence[Move]) -> Life:
    """Return a life whose node leaves the cluster before it is tainted, and is there again before a pod is evicted."""
    life = _life(moves).see(a_node_scene(GONE))
    life.end(Outcome.FAILED, at=0.0, why="there is no such node")
    return life.play(a_node_scene(GONE, saving="job ml/train")).play(a_node_scene()).play(a_node_scene(victims=()))


def _untaintable(moves: Sequence[Move]) -> Life:
    """Return a life whose node cannot be tainted, however often it is tried, and whose pods come up again later."""
    life = _life(moves)
    for number in range(8):
        life.see(a_node_scene(now=number * 15.0))
        life.end(Outcome.FAILED, at=number * 15.0, why="forbidden")
    life.order(Order.RETRY)
    life.see(a_node_scene(now=200.0))
    life.end(Outcome.FAILED, at=200.0, why="forbidden")
    return life.play(a_node_scene(now=201.0)).play(a_node_scene(BACK, victims=(), now=202.0))
