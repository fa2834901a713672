"""What is told of a case, in words: one row for each step, in order, and nothing that the saved case does not say."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuward.isolation.announcing import (
    HELD_BY,
    MOST_BYTES,
    MOST_OWNERS,
    PROVEN,
    TOLD,
    Announcement,
    Step,
    announcements,
)
from gpuward.isolation.node_condition import ConditionReason
from gpuward.isolation.table import MOVES
from gpuward.model.case import CaseState, Effect, EffectKind, Order, Outcome
from gpuward.model.happening import What
from gpuward.model.metric import METRICS
from gpuward.model.objects.gpu_case import GpuCase, TimelineEntry, Victim, spec_of, status_of
from gpuward.model.objects.head import Head
from tests.kit.lives import a_case

GPU = "0000:3b:00"
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text("utf-8")


def told(*entries: TimelineEntry, victims: tuple[Victim, ...] = (), **changes: Any) -> tuple[Announcement, ...]:
    case = a_case(**changes)
    status = replace(status_of(case), timeline=entries, victims=victims)
    return announcements(GpuCase(Head(case.id), spec_of(a_case()), status), None, {GPU: 5})


def moved(at: float, state: CaseState, because: str = "So it is.") -> TimelineEntry:
    return TimelineEntry(at, What.MOVED, because, state)


def steps(found: tuple[Announcement, ...]) -> list[Step]:
    return [one.words.step for one in found]


def test_there_is_one_row_for_each_step_and_each_reason_is_in_the_documentation() -> None:
    assert [row.step for row in TOLD] == list(Step)
    assert len({row.reason for row in TOLD}) == len(TOLD)
    for word in (*(row.reason for row in TOLD), *ConditionReason):
        assert f"`{word}`" in PAGE, word
        assert re.fullmatch(r"[A-Z][A-Za-z]+", word)


def test_what_holds_a_case_and_what_returns_it_are_the_words_of_the_table() -> None:
    assert all(HELD_BY.values())
    waiting = [row.say for row in MOVES if row.state is CaseState.SUSPECT and row.to is CaseState.SUSPECT]
    assert len(waiting) == len(HELD_BY)
    assert all(any(say.startswith(prefix) for prefix in HELD_BY.values()) for say in waiting)
    (shown,) = [label.values for row in METRICS for label in row.labels if label.name == "by"]
    assert shown == tuple(HELD_BY)
    assert len(PROVEN) == 1
    says = [move.say for move in MOVES]
    assert all(any(say.startswith(prefix) for say in says) for prefix in HELD_BY.values())


def test_a_new_case_says_which_gpu_which_trouble_when_and_whose() -> None:
    (one,) = told()
    assert one.note == "GPU 5 (0000:3b:00) of gpu-1: Xid 79, GPU lost, at 00:00:00 UTC: hardware, P0."
    assert (one.words.reason, one.subject, one.count) == ("GPUFault", None, 1)


def test_the_steps_come_in_the_order_of_their_times() -> None:
    evict = Effect(1, EffectKind.EVICT, 3.0)
    entries = (moved(1.0, CaseState.FENCED), moved(5.0, CaseState.PARKED), moved(9.0, CaseState.CLOSED))
    found = told(*entries, effects=(evict,), victims=(Victim("work/a", uid="u"),))
    assert steps(found) == [Step.OPENED, Step.FENCED, Step.EVICTING, Step.PARKED, Step.CLOSED, Step.POD]


def test_parked_for_two_reasons_is_told_twice_and_for_one_reason_counted() -> None:
    entries = tuple(moved(at, CaseState.PARKED, because) for at, because in ((1.0, "A."), (2.0, "B."), (3.0, "A.")))
    found = [one for one in told(*entries) if one.words.step is Step.PARKED]
    assert [(one.key, one.count, one.at) for one in found] == [("B.", 1, 2.0), ("A.", 2, 3.0)]


def test_parked_anew_where_it_stood_is_told_with_its_new_reason() -> None:
    found = told(moved(1.0, CaseState.PARKED, "A."), state=CaseState.PARKED, since=7.0, because="B.", due="Look.")
    parked = [one for one in found if one.words.step is Step.PARKED]
    assert [(one.key, one.at) for one in parked] == [("A.", 1.0), ("B.", 7.0)]
    assert parked[1].note.endswith("A person is needed: Look. B.")


@pytest.mark.parametrize("what", list(Order))
def test_parked_on_its_way_by_a_persons_order_needs_no_person(what: Order) -> None:
    parked = moved(1.0, CaseState.PARKED, "A.")
    going: dict[str, Any] = {"state": CaseState.PARKED, "since": 1.0, "because": "A person said so.", "order": what}
    assert [one.at for one in told(parked, **going) if one.words.step is Step.PARKED] == [1.0]
    (anew,) = [one for one in told(parked, **{**going, "order": None}) if one.key == "A person said so."]
    assert anew.words.step is Step.PARKED


def test_only_proven_gpus_are_said_to_be_back() -> None:
    assert Step.RETURNED in steps(told(moved(1.0, CaseState.CLOSED, PROVEN[0])))
    assert Step.RETURNED not in steps(told(moved(1.0, CaseState.CLOSED, "Released by a person; no mark is left.")))


def test_whether_a_standby_takes_its_place_is_told_and_nothing_where_nobody_keeps_any() -> None:
    for outcome, step in (
        (Outcome.DONE, [Step.PROMOTED]),
        (Outcome.FAILED, [Step.NO_STANDBY]),
        (Outcome.REFUSED, []),
        (Outcome.ASKED, []),
    ):
        promoted = Effect(1, EffectKind.PROMOTE, 3.0, outcome, ended_at=4.0, why="all are taken")
        found = [one for one in told(effects=(promoted,)) if one.words.action == "Promote"]
        assert steps(tuple(found)) == step
        assert all(one.note.endswith("All are taken.") and one.at == 4.0 for one in found)


def test_a_pod_without_its_uid_or_before_it_is_asked_is_told_nothing() -> None:
    victims = (Victim("work/a", uid="u", owner="Job/j", job="x"), Victim("work/b", owner="Job/j", job="x"))
    assert steps(told(victims=victims)) == [Step.OPENED]
    asked = told(victims=victims, effects=(Effect(1, EffectKind.EVICT, 3.0),))
    on_objects = [one.subject for one in asked if one.subject is not None]
    assert [(one.kind, one.name) for one in on_objects] == [("Pod", "a"), ("Job", "j")]


@pytest.mark.parametrize("owner", ["", "Job/j"])
def test_whose_pods_nobody_knows_is_told_to_nobody(owner: str) -> None:
    found = told(victims=(Victim("work/a", uid="u", owner=owner),), effects=(Effect(1, EffectKind.EVICT, 3.0),))
    assert Step.OWNER not in steps(found)


def test_pods_and_owners_are_bounded_and_pods_of_one_job_are_told_to_it_once() -> None:
    victims = tuple(Victim(f"work/p-{n}", uid=f"u{n}", owner=f"Job/j-{n // 2}", job=f"x{n // 2}") for n in range(400))
    found = told(victims=victims, effects=(Effect(1, EffectKind.EVICT, 3.0),))
    owners = [one for one in found if one.words.step is Step.OWNER]
    assert len(owners) == MOST_OWNERS
    assert owners[0].note.endswith("Your job is moved, away go: p-0, p-1.")
    assert all(len(one.note.encode()) <= MOST_BYTES for one in found)
