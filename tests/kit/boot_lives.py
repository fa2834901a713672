"""Lives of a GPU whose node boots by itself while something is ordered, or after it was done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gpuward.isolation.machine import settle
from gpuward.isolation.move import Move
from gpuward.isolation.table import MOVES
from gpuward.model.case import ON_A_CLUSTER, ON_A_SERVER, CaseState, EffectKind, Mode, Order, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import NodeSight, RebootSight, Scene
from tests.kit.lives import PROBATION_SECONDS, Life, a_case, a_scene

MEANT = "it is meant for another boot"
UNDONE = (EffectKind.UNDRAIN, EffectKind.RESTORE)


@dataclass
class Booting:
    """A life on a node that boots so often as an effect of a kind is `hit`; `late`: when it was done already."""

    life: Life
    hit: EffectKind
    times: int = 1
    late: bool = False
    outcome: Outcome = Outcome.REFUSED
    fails: frozenset[EffectKind] = frozenset()
    """What fails on every later boot."""
    boots: int = 1
    then: dict[str, Any] = field(default_factory=dict)
    """How the scene changes with the last boot."""

    def live(self, scene: Scene, *, most: int = 60) -> Life:
        """Go on until nothing moves any more."""
        for _ in range(most):
            before = self.life.case
            self.life.see(replace(scene, node=NodeSight(told=f"b{self.boots}")))
            if self._end(scene.now) and self.boots > self.times:
                scene = a_scene(**{"reach": scene.reach, "level": scene.fault.level, **self.then})
            if self.life.case == before:
                break
        return self.life

    def _end(self, at: float) -> bool:
        """Give the first effect that is under way its outcome; return whether the node was booted."""
        effect, boot = self.life.case.pending(), f"b{self.boots}"
        ordered = "" if effect is None or effect.kind not in ON_A_SERVER else boot
        if effect is None or effect.kind is not self.hit or self.boots > self.times:
            fails = effect is not None and effect.kind in self.fails and self.boots > 1
            self.life.end(self.outcome if fails else Outcome.DONE, at=at, why="it said no", boot=ordered)
            return False
        self.boots += 1
        undone = self.late or effect.kind in UNDONE
        self.life.end(Outcome.DONE if undone else self.outcome, at=at, why=MEANT, boot=boot)
        return True


def booted(kind: EffectKind, *, moves: Sequence[Move] = MOVES, scene: Scene | None = None, **how: Any) -> Life:
    """Return the life of an urgent case on a cluster whose node boots while an effect is ordered, to its end."""
    scene = a_scene(reach=ON_A_CLUSTER) if scene is None else scene
    booting = Booting(Life(case=a_case(level=scene.fault.level), moves=moves), kind, **how)
    life = booting.live(scene)
    later = replace(scene, now=PROBATION_SECONDS + 1, node=NodeSight(told=f"b{booting.boots}"))
    return life.play(later) if life.case.state is CaseState.PROBATION else life


def directed_boot_lives(moves: Sequence[Move] = MOVES) -> list[Callable[[], Life]]:
    """Return how to live them: each kind of effect hit once, after it was done, and again and again."""
    kinds = sorted(ON_A_SERVER)
    pods = a_scene(reach=ON_A_CLUSTER, victims=("ml/a",), work=("train (7)",))
    waits = a_scene(level=Level.P1, work=("train (7)",), reach=ON_A_CLUSTER)
    may = replace(a_scene(reach=ON_A_CLUSTER), reboot=RebootSight(why_not=""))
    isolating, observing = {"mode": Mode.ISOLATE}, {"mode": Mode.OBSERVE}
    live = partial(booted, moves=moves)
    return [
        *(partial(live, kind) for kind in kinds),
        *(partial(live, kind, outcome=Outcome.FAILED) for kind in kinds),
        *(partial(live, kind, late=True) for kind in kinds),
        *(partial(live, kind, times=9) for kind in kinds),
        *(partial(live, kind, times=9, late=True) for kind in kinds),
        *(partial(live, EffectKind.DRAIN, scene=pods, late=late) for late in (False, True)),
        *(partial(live, EffectKind.EVICT, scene=pods, late=True, times=times) for times in (1, 9)),
        *(partial(live, EffectKind.DRAIN, then=then, late=True) for then in (isolating, observing)),
        *(partial(live, EffectKind.DRAIN, then=then) for then in (isolating, observing)),
        partial(live, EffectKind.DRAIN, then=isolating, late=True, fails=frozenset({EffectKind.DRAIN})),
        *(partial(live, EffectKind.DRAIN, fails=frozenset({EffectKind.DRAIN}), late=late) for late in (False, True)),
        *(partial(live, kind, then={"cleared": True}) for kind in (EffectKind.EVIDENCE, EffectKind.DRAIN)),
        *(partial(live, kind, then=isolating) for kind in (EffectKind.PAUSE, EffectKind.RESET, EffectKind.VERIFY)),
        *(partial(live, kind, scene=may, outcome=Outcome.FAILED) for kind in (EffectKind.RESET, EffectKind.PAUSE)),
        partial(live, EffectKind.VERIFY, fails=frozenset({EffectKind.VERIFY})),
        partial(live, EffectKind.RESET, fails=frozenset({EffectKind.VERIFY})),
        partial(live, EffectKind.EVIDENCE, scene=waits),
        partial(live, EffectKind.EVIDENCE, scene=waits, then={"work": ()}),
        *(partial(_evacuated, moves, boots) for boots in (2, 9)),
        partial(_evacuated, moves, 2, again=Outcome.REFUSED),
        *(partial(_isolated, moves, first) for first in (Outcome.DONE, Outcome.REFUSED)),
        *(partial(_isolated, moves, first, obstacle="replace it") for first in (Outcome.DONE, Outcome.FAILED)),
        partial(_isolated, moves, Outcome.REFUSED, obstacle="reboot the node", lost=True),
        *(partial(_cut_together, moves, drain) for drain in (Outcome.DONE, Outcome.REFUSED)),
        lambda: _waiting(moves),
        *(partial(_tried_again, moves, kind) for kind in (EffectKind.PAUSE, EffectKind.VERIFY)),
    ]


def _evacuated(moves: Sequence[Move], boots: int, *, again: Outcome = Outcome.DONE) -> Life:
    """Return a life whose node boots so often while its pods are asked to end, and whose pods go then.

    `again`: what becomes of each drain that is asked for anew.
    """
    scene = a_scene(reach=ON_A_CLUSTER, victims=("ml/a",), work=("train (7)",))
    life = Life(moves=moves)
    for _ in range(12):
        life.see(replace(scene, node=NodeSight(told="b1")))
        effect = life.case.pending()
        if effect is not None and effect.kind is EffectKind.EVICT:
            break
        life.end(Outcome.DONE, at=0.0, boot="b1")
    last = f"b{boots + 1}"
    for boot in (f"b{number + 2}" for number in range(boots)):
        life.see(replace(scene, node=NodeSight(told=boot)))
        for effect in life.case.effects:
            if effect.kind is EffectKind.DRAIN:
                life.case = settle(life.case, effect.number, again, at=0.0, why="it said no", boot=boot)
    life.see(replace(scene, node=NodeSight(told=last)))
    while life.end(Outcome.DONE, at=0.0) is not None:
        pass
    life.see(replace(scene, node=NodeSight(told=last)))
    return life.play(replace(a_scene(reach=ON_A_CLUSTER), node=NodeSight(told=last)))


def _isolated(moves: Sequence[Move], first: Outcome, **sight: Any) -> Life:
    """Return a life that is not repaired, whose drain has an outcome only after its work is gone."""
    free = a_scene(level=Level.P1, reach=ON_A_CLUSTER, mode=Mode.ISOLATE, **sight)
    life = Life(case=a_case(level=Level.P1), moves=moves).see(free)
    while life.end(Outcome.DONE, at=0.0) is not None:
        pass
    life.see(free).see(free)
    life.end(first, at=0.0, why="it said no")
    return life.play(free)


def _cut_together(moves: Sequence[Move], drain: Outcome) -> Life:
    """Return a life whose node boots before evidence is kept, and before or after the GPU was drained."""
    life = Life(moves=moves)
    ends = {EffectKind.EVIDENCE: Outcome.REFUSED, EffectKind.DRAIN: drain}
    life.see(a_scene(reach=ON_A_CLUSTER, mode=Mode.ISOLATE))
    while (effect := life.case.pending()) is not None:
        life.end(ends.get(effect.kind, Outcome.DONE), at=0.0, why=MEANT, boot="b1")
    return life.play(replace(a_scene(reach=ON_A_CLUSTER, mode=Mode.ISOLATE), node=NodeSight(told="b2")))


def _waiting(moves: Sequence[Move]) -> Life:
    """Return a life whose node boots while a reboot of it is due and waits for others."""
    waits = replace(
        a_scene(reach=ON_A_CLUSTER, obstacle="reboot the node"),
        reboot=RebootSight(cures=True, why_not="", waits="pods with GPUs are on it: ml/b"),
    )
    life = Booting(Life(moves=moves), EffectKind.RESET, times=0).live(waits)
    return Booting(life, EffectKind.RESET, times=0, boots=2).live(waits)


def _tried_again(moves: Sequence[Move], kind: EffectKind) -> Life:
    """Return a life whose node boots again and again, until a person asks for another try."""
    life = booted(kind, moves=moves, times=9)
    life.order(Order.RETRY)
    return Booting(life, kind, times=0, boots=10).live(a_scene(reach=ON_A_CLUSTER))
