"""How bad a finding is: the settings before the profile, the profile before the row; and what a restart makes of it."""

from dataclasses import replace

import pytest

from gpuward.isolation.catalogue.load import load
from gpuward.isolation.catalogue.rows import Profile
from gpuward.isolation.findings import FINDINGS, KINDS, Finding, Grading, Look, by_row, grading_of
from gpuward.isolation.grade import Policy
from gpuward.isolation.saved import SavedError
from gpuward.isolation.telemetry import Round, Standing, fault_of, pack_standing, stand, unpack_standing
from gpuward.model.case import Case, CaseState
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.node import GpuReading, Remap
from tests.kit.merging import GPU_A
from tests.kit.pretend_driver import a_reading

WELL = a_reading(GPU_A, 0)
PENDING = replace(WELL, remap=Remap(pending=True, failed=False))
ROWS = {row.name: row for row in FINDINGS}
every_row = pytest.mark.parametrize("row", FINDINGS, ids=lambda row: row.name)


def graded(profile: str = "default", **levels: Level) -> Grading:
    return grading_of(load(), Policy(profile=profile, levels=levels))


def asks(action: str) -> GpuReading:
    return replace(WELL, recovery_action=action)


def after(
    now: GpuReading,
    grading: Grading = by_row,
    *,
    known: tuple[Standing, ...] = (),
    begun: float = 100.0,
    cases: tuple[Case, ...] = (),
) -> Standing:
    """Return the one finding that stands."""
    (one,) = stand(known, {GPU_A: Look(None, now)}, Round(begun=begun, node="n", cases=cases, grading=grading))
    return one


@every_row
def test_the_default_profile_with_nothing_set_is_what_the_rows_say(row: Finding) -> None:
    assert graded()(row) == by_row(row)
    other = load().others[row.kind]
    assert row.fault_class is other.fault_class
    assert LEVELS.get(other.levels[Profile.DEFAULT], row.level) is row.level


@every_row
def test_a_level_that_is_set_goes_before_profile_and_row(row: Finding) -> None:
    for profile in Profile:
        for level in Level:
            got = graded(profile, **{row.kind: level})(row)
            assert got.level is min(level, row.most)


def test_a_profile_goes_before_the_row_where_it_fixes_a_level() -> None:
    got = graded("nvidia")(ROWS["remap-pending"])
    assert (got.level, got.says) == (Level.P2, "; graded P2, as profile nvidia has it")


@pytest.mark.parametrize("profile", Profile)
def test_the_row_counts_where_the_profile_leaves_it_open(profile: Profile) -> None:
    levels = {name: graded(profile)(row).level for name, row in ROWS.items() if row.kind == "recovery_action"}
    assert levels["recovery-reset"] is Level.P0
    assert levels["recovery-drain-and-reset"] is Level.P1
    assert levels["recovery-unknown"] is Level.P2


def test_a_setting_of_another_kind_changes_nothing() -> None:
    assert graded(ecc_uncorrectable=Level.IGNORE)(ROWS["remap-failed"]) == by_row(ROWS["remap-failed"])


def test_nobody_lifts_a_word_that_is_not_in_the_book() -> None:
    unknown = ROWS["recovery-unknown"]
    assert graded(recovery_action=Level.P0)(unknown).level is Level.P2
    assert graded(recovery_action=Level.IGNORE)(unknown).level is Level.IGNORE
    assert [row.name for row in FINDINGS if row.most < Level.P0] == ["recovery-unknown"]


def test_a_class_that_is_set_is_the_findings() -> None:
    grading = grading_of(load(), Policy(classes={"nvlink_down": FaultClass.UNKNOWN}))
    assert grading(ROWS["links-down"]).fault_class is FaultClass.UNKNOWN
    assert "the settings set its class to unknown" in grading(ROWS["links-down"]).says
    assert grading(ROWS["ecc-grew"]).fault_class is FaultClass.HARDWARE


