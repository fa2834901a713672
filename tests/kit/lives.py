"""Lives of a case: a world and outcomes that change by chance, every step held against the laws."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gpuward.isolation import laws
from gpuward.isolation.machine import advance, ask, settle
from gpuward.isolation.move import Move
from gpuward.isolation.table import MOVES
from gpuward.model.case import (
    ENDED,
    ON_A_CLUSTER,
    ON_A_SERVER,
    Case,
    CaseState,
    Effect,
    EffectKind,
    Mode,
    Order,
    Outcome,
)
from gpuward.model.level import FaultClass, Level
from gpuward.model.scene import NO_REBOOT, FaultSight, GpuSight, RebootSight, Scene

PROBATION_SECONDS = 600.0


def a_case(**changes: Any) -> Case:
    """Return a new case of GPU 0000:3b:00."""
    case = Case(
        id="c1",
        node="gpu-1",
        gpu="0000:3b:00",
        gpu_uuid="GPU-00000000-1111-2222-3333-444444444444",
        fault="gpu-1.b1.k1",
        code=79,
        kind="xid",
        title="GPU lost",
        level=Level.P0,
        fault_class=FaultClass.HARDWARE,
        parks=False,
        opened_at=0.0,
    )
    return replace(case, **changes)


def a_scene(**changes: Any) -> Scene:
    """Return a scene of an urgent fault on a free GPU, in mode repair, with nothing in the way."""
    gpu = GpuSight(present=True, lost=False, work=(), display=False)
    fault = FaultSight(level=Level.P0, parks=False, cleared=False, over=False, idle_reason="")
    scene = Scene(
        now=0.0,
        mode=Mode.REPAIR,
        gpu=gpu,
        fault=fault,
        brake="",
        budget="",
        obstacle="",
        relapse="",
        probation_seconds=PROBATION_SECONDS,
    )
    for name, value in changes.items():
        scene = _with(scene, name, value)
    return scene


def _with(scene: Scene, name: str, value: Any) -> Scene:
    """Return the scene with another value, which may be one of its fault or its GPU."""
    if name in {"level", "parks", "cleared", "over", "idle_reason"}:
        return replace(scene, fault=replace(scene.fault, **{name: value}))
    if name in {"work", "display", "present", "lost"}:
        return replace(scene, gpu=replace(scene.gpu, **{name: value}))
    return replace(scene, **{name: value})


@dataclass
class Life:
    """A case lived through scenes, with the laws watching. `broken` names the laws that did not hold."""

    case: Case = field(default_factory=a_case)
    moves: Sequence[Move] = MOVES
    states: list[CaseState] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    fired: set[int] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    def see(self, scene: Scene) -> "Life":
        """Let the table look at a scene once."""
        count = 0
        for step in advance(self.case, scene, moves=self.moves):
            self.broken += laws.broken_by(step, scene)
            self.case = step.after
            self.states.append(step.after.state)
            self.said.append(step.after.because)
            self.fired.add(next((n for n, move in enumerate(self.moves) if move is step.move), -1))
            count += 1
        if count >= 12:
            self.broken.append("no circle")
        return self

    def end(self, outcome: Outcome, *, at: float, why: str = "", boot: str = "") -> Effect | None:
        """Give the first pending effect its outcome, as it was ordered on a boot; return it."""
        effect = self.case.pending()
        if effect is not None:
            self.case = settle(self.case, effect.number, outcome, at=at, why=why, boot=boot)
        return effect

    def order(self, order: Order) -> None:
        """Give a person's word."""
        if self.case.state not in ENDED:
            self.case = ask(self.case, order)

    def play(self, scene: Scene, *, most: int = 40) -> "Life":
        """See the scene and let every effect succeed until nothing moves."""
        for _ in range(most):
            before = self.case
            self.see(scene)
            self.end(Outcome.DONE, at=scene.now)
            if self.case == before:
                break
        return self


ITS_OWN = "xid:31 is the job's own"


def chance_life(seed: int, *, moves: Sequence[Move] = MOVES, steps: int = 40) -> Life:
    """Return a life of chance, ended by healing: in the end the world is good, a person releases what is parked."""
    chance = random.Random(seed)  # noqa: S311  a seed is the whole bug report
    level = chance.choice([Level.P0, Level.P1])
    drill = chance.choice([None, None, None, None, None, *Mode])
    reach = chance.choice([ON_A_SERVER, ON_A_CLUSTER])
    life = Life(case=a_case(level=level, parks=chance.random() < 0.2, drill=drill), moves=moves)
    scene = a_scene(
        level=level, mode=drill or chance.choice(list(Mode)), work=chance.choice([(), ("train (7)",), None])
    )
    scene = replace(scene, reach=reach, unapproved=chance.random() < 0.05)
    odds = chance.choice([(6, 1, 1), (6, 1, 1), (1, 1, 1), (0, 1, 1)])
    for _ in range(steps):
        scene = _changed(replace(scene, now=scene.now + chance.choice([0.0, 1.0, 60.0, 700.0])), chance)
        scene = scene if drill is None else replace(scene, mode=drill)
        scene = _around(scene, life.case, chance)
        if chance.random() < 0.05:
            life.order(chance.choice(list(Order)))
        life.see(scene)
        if chance.random() < 0.8:
            life.end(chance.choices(list(Outcome)[1:], weights=odds)[0], at=scene.now, why="by chance")
    return _healed(life, scene)


