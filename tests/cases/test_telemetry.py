"""What a reading shows: every row holds, does not hold, and is unknown; what stands is there once and keeps its id."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuward.isolation.findings import FINDINGS, KINDS, Finding, Look
from gpuward.isolation.saved import SavedError
from gpuward.isolation.telemetry import (
    Round,
    Standing,
    faults_of,
    pack_standing,
    stand,
    unpack_standing,
)
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Outcome
from gpuward.model.fault import Fault
from gpuward.model.level import FaultClass, Level
from gpuward.model.node import EccCounts, GpuReading, NvLink, Remap
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend_driver import a_reading

WELL = a_reading(GPU_A, 0)
ROWS = {row.name: row for row in FINDINGS}


def ecc(volatile: int | None) -> GpuReading:
    return replace(WELL, ecc=EccCounts(volatile=volatile, aggregate=None))


def remap(*, pending: bool | None = False, failed: bool | None = False) -> GpuReading:
    return replace(WELL, remap=Remap(pending=pending, failed=failed))


def asks(action: str | None) -> GpuReading:
    return replace(WELL, recovery_action=action)


def linked(*, active: int = 4, speed: float | None = 26.5) -> GpuReading:
    links = tuple(
        NvLink(link=number, active=number < active, speed_gb_per_second=speed if number < active else 0.0)
        for number in range(4)
    )
    return replace(WELL, links=links)


LEARNED = {0: 26.5, 1: 26.5, 2: 26.5, 3: 26.5}
LOST = replace(WELL, lost=True)


def over_links(before: GpuReading | None, now: GpuReading, *, at_rest: bool = True) -> Look:
    return Look(before=before, now=now, links_learned=4, speeds=LEARNED, fabric_at_rest=at_rest)


HOLDS: list[tuple[str, Look, bool | None]] = [
    ("ecc-grew", Look(ecc(0), ecc(1)), True),
    ("ecc-grew", Look(ecc(7), ecc(8)), True),
    ("ecc-grew", Look(ecc(0), ecc(0)), False),
    ("ecc-grew", Look(ecc(7), ecc(2)), False),
    ("ecc-grew", Look(ecc(7), ecc(7)), None),
    ("ecc-grew", Look(None, ecc(7)), None),
    ("ecc-grew", Look(ecc(None), ecc(7)), None),
    ("ecc-grew", Look(ecc(0), ecc(None)), None),
    ("ecc-grew", Look(ecc(0), None), None),
    ("remap-failed", Look(None, remap(failed=True)), True),
    ("remap-failed", Look(None, remap(pending=True)), False),
    ("remap-failed", Look(None, remap(failed=None)), None),
    ("remap-failed", Look(None, None), None),
    ("remap-pending", Look(None, remap(pending=True)), True),
    ("remap-pending", Look(None, remap(failed=True)), False),
    ("remap-pending", Look(None, remap(pending=None)), None),
    ("remap-pending", Look(None, None), None),
    ("recovery-reset", Look(None, asks("Reset")), True),
    ("recovery-reset", Look(None, asks("Bus Reset")), True),
    ("recovery-reset", Look(None, asks("None")), False),
    ("recovery-reset", Look(None, asks(None)), None),
    ("recovery-reboot", Look(None, asks("Reboot")), True),
    ("recovery-reboot", Look(None, asks("System Reboot")), True),
    ("recovery-reboot", Look(None, asks("Reset")), False),
    ("recovery-reboot", Look(None, asks(None)), None),
    ("recovery-drain-and-reset", Look(None, asks("Drain and Reset")), True),
    ("recovery-drain-and-reset", Look(None, asks("Reset")), False),
    ("recovery-drain-and-reset", Look(None, None), None),
    ("recovery-drain-P2P", Look(None, asks("Drain P2P")), True),
    ("recovery-drain-P2P", Look(None, asks("Drain and Reset")), False),
    ("recovery-drain-P2P", Look(None, asks(None)), None),
    ("recovery-IMEX-domain", Look(None, asks("Recover IMEX Domain")), True),
    ("recovery-IMEX-domain", Look(None, asks("None")), False),
    ("recovery-IMEX-domain", Look(None, asks(None)), None),
    ("recovery-unknown", Look(None, asks("Unknown (9)")), True),
    ("recovery-unknown", Look(None, asks("None")), False),
    ("recovery-unknown", Look(None, asks("Reboot")), False),
    ("recovery-unknown", Look(None, asks(None)), None),
    ("told-lost", Look(LOST, LOST), True),
    ("told-lost", Look(WELL, WELL), False),
    ("told-lost", Look(WELL, LOST), None),
    ("told-lost", Look(LOST, None), None),
    ("told-lost", Look(LOST, None, drained=True), None),
    ("told-lost", Look(WELL, None, drained=True), False),
    ("told-lost", Look(None, None, drained=True), False),
    ("not-shown", Look(WELL, None, absent=2), True),
    ("not-shown", Look(WELL, None, absent=1), None),
    ("not-shown", Look(WELL, WELL), False),
    ("not-shown", Look(WELL, None, absent=9, drained=True), False),
    ("links-down", over_links(linked(active=3), linked(active=3)), True),
    ("links-down", over_links(linked(speed=13.0), linked(speed=13.0)), True),
    ("links-down", over_links(linked(active=3), linked()), False),
    ("links-down", over_links(linked(), linked(active=3)), None),
    ("links-down", over_links(None, linked(active=3)), None),
    ("links-down", over_links(linked(speed=None), linked(speed=None)), False),
    ("links-down", over_links(WELL, WELL), None),
    ("links-down", over_links(linked(active=3), linked(active=3), at_rest=False), None),
]


@pytest.mark.parametrize(("name", "look", "answer"), HOLDS)
def test_a_row_answers_yes_no_or_unknown(name: str, look: Look, *, answer: bool | None) -> None:
    assert ROWS[name].holds(look) is answer


@pytest.mark.parametrize("row", FINDINGS, ids=lambda row: row.name)
def test_every_row_is_tried_in_all_three_ways_and_has_a_source(row: Finding) -> None:
    assert {answer for name, _, answer in HOLDS if name == row.name} == {True, False, None}
    assert row.source


def test_the_levels_are_those_of_the_facts() -> None:
    levels = {row.name: str(row.level) for row in FINDINGS}
    assert levels == {
        "ecc-grew": "P0",
        "remap-failed": "P0",
        "remap-pending": "P1",
        "recovery-reboot": "P0",
        "recovery-reset": "P0",
        "recovery-drain-and-reset": "P1",
        "recovery-drain-P2P": "P1",
        "recovery-IMEX-domain": "P1",
        "recovery-unknown": "P2",
        "told-lost": "P0",
        "not-shown": "P0",
        "links-down": "P1",
    }
    assert [row.name for row in FINDINGS if row.parks] == ["remap-failed"]


def test_a_healthy_gpu_shows_nothing() -> None:
    assert after(Look(WELL, WELL)) == ()


def a_case(state: CaseState, *effects: Effect, fault: str = "k1", since: float = 0.0) -> Case:
    return Case(
        id="c",
        node="n",
        gpu=GPU_A,
        gpu_uuid=None,
        fault=fault,
        code=48,
        kind="xid",
        title="",
        level=Level.P0,
        fault_class=FaultClass.HARDWARE,
        parks=False,
        opened_at=0.0,
        state=state,
        since=since,
        effects=effects,
    )


def done(kind: EffectKind, ended_at: float, number: int = 1) -> Effect:
    return Effect(number=number, kind=kind, asked_at=ended_at, outcome=Outcome.DONE, ended_at=ended_at)


def after(
    *looks: Look, cases: Iterable[Case] = (), known: tuple[Standing, ...] = (), begun: float = 100.0
) -> tuple[Standing, ...]:
    """Return what stands after these looks, ten seconds apart."""
    for number, look in enumerate(looks):
        at = Round(begun=begun + 10 * number, node="n", cases=tuple(cases))
        known = stand(known, {GPU_A: look}, at)
    return known


def one_fault(standing: tuple[Standing, ...]) -> Fault:
    (fault,) = faults_of(standing, "n")
    return fault


def test_what_goes_on_keeps_its_id_and_is_not_seen_again() -> None:
    fault = one_fault(after(*[Look(WELL, remap(pending=True))] * 3))
    assert fault.id == "n.poll-row-remap-pending-0000-3b-00-100"
    assert (fault.first.wall, fault.last.wall, fault.count) == (100.0, 100.0, 1)
    assert fault.gpu_uuid == WELL.uuid


def test_what_no_longer_holds_is_gone_and_what_is_unknown_stays() -> None:
    stays = after(Look(None, remap(pending=True)), Look(None, remap(pending=None)), Look(None, None))
    assert len(stays) == 1
    assert after(Look(None, WELL), known=stays) == ()


def test_growth_stands_until_the_count_falls_and_more_growth_is_the_same_fault() -> None:
    first = after(Look(ecc(0), ecc(1)), Look(ecc(1), ecc(1)))
    assert "from 0 to 1" in one_fault(first).verdict.because
    more = one_fault(after(Look(ecc(1), ecc(3)), known=first, begun=200.0))
    assert (more.id, more.count, more.last.wall) == (first[0].id, 2, 200.0)
    assert after(Look(ecc(3), ecc(0)), known=first) == ()


def test_growth_after_its_case_has_ended_is_a_new_fault() -> None:
    first = after(Look(ecc(0), ecc(1)))
    ended = a_case(CaseState.CLOSED, fault=first[0].id)
    (again,) = after(Look(ecc(1), ecc(2)), known=first, cases=[ended], begun=200.0)
    assert again.id != first[0].id
    (same,) = after(Look(ecc(1), ecc(1)), known=first, cases=[ended], begun=200.0)
    assert same == first[0]


def test_a_stronger_action_is_the_same_fault_and_worse() -> None:
    first = after(Look(None, asks("Drain P2P")))
    worse = one_fault(after(Look(None, asks("Reset")), known=first, begun=200.0))
    assert (worse.id, worse.verdict.level) == (first[0].id, Level.P0)


def test_what_is_over_tells_its_open_case_so() -> None:
    first = after(Look(None, asks("Drain P2P")))
    case = a_case(CaseState.SUSPECT, fault=first[0].id)
    over = after(Look(None, asks("None")), known=first, cases=[case])
    assert one_fault(over).verdict.level is Level.IGNORE
    back = after(Look(None, asks("Drain P2P")), known=over, cases=[case])
    assert one_fault(back).verdict.level is Level.P1


@pytest.mark.parametrize(
    "case",
    [
        a_case(CaseState.EVACUATING, done(EffectKind.DRAIN, 50.0)),
        a_case(CaseState.REPAIRING, done(EffectKind.DRAIN, 50.0), done(EffectKind.UNDRAIN, 60.0, 2)),
        a_case(CaseState.VERIFYING, done(EffectKind.RESET, 50.0)),
        a_case(CaseState.PROBATION, done(EffectKind.RESET, 101.0)),
        a_case(CaseState.CLOSED, done(EffectKind.UNDRAIN, 101.0)),
    ],
    ids=["drained", "repairing", "verifying", "reset while it was read", "undrained while it was read"],
)
def test_a_gpu_under_repair_makes_no_finding(case: Case) -> None:
    standing = after(Look(None, remap(pending=True)), cases=[case])
    assert list(faults_of(standing, "n")) == []
    (other,) = stand((), {GPU_B: Look(None, remap(pending=True))}, Round(begun=100.0, node="n", cases=(case,)))
    assert not other.quiet, "another GPU of the node is not under repair"


def test_what_is_as_old_as_a_lag_is_from_before_the_repair() -> None:
    at = Round(begun=100.0, node="n", cases=(a_case(CaseState.PROBATION, done(EffectKind.RESET, 50.0)),))
    assert not at.is_quiet(GPU_A)
    assert not at.is_quiet(GPU_A, lag_seconds=49.0)
    assert at.is_quiet(GPU_A, lag_seconds=51.0)
    assert not at.is_quiet(GPU_B, lag_seconds=51.0)


def test_a_missing_gpu_that_turns_out_to_be_drained_is_not_missing_any_more() -> None:
    missing = after(Look(WELL, None, absent=2))
    assert one_fault(missing).kind == "gpu_missing"
    assert after(Look(WELL, None, drained=True), known=missing) == ()
    case = a_case(CaseState.SUSPECT, fault=missing[0].id)
    withdrawn = after(Look(WELL, None, drained=True), known=missing, cases=[case])
    assert one_fault(withdrawn).verdict.level is Level.IGNORE


def test_what_was_seen_under_repair_keeps_that_time_afterwards() -> None:
    """A case that was closed over it was closed after it was seen."""
    quiet = after(Look(None, asks("Reset")), cases=[a_case(CaseState.EVACUATING, done(EffectKind.DRAIN, 50.0))])
    fault = one_fault(after(Look(None, asks("Reset")), known=quiet, begun=300.0))
    assert fault.last.wall == 100.0


@pytest.mark.parametrize("state", [CaseState.SUSPECT, CaseState.PROBATION, CaseState.CLOSED])
def test_a_gpu_that_nobody_works_on_makes_findings(state: CaseState) -> None:
    case = a_case(state, *([] if state is CaseState.SUSPECT else [done(EffectKind.RESET, 50.0)]))
    assert one_fault(after(Look(None, remap(pending=True)), cases=[case])).verdict.level is Level.P1


def test_what_stands_is_saved_and_read_back() -> None:
    (one,) = after(Look(None, remap(failed=True)))
    assert unpack_standing(pack_standing(one)) == one
    with pytest.raises(SavedError):
        unpack_standing({**pack_standing(one), "name": "of-another-version"})
    with pytest.raises(SavedError):
        unpack_standing({"id": "x"})


readings = some.builds(
    lambda volatile, pending, action, lost: replace(
        WELL,
        ecc=EccCounts(volatile=volatile, aggregate=None),
        remap=Remap(pending=pending, failed=pending),
        recovery_action=action,
        lost=lost,
    ),
    some.none() | some.integers(0, 5),
    some.none() | some.booleans(),
    some.sampled_from([None, "None", "Reset", "Drain P2P", "Unknown (9)"]),
    some.booleans(),
)


@given(some.lists(some.none() | readings, max_size=12))
def test_a_gpu_never_has_two_findings_of_a_kind(story: list[GpuReading | None]) -> None:
    known: tuple[Standing, ...] = ()
    before = None
    for number, now in enumerate(story):
        known = after(Look(before, now, absent=2 if now is None else 0), known=known, begun=100.0 + 10 * number)
        before = now or before
        assert len({one.kind for one in known}) == len(known)
        assert len({one.id for one in known}) == len(known)
        assert {one.kind for one in known} <= set(KINDS)