def test_a_fault_says_who_graded_it_and_its_action_fits() -> None:
    fault = fault_of(after(PENDING), "n", grading=graded(row_remap_pending=Level.P0))
    assert fault.verdict.level is Level.P0
    assert fault.verdict.because.endswith("; graded P0, as set in the settings.")
    assert fault.verdict.action == "Take the GPU out of service now, then reset it."
    assert fault.evidence[0].text == after(PENDING).because, "evidence is what was read, not how it was graded"


@every_row
def test_what_to_do_begins_with_what_the_level_asks_for(row: Finding) -> None:
    openings = [row.action_at(level).split(",")[0].split(";")[0] for level in sorted(Level)]
    assert openings == [
        "Nothing to do.",
        "When it suits",
        "Give the GPU no new work",
        "Take the GPU out of service now",
    ]


def test_a_finding_is_graded_anew_by_other_settings() -> None:
    saved = pack_standing(after(PENDING, graded(row_remap_pending=Level.IGNORE)))
    one = unpack_standing(saved)
    assert fault_of(one, "n", grading=graded()).verdict.level is Level.P1
    assert fault_of(one, "n", grading=graded(row_remap_pending=Level.P0)).verdict.level is Level.P0


def test_settings_that_raise_a_finding_make_it_news() -> None:
    ignored = after(PENDING, graded(row_remap_pending=Level.IGNORE))
    raised = after(PENDING, graded(), known=(ignored,), begun=200.0)
    assert (raised.id, raised.last, raised.count) == (ignored.id, 200.0, 2)
    assert raised.worth != ignored.worth
    calm = after(PENDING, graded(), known=(raised,), begun=300.0)
    assert calm == raised, "it is news once"


def test_settings_that_lower_a_finding_make_no_news_and_raising_it_again_does() -> None:
    high = after(PENDING, graded())
    low = after(PENDING, graded(row_remap_pending=Level.P2), known=(high,), begun=200.0)
    assert (low.last, low.count) == (high.last, 1)
    assert after(PENDING, graded(), known=(low,), begun=300.0).last == 300.0


def test_settings_that_raise_a_finding_whose_case_has_ended_make_a_new_fault() -> None:
    """Whoever closed it closed it at the level that it had then."""
    first = after(PENDING, graded())
    closed = a_closed_case(first.id)
    assert after(PENDING, graded(), known=(first,), begun=200.0, cases=(closed,)).id == first.id
    raised = after(PENDING, graded(row_remap_pending=Level.P0), known=(first,), begun=200.0, cases=(closed,))
    assert raised.id != first.id


def test_a_stronger_ask_is_news_also_where_all_of_them_are_set_alike() -> None:
    grading = graded(recovery_action=Level.P1)
    first = after(asks("Drain P2P"), grading)
    worse = after(asks("Reset"), grading, known=(first,), begun=200.0)
    assert (worse.last, worse.because) == (200.0, "The driver asks for a recovery action: Reset.")
    assert worse.worth != first.worth


def test_a_finding_of_an_older_version_has_its_rows_level() -> None:
    old = pack_standing(after(PENDING))
    del old["graded"]
    one = unpack_standing(old)
    assert after(PENDING, graded(), known=(one,), begun=200.0).last == one.last
    with pytest.raises(SavedError, match="a level that is not known"):
        unpack_standing({**old, "graded": "P7"})


def test_every_kind_is_in_the_book() -> None:
    assert set(KINDS) <= set(load().others)


def a_closed_case(fault: str) -> Case:
    return Case(
        id="c",
        node="n",
        gpu=GPU_A,
        gpu_uuid=None,
        fault=fault,
        code=None,
        kind="row_remap_pending",
        title="",
        level=Level.P1,
        fault_class=FaultClass.HARDWARE,
        parks=False,
        opened_at=0.0,
        state=CaseState.CLOSED,
        since=150.0,
    )