def _changed(scene: Scene, chance: random.Random) -> Scene:
    if chance.random() < 0.5:
        return scene
    name, value = chance.choice(
        [
            ("mode", chance.choice(list(Mode))),
            ("work", chance.choice([(), (), ("train (7)",), None])),
            ("display", chance.random() < 0.1),
            ("brake", chance.choice(["", "", "too many"])),
            ("budget", chance.choice(["", "", "one at a time"])),
            ("obstacle", chance.choice(["", "", "reboot the node"])),
            ("relapse", chance.choice(["", "", "Xid 48"])),
            ("overtaken", chance.choice(["", "", "Xid 79"])),
            ("cleared", chance.random() < 0.1),
            ("over", chance.random() < 0.3),
            ("level", max(scene.fault.level, chance.choice([Level.P0, Level.P1]))),
            ("idle_reason", chance.choice(["", "", "", "too old"])),
        ]
    )
    return _with(scene, name, value)


def _around(scene: Scene, case: Case, chance: random.Random) -> Scene:
    """Return the scene with what only a cluster has: pods that have to go for a P0, jobs that save, standbys."""
    if scene.reach is ON_A_SERVER:
        return scene
    urgent = scene.fault.level is Level.P0 or case.level is Level.P0
    victims: tuple[str, ...] | None = scene.victims if urgent else ()
    if urgent and chance.random() < 0.4:
        victims = chance.choice([(), (), None, ("ml/a",), ("ml/a", "ml/b")])
    may = RebootSight(cures=chance.random() < 0.7, why_not="", waits=chance.choice(["", "", "pods are on it"]))
    return replace(
        scene,
        reboot=chance.choice([scene.reboot, scene.reboot, NO_REBOOT, may]),
        victims=victims,
        keepers=() if urgent else chance.choice([(), (), (), ("ml/a",), None]),
        saving=chance.choice(["", "", "job ml/train"]),
        standby=chance.choice(["", "", "", "the pool is empty"]),
        job_fault=chance.choice(["", "", "", "", ITS_OWN]),
        unapproved=scene.unapproved and not case.approved,
    )


def _healed(life: Life, scene: Scene) -> Life:
    """Act two: nothing fails any more, a person releases what waits. Every case must end, without a mark."""
    good = a_scene(
        level=scene.fault.level, mode=life.case.drill or Mode.REPAIR, now=scene.now + 10.0, reach=scene.reach
    )
    life.play(good)
    for number in (1, 2):  # the first time a taint may still wait to be tried again
        life.play(replace(good, now=good.now + number * (PROBATION_SECONDS + 1)))
    if life.case.state is CaseState.PARKED:
        life.order(Order.RELEASE)
        life.play(replace(good, now=good.now + 2 * PROBATION_SECONDS + 3))
    if life.case.state not in ENDED:
        life.broken.append(f"every case ends: still {life.case.state}")
    if life.case.marks and life.case.drill is None:
        life.broken.append("no mark is left in the end")
    return life


def asked(case: Case) -> list[EffectKind]:
    """Return what a case asked for, in order."""
    return [effect.kind for effect in case.effects]


