"""Lives of a case: a world and outcomes that change by chance, every step held against the laws."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuward.isolation import laws
from gpuward.isolation.machine import advance, ask, settle
from gpuward.isolation.table import MOVES, Move
from gpuward.model.case import ENDED, Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.level import FaultClass, Level
from gpuward.model.scene import FaultSight, GpuSight, Scene

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
        if name in {"level", "parks", "cleared", "over", "idle_reason"}:
            scene = replace(scene, fault=replace(scene.fault, **{name: value}))
        elif name in {"work", "display", "present", "lost"}:
            scene = replace(scene, gpu=replace(scene.gpu, **{name: value}))
        else:
            scene = replace(scene, **{name: value})
    return scene


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

    def end(self, outcome: Outcome, *, at: float, why: str = "") -> Effect | None:
        """Give the first pending effect its outcome; return it."""
        effect = self.case.pending()
        if effect is not None:
            self.case = settle(self.case, effect.number, outcome, at=at, why=why)
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


def chance_life(seed: int, *, moves: Sequence[Move] = MOVES, steps: int = 40) -> Life:
    """Return a life of chance, ended by healing: in the end the world is good, a person releases what is parked."""
    chance = random.Random(seed)  # noqa: S311  a seed is the whole bug report
    level = chance.choice([Level.P0, Level.P1])
    life = Life(case=a_case(level=level, parks=chance.random() < 0.2), moves=moves)
    scene = a_scene(level=level, mode=chance.choice(list(Mode)), work=chance.choice([(), ("train (7)",), None]))
    odds = chance.choice([(6, 1, 1), (6, 1, 1), (1, 1, 1), (0, 1, 1)])
    for _ in range(steps):
        scene = _changed(replace(scene, now=scene.now + chance.choice([0.0, 1.0, 60.0, 700.0])), chance)
        if chance.random() < 0.05:
            life.order(chance.choice(list(Order)))
        life.see(scene)
        if chance.random() < 0.8:
            life.end(chance.choices(list(Outcome)[1:], weights=odds)[0], at=scene.now, why="by chance")
    return _healed(life, scene)


def _changed(scene: Scene, chance: random.Random) -> Scene:
    if chance.random() < 0.5:
        return scene
    return chance.choice(
        [
            replace(scene, mode=chance.choice(list(Mode))),
            replace(scene, gpu=replace(scene.gpu, work=chance.choice([(), (), ("train (7)",), None]))),
            replace(scene, gpu=replace(scene.gpu, display=chance.random() < 0.1)),
            replace(scene, brake=chance.choice(["", "", "too many"])),
            replace(scene, budget=chance.choice(["", "", "one at a time"])),
            replace(scene, obstacle=chance.choice(["", "", "reboot the node"])),
            replace(scene, relapse=chance.choice(["", "", "Xid 48"])),
            replace(scene, fault=replace(scene.fault, cleared=chance.random() < 0.1)),
            replace(scene, fault=replace(scene.fault, over=chance.random() < 0.3)),
            replace(
                scene, fault=replace(scene.fault, level=max(scene.fault.level, chance.choice([Level.P0, Level.P1])))
            ),
            replace(scene, fault=replace(scene.fault, idle_reason=chance.choice(["", "", "", "too old"]))),
        ]
    )


def _healed(life: Life, scene: Scene) -> Life:
    """Act two: nothing fails any more, a person releases what waits. Every case must end, without a mark."""
    good = a_scene(level=scene.fault.level, mode=Mode.REPAIR, now=scene.now + 10.0)
    life.play(good).play(replace(good, now=good.now + PROBATION_SECONDS + 1))
    if life.case.state is CaseState.PARKED:
        life.order(Order.RELEASE)
        life.play(replace(good, now=good.now + PROBATION_SECONDS + 2))
    if life.case.state not in ENDED:
        life.broken.append(f"every case ends: still {life.case.state}")
    if life.case.marks:
        life.broken.append("no mark is left in the end")
    return life


def asked(case: Case) -> list[EffectKind]:
    """Return what a case asked for, in order."""
    return [effect.kind for effect in case.effects]


def directed_lives(moves: Sequence[Move] = MOVES) -> list[Life]:
    """Return lives that chance seldom leads: an undo that fails, work that comes back, a relapse, and the like."""
    return [
        _stubborn(moves, {EffectKind.UNDRAIN}, then={"cleared": True}),
        _stubborn(moves, {EffectKind.RESET}, then={"work": ("train (7)",)}),
        _stubborn(moves, {EffectKind.RESTORE}, then={}),
        Life(moves=moves).play(a_scene()).play(a_scene(now=10.0, relapse="Xid 48")),
        _stubborn(moves, {EffectKind.UNDRAIN}, then={}),
        _stubborn(moves, {EffectKind.DRAIN}, then={}),
        _stubborn(moves, {EffectKind.DRAIN}, then={"mode": Mode.ISOLATE}),
        # What was asked for before the drain failed must be put back, whatever the drain came to.
        _stubborn(moves, {EffectKind.DRAIN}, then={"mode": Mode.ISOLATE}, outcome=Outcome.FAILED),
        _halted(moves, Mode.ISOLATE),
        _halted(moves, Mode.OBSERVE),
        _patient_then_observed(moves),
        _work_came_back(moves),
    ]


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
    moves: Sequence[Move], kinds: set[EffectKind], *, then: dict[str, Any], outcome: Outcome = Outcome.REFUSED
) -> Life:
    """Return a life in which these effects are refused, and `then` is seen once one was, or the case is fenced."""
    life = Life(moves=moves)
    scene = a_scene()
    for _ in range(30):
        life.see(scene)
        effect = life.case.pending()
        hit = effect is not None and effect.kind in kinds
        life.end(outcome if hit else Outcome.DONE, at=0.0, why="it said no")
        if hit or (life.case.state is CaseState.FENCED and "cleared" in then):
            scene = a_scene(**then)
    return life
