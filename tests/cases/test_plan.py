"""The plan of a case is the table lived through beforehand, and what then happens is the plan."""

import pytest

from gpuward.isolation.plan import PERSON, PROBATION, WAIT, plan_of
from gpuward.model.case import ON_A_CLUSTER, Case, EffectKind, Mode
from gpuward.model.level import Level
from tests.kit.lives import Life, a_case, a_scene, asked

REPAIR = ("evidence", "pause", "undrain", "reset", "restore", "verify")


@pytest.mark.parametrize(
    ("case", "mode", "obstacle", "plan"),
    [
        (a_case(), Mode.REPAIR, "", ("evidence", "drain", WAIT, *REPAIR, PROBATION)),
        (a_case(level=Level.P1), Mode.REPAIR, "", ("evidence", WAIT, "drain", *REPAIR, PROBATION)),
        (a_case(), Mode.ISOLATE, "", ("evidence", "drain", WAIT, "restore", PERSON)),
        (a_case(), Mode.REPAIR, "reboot the node", ("evidence", "drain", WAIT, "restore", PERSON)),
        (a_case(parks=True), Mode.REPAIR, "", ("evidence", "drain", WAIT, *REPAIR, "drain", "restore", PERSON)),
        (a_case(), Mode.OBSERVE, "", ()),
    ],
)
def test_the_plan_of_a_case(case: Case, mode: Mode, obstacle: str, plan: tuple[str, ...]) -> None:
    assert plan_of(case, mode, obstacle=obstacle) == plan


@pytest.mark.parametrize("level", [Level.P0, Level.P1])
@pytest.mark.parametrize("parks", [False, True])
@pytest.mark.parametrize("mode", [Mode.ISOLATE, Mode.REPAIR])
def test_what_happens_is_what_was_planned(*, level: Level, parks: bool, mode: Mode) -> None:
    case = a_case(level=level, parks=parks)
    planned = [step for step in plan_of(case, mode) if step in set(EffectKind)]
    life = Life(case=case).play(a_scene(level=level, parks=parks, mode=mode, work=("train (7)",)))
    life.play(a_scene(level=level, parks=parks, mode=mode))
    assert [str(kind) for kind in asked(life.case)] == planned


def test_a_plan_is_the_same_whenever_it_is_asked_for() -> None:
    life = Life().play(a_scene())
    assert life.case.effects
    assert plan_of(life.case, Mode.REPAIR) == plan_of(a_case(), Mode.REPAIR)


def test_the_plan_on_a_cluster_has_what_only_a_cluster_can_do() -> None:
    urgent = plan_of(a_case(), Mode.REPAIR, reach=ON_A_CLUSTER)
    assert urgent == (
        *("evidence", "drain", "taint", "promote", "notice", "evict", WAIT),
        *(*REPAIR, PROBATION, "untaint"),
    )
    patient = plan_of(a_case(level=Level.P1), Mode.REPAIR, reach=ON_A_CLUSTER)
    assert patient == ("evidence", "taint", "promote", WAIT, "drain", *REPAIR, PROBATION, "untaint")