def directed_lives(moves: Sequence[Move] = MOVES) -> list[Callable[[], Life]]:
    """Return how to live lives that chance seldom leads: an undo that fails, work that comes back, a relapse, more."""
    return [
        lambda: _stubborn(moves, {EffectKind.UNDRAIN}, then={"cleared": True}),
        lambda: _stubborn(moves, {EffectKind.RESET}, then={"work": ("train (7)",)}),
        lambda: _stubborn(moves, {EffectKind.RESTORE}, then={}),
        lambda: Life(moves=moves).play(a_scene()).play(a_scene(now=10.0, relapse="Xid 48")),
        lambda: _stubborn(moves, {EffectKind.UNDRAIN}, then={}),
        lambda: _stubborn(moves, {EffectKind.VERIFY}, then={}),
        lambda: _stubborn(moves, {EffectKind.PAUSE}, then={}),
        lambda: _stubborn(moves, {EffectKind.EVIDENCE}, then={}),
        lambda: _stubborn(moves, {EffectKind.DRAIN}, then={}),
        lambda: _stubborn(moves, {EffectKind.DRAIN}, then={"mode": Mode.ISOLATE}),
        # What was asked for before the drain failed must be put back, whatever the drain came to.
        lambda: _stubborn(moves, {EffectKind.DRAIN}, then={"mode": Mode.ISOLATE}, outcome=Outcome.FAILED),
        lambda: _halted(moves, Mode.ISOLATE),
        lambda: _halted(moves, Mode.OBSERVE),
        lambda: _patient_then_observed(moves),
        lambda: _work_came_back(moves),
        lambda: Life(moves=moves).play(a_scene(display=True)),
        *(partial(_drilled, moves, mode) for mode in Mode),
        lambda: Life(case=a_case(drill=Mode.REPAIR), moves=moves).play(a_scene(obstacle="reboot the node")),
        lambda: Life(case=a_case(drill=Mode.REPAIR), moves=moves).see(a_scene()).play(a_scene(overtaken="Xid 48")),
        lambda: _stubborn(moves, {EffectKind.UNDRAIN}, then={"mode": Mode.ISOLATE}, drill=Mode.ISOLATE),
        *_on_a_cluster(moves),
    ]


def _drilled(moves: Sequence[Move], mode: Mode) -> Life:
    return Life(case=a_case(drill=mode), moves=moves).play(a_scene(mode=mode))


def _on_a_cluster(moves: Sequence[Move]) -> list[Callable[[], Life]]:
    """Return how to live lives with pods that have to go, jobs that save, standbys, a person's word."""
    pods: dict[str, Any] = {"reach": ON_A_CLUSTER, "victims": ("ml/a", "ml/b"), "work": ("train (7)",)}
    gone: dict[str, Any] = {"reach": ON_A_CLUSTER}
    later: dict[str, Any] = {**gone, "now": PROBATION_SECONDS + 1}
    waits = a_scene(level=Level.P1, work=("train (7)",), reach=ON_A_CLUSTER)

    def life() -> Life:
        return Life(moves=moves)

    def patient() -> Life:
        return Life(case=a_case(level=Level.P1), moves=moves)

    return [
        lambda: life().play(a_scene(**pods)).play(a_scene(**gone)).play(a_scene(**later)),
        lambda: life().play(a_scene(**pods, saving="job ml/train")).play(a_scene(**pods)).play(a_scene(**gone)),
        lambda: (
            life()
            .play(a_scene(**pods))
            .play(a_scene(**{**pods, "victims": ("ml/b", "ml/c")}))
            .play(a_scene(**{**pods, "victims": None}))
            .play(a_scene(**gone))
        ),
        lambda: _stubborn(moves, {EffectKind.EVICT}, then=pods, scene=a_scene(**pods)).play(a_scene(**pods)),
        lambda: _stubborn(moves, {EffectKind.TAINT}, then=gone, scene=a_scene(**gone)),
        lambda: _stubborn(moves, {EffectKind.DRAIN}, then=pods, scene=a_scene(**pods)).play(a_scene(**gone)),
        lambda: _stubborn(moves, {EffectKind.PROMOTE}, then=pods, scene=a_scene(**pods)).play(a_scene(**gone)),
        lambda: _untainted_in_vain(moves),
        lambda: life().play(a_scene(**pods, unapproved=True)).play(a_scene(**pods)),
        lambda: patient().play(a_scene(level=Level.P1, **gone, standby="the pool is empty")),
        lambda: patient().play(waits).play(a_scene(level=Level.P1, **gone)),
        lambda: patient().play(waits).play(a_scene(**pods)).play(a_scene(**gone)),
        lambda: (
            patient().play(a_scene(level=Level.P1, **gone, keepers=("ml/a",))).play(a_scene(level=Level.P1, **gone))
        ),
        lambda: patient().play(waits).play(replace(waits, fault=replace(waits.fault, cleared=True))),
        lambda: _taken_back_in_vain(patient(), waits),
        *(partial(_untaintable, moves, pods, tries) for tries in (1, 9)),
        lambda: (
            patient()
            .play(replace(waits, job_fault=ITS_OWN))
            .play(a_scene(level=Level.P1, over=True, job_fault=ITS_OWN))
        ),
        lambda: patient().play(waits).play(replace(waits, job_fault=ITS_OWN)),
        lambda: patient().play(replace(waits, job_fault=ITS_OWN)).play(waits).play(a_scene(level=Level.P1, **gone)),
        lambda: (
            patient().play(a_scene(level=Level.P1, **gone)).play(a_scene(level=Level.P1, **gone, job_fault=ITS_OWN))
        ),
        lambda: _its_own_in_vain(patient(), waits),
    ]


