"""Lives of a GPU whose node is rebooted for it, or nearly: where chance seldom leads."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gpuward.isolation.move import Move
from gpuward.isolation.table import MOVES
from gpuward.model.case import ON_A_CLUSTER, CaseState, EffectKind, Mode, Order, Outcome
from gpuward.model.scene import NodeSight, RebootSight, Scene
from tests.kit.lives import PROBATION_SECONDS, Life, a_case, a_scene

MAY = RebootSight(cures=True, why_not="")
WAITS = RebootSight(cures=True, why_not="", waits="pods with GPUs are on it: ml/b")
MUST_NOT = RebootSight(cures=True, why_not="one a day")
SIGHTS = (RebootSight(), RebootSight(), MAY, MAY, replace(MAY, cures=False), WAITS, MUST_NOT)


def a_reboot_scene(reboot: RebootSight = MAY, **changes: Any) -> Scene:
    """Return a scene of a free GPU that only a reboot may cure, on a cluster that may do it."""
    seen: dict[str, Any] = {"reach": ON_A_CLUSTER, "obstacle": "reboot the node", "node": NodeSight(boot="b1")}
    return a_scene(**{**seen, **changes, "reboot": reboot})


def directed_reboot_lives(moves: Sequence[Move] = MOVES) -> list[Callable[[], Life]]:
    """Return how to live them."""
    may, later = a_reboot_scene(), a_scene(reach=ON_A_CLUSTER, now=PROBATION_SECONDS + 1)
    resets = a_reboot_scene(replace(MAY, cures=False), obstacle="")
    denied = replace(resets, reboot=replace(MUST_NOT, cures=False))
    began = CaseState.REPAIRING
    return [
        lambda: Life(moves=moves).play(may).play(later),
        lambda: Life(case=a_case(parks=True), moves=moves).play(may).play(later),
        lambda: Life(moves=moves).play(a_reboot_scene(WAITS)).play(may).play(later),
        lambda: Life(moves=moves).play(a_reboot_scene(MUST_NOT)),
        lambda: Life(moves=moves).play(may).play(replace(may, now=10.0, relapse="Xid 79")),
        lambda: _played(moves, may, {EffectKind.REBOOT}),
        lambda: _tried_again(_played(moves, may, {EffectKind.REBOOT}), replace(may, now=10.0)),
        lambda: _played(moves, may, {EffectKind.VERIFY}),
        lambda: _played(moves, resets, {EffectKind.RESET}).play(later),
        lambda: _played(moves, resets, {EffectKind.RESET}, outcome=Outcome.REFUSED),
        lambda: _played(moves, resets, {EffectKind.RESET}, then=denied),
        lambda: _tried_again(_played(moves, denied, {EffectKind.RESET}), denied),
        lambda: _tried_again(_played(moves, denied, {EffectKind.RESET}), replace(denied, reboot=MAY)),
        lambda: _played(
            moves, replace(resets, mode=Mode.REPAIR), {EffectKind.RESET}, then=replace(resets, mode=Mode.ISOLATE)
        ),
        *(
            partial(_begun, moves, may, began, hindered)
            for hindered in (
                a_reboot_scene(WAITS),
                a_reboot_scene(MUST_NOT),
                a_reboot_scene(mode=Mode.ISOLATE),
                a_reboot_scene(work=("train (7)",), victims=("ml/c",)),
                a_reboot_scene(obstacle=""),
            )
        ),
        lambda: _played(moves, may, {EffectKind.EVIDENCE}),
    ]


def _played(
    moves: Sequence[Move],
    scene: Scene,
    fails: set[EffectKind],
    *,
    then: Scene | None = None,
    outcome: Outcome = Outcome.FAILED,
) -> Life:
    """Return a life in which these effects fail; `then` is seen once one did."""
    life = Life(moves=moves)
    for _ in range(24):
        life.see(scene)
        effect = life.case.pending()
        hit = effect is not None and effect.kind in fails
        life.end(outcome if hit else Outcome.DONE, at=0.0, why="it said no")
        scene = then if hit and then is not None else scene
    return life


def _begun(moves: Sequence[Move], scene: Scene, state: CaseState, hindered: Scene) -> Life:
    """Return a life in which something comes between the evidence before a reboot and the reboot."""
    life = Life(moves=moves)
    for _ in range(24):
        life.see(scene)
        if life.case.state is state:
            break
        life.end(Outcome.DONE, at=0.0)
    life.end(Outcome.DONE, at=0.0)
    return life.play(hindered).play(a_reboot_scene())


def _tried_again(life: Life, scene: Scene) -> Life:
    """Return the life after a person asked for another try."""
    life.order(Order.RETRY)
    return life.play(scene)