def _taken_back_in_vain(life: Life, waits: Scene) -> Life:
    """Return a life whose fault is taken back, and is there again when the taint was taken away."""
    life.play(waits).see(replace(waits, fault=replace(waits.fault, cleared=True)))
    while life.end(Outcome.DONE, at=0.0) is not None:
        pass
    return life.play(waits).play(a_scene(level=Level.P1, reach=ON_A_CLUSTER))


def _untaintable(moves: Sequence[Move], pods: dict[str, Any], tries: int) -> Life:
    """Return a life whose node cannot be tainted so often, and again when a person asked for another try."""
    life = Life(moves=moves)
    for number in range(12):
        scene = a_scene(**pods, now=number * 15.0)
        life.see(scene)
        effect = life.case.pending()
        hit = effect is not None and effect.kind is EffectKind.TAINT and number < tries
        life.end(Outcome.FAILED if hit else Outcome.DONE, at=scene.now, why="forbidden")
    life.order(Order.RETRY)
    life.see(a_scene(**pods, now=300.0, mode=Mode.ISOLATE))
    life.end(Outcome.FAILED, at=300.0, why="forbidden")
    return life.play(a_scene(**pods, now=301.0, mode=Mode.ISOLATE)).play(a_scene(reach=ON_A_CLUSTER, now=302.0))


def _its_own_in_vain(life: Life, waits: Scene) -> Life:
    """Return a life whose taint cannot be taken away when its fault turns out to be its job's own."""
    life.play(waits)
    scene = replace(waits, job_fault=ITS_OWN)
    life.see(scene)
    life.end(Outcome.REFUSED, at=0.0, why="it said no")
    return life.play(scene)


def _untainted_in_vain(moves: Sequence[Move]) -> Life:
    """Return a life whose taint cannot be taken away when all else is well, until a person releases it."""
    life = Life(moves=moves).play(a_scene(reach=ON_A_CLUSTER))
    over = a_scene(reach=ON_A_CLUSTER, now=PROBATION_SECONDS + 1)
    life.see(over)
    life.end(Outcome.REFUSED, at=over.now, why="it said no")
    life.play(over)
    if life.case.state is CaseState.PARKED:
        life.order(Order.RELEASE)
    return life.play(over)


def _work_came_back(moves: Sequence[Move]) -> Life:
    """Return a life whose work is back at the reset, and whose GPU can then be neither drained nor restored."""
    life = Life(moves=moves)
    refused = {EffectKind.RESET}
    scene = a_scene()
    for _ in range(30):
        life.see(scene)
        effect = life.case.pending()
        if effect is not None and effect.kind is EffectKind.RESET:
            scene = a_scene(work=("train (7)",), mode=Mode.ISOLATE)
            refused |= {EffectKind.DRAIN, EffectKind.RESTORE}
        hit = effect is not None and effect.kind in refused
        life.end(Outcome.REFUSED if hit else Outcome.DONE, at=0.0, why="it said no")
    return life.play(a_scene(mode=Mode.ISOLATE))


def _halted(moves: Sequence[Move], mode: Mode) -> Life:
    """Return a life whose agent comes back in a lesser mode between the undrain and the reset."""
    life = Life(moves=moves)
    for _ in range(30):
        life.see(a_scene())
        effect = life.end(Outcome.DONE, at=0.0)
        if effect is not None and effect.kind is EffectKind.UNDRAIN:
            break
    return life.play(a_scene(mode=mode))


def _patient_then_observed(moves: Sequence[Move]) -> Life:
    """Return a life whose agent comes back in mode observe while the work of a P1 still runs."""
    work = ("train (7)",)
    life = Life(case=a_case(level=Level.P1), moves=moves).play(a_scene(level=Level.P1, work=work))
    return life.play(a_scene(level=Level.P1, work=work, mode=Mode.OBSERVE)).play(
        a_scene(level=Level.P1, mode=Mode.OBSERVE)
    )


def _stubborn(
    moves: Sequence[Move],
    kinds: set[EffectKind],
    *,
    then: dict[str, Any],
    outcome: Outcome = Outcome.REFUSED,
    drill: Mode | None = None,
    scene: Scene | None = None,
) -> Life:
    """Return a life in which these effects are refused, and `then` is seen once one was, or the case is fenced."""
    life = Life(case=a_case(drill=drill), moves=moves)
    scene = scene or a_scene(mode=drill or Mode.REPAIR)
    for _ in range(30):
        life.see(scene)
        effect = life.case.pending()
        hit = effect is not None and effect.kind in kinds
        life.end(outcome if hit else Outcome.DONE, at=0.0, why="it said no")
        if hit or (life.case.state is CaseState.FENCED and "cleared" in then):
            scene = a_scene(**then)
    return life
