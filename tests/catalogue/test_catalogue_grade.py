"""Each record gets the level of its row and profile, an action that fits it, and one sentence why."""

from collections.abc import Mapping

import pytest

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rows import Profile
from gpuward.isolation.grade import Grade, Policy, grade, grade_part
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.record import Record, RecordKind
from tests.kit.records import a_record

PROFILES = [profile.value for profile in Profile]
PAYLOADS = {74, 144, 145, 146, 149, 154}
SILENT = [
    RecordKind.XID_QUOTED,
    RecordKind.GPU_UUID,
    RecordKind.BOARD_SERIAL,
    RecordKind.DRIVER_LOADED,
    RecordKind.BOOT,
    RecordKind.NVRM_OTHER,
    RecordKind.NVSWITCH_OTHER,
    RecordKind.CONTINUATION,
    RecordKind.MULTILINE_START,
]


def graded(book: Book, record: Record, policy: Policy | None = None) -> Grade:
    found = grade(book, record, policy or Policy())
    assert found is not None
    return found


def an_xid(code: int) -> Record:
    return a_record(kind=RecordKind.XID, code=code)


def an_sxid(code: int, severity: str | None, part: str = "message") -> Record:
    return a_record(kind=RecordKind.SXID, code=code, severity=severity, part=part)


def sentences(text: str) -> int:
    return text.count(". ") + 1


@pytest.mark.parametrize(
    ("code", "level"),
    [(79, "P0"), (48, "P0"), (62, "P0"), (31, "P1"), (45, "P1"), (92, "P2"), (43, "P2"), (14, "ignore")],
)
def test_profile_default_keeps_the_lists_of_the_mission(book: Book, code: int, level: str) -> None:
    assert str(graded(book, an_xid(code)).level) == level


@pytest.mark.parametrize(
    ("profile", "levels"),
    [
        ("nvidia", {79: "P0", 48: "P0", 62: "P0", 31: "P2", 45: "P2", 92: "P2", 94: "P2", 43: "ignore"}),
        ("intent", {79: "P0", 48: "P0", 62: "P0", 31: "P1", 45: "P2", 92: "P1", 94: "P1", 43: "P2"}),
    ],
)
def test_other_profiles_differ_where_their_rows_say(book: Book, profile: str, levels: Mapping[int, str]) -> None:
    found = {code: str(graded(book, an_xid(code), Policy(profile)).level) for code in levels}
    assert found == levels


@pytest.mark.parametrize("profile", PROFILES)
def test_every_code_is_graded_by_its_row_with_a_fitting_action_and_one_sentence(book: Book, profile: str) -> None:
    for code in book.codes():
        row, policy_row = book.xids[code], book.policies[code]
        found = graded(book, an_xid(code), Policy(profile))
        if code not in PAYLOADS:
            assert found.level is LEVELS[policy_row.levels[profile]]
        assert (found.kind, found.scope, found.title) == ("xid", "gpu", row.title)
        assert found.fault_class is policy_row.fault_class
        assert found.rows[0] == f"xid:{code}"
        assert found.because.startswith(f"Xid {code} is graded {found.level} in profile {profile}: {row.title}")
        assert found.because.endswith(".")
        assert sentences(found.because) == 1
        assert_fits(found)


def assert_fits(found: Grade) -> None:
    openings = {
        Level.P0: "Take the ",
        Level.P1: "Give the ",
        Level.IGNORE: "Nothing to do.",
    }
    opening = openings.get(found.level)
    if opening is not None:
        assert found.action.startswith(opening)
    else:
        assert not found.action.startswith(tuple(openings.values())) or found.kind == "sxid_nonfatal"
    assert found.action.endswith(".")
    assert sentences(found.action) <= 2


def test_the_action_of_a_lost_gpu_is_to_isolate_it_and_reboot_the_node(book: Book) -> None:
    assert graded(book, an_xid(79)).action == (
        "Take the GPU out of service now, then reboot the node, with a power cycle if the GPU does not come back."
        " If it returns, contact NVIDIA support with a bug report."
    )


def test_an_investigation_that_asks_for_nothing_adds_nothing(book: Book) -> None:
    assert graded(book, an_xid(63)).action == (
        "Give the GPU no new work; when its current work has ended, reset the GPU."
    )
    assert graded(book, an_xid(95)).action == "Take the GPU out of service now, then reset the GPU."
    assert graded(book, an_xid(78)).action == "Update the driver and the firmware."


def test_the_action_of_one_code_changes_with_its_level(book: Book) -> None:
    assert graded(book, an_xid(31)).action.startswith(
        "Give the GPU no new work; when its current work has ended, reset the GPU before the application"
    )
    assert graded(book, an_xid(31), Policy("nvidia")).action.startswith("Restart the application. If it returns, ")
    assert graded(book, an_xid(31), Policy(levels={"xid:31": Level.IGNORE})).action == "Nothing to do."


def test_a_code_without_a_published_bucket_is_treated_by_its_need(book: Book) -> None:
    found = graded(book, an_xid(167))
    assert found.action.startswith("Take the GPU out of service now, then reboot the node")
    assert "NVIDIA's action" not in found.because


def test_a_plain_grade_is_one_and_the_same_value_each_time(book: Book) -> None:
    assert graded(book, an_xid(79)) is graded(book, an_xid(79), Policy())


def test_the_settings_go_before_the_profile_and_the_sentence_says_so(book: Book) -> None:
    found = graded(book, an_xid(92), Policy(levels={"xid:92": Level.P1}))
    assert found.level is Level.P1
    assert found.because.startswith("Xid 92 is graded P1 as set in the settings: ")
    assert graded(book, an_xid(93), Policy(levels={"xid:92": Level.P1})).level is Level.P2


def test_the_settings_may_lower_a_code_to_ignore(book: Book) -> None:
    found = graded(book, an_xid(79), Policy(levels={"xid:79": Level.IGNORE}))
    assert (found.level, found.action) == (Level.IGNORE, "Nothing to do.")


def test_the_settings_may_change_the_class_alone(book: Book) -> None:
    found = graded(book, an_xid(31), Policy(classes={"xid:31": FaultClass.HARDWARE}))
    assert (found.level, found.fault_class) == (Level.P1, FaultClass.HARDWARE)
    assert found.because.endswith("; the settings set its class to hardware.")
    assert "in profile default" in found.because


def test_the_settings_of_a_code_go_before_those_of_its_kind(book: Book) -> None:
    policy = Policy(levels={"sxid_fatal": Level.P1, "sxid:12028": Level.P2, "rm_init_failed": Level.P0})
    assert graded(book, an_sxid(12028, "fatal"), policy).level is Level.P2
    assert graded(book, an_sxid(12020, "fatal"), policy).level is Level.P1
    assert graded(book, a_record(kind=RecordKind.RMINIT_FAILED, code=None), policy).level is Level.P0


def test_a_code_that_is_not_in_the_book_is_p2_of_unknown_class(book: Book) -> None:
    found = graded(book, an_xid(999))
    assert (found.kind, found.level, found.fault_class) == ("xid_unknown", Level.P2, FaultClass.UNKNOWN)
    assert found.title == "Xid 999, not in the book"
    assert found.because == "Xid 999 is graded P2 in profile default: the book does not have this code."
    assert found.rows == ("other:xid_unknown",)
    assert graded(book, an_xid(999), Policy(levels={"xid:999": Level.P0})).level is Level.P0


@pytest.mark.parametrize("kind", SILENT)
def test_a_line_that_is_no_fault_has_no_grade(book: Book, kind: RecordKind) -> None:
    assert grade(book, a_record(kind=kind, code=79), Policy()) is None
    assert grade_part(book, a_record(kind=kind, code=79), Policy()) is None


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("kind", "fault_kind", "levels", "fault_class", "scope"),
    [
        (RecordKind.XID_MALFORMED, "xid_malformed", "P2 P2 P2", FaultClass.UNKNOWN, "gpu"),
        (RecordKind.SXID_MALFORMED, "xid_malformed", "P2 P2 P2", FaultClass.UNKNOWN, "gpu"),
        (RecordKind.XID, "xid_malformed", "P2 P2 P2", FaultClass.UNKNOWN, "gpu"),
        (RecordKind.SXID, "xid_malformed", "P2 P2 P2", FaultClass.UNKNOWN, "gpu"),
        (RecordKind.FALLEN_OFF_BUS, "fallen_off_bus", "P0 P0 P0", FaultClass.HARDWARE, "gpu"),
        (RecordKind.RMINIT_FAILED, "rm_init_failed", "P1 P1 P1", FaultClass.DRIVER, "gpu"),
        (RecordKind.VERSION_MISMATCH, "driver_mismatch", "P1 P1 P1", FaultClass.DRIVER, "node"),
    ],
)
def test_a_line_without_a_code_has_the_level_of_its_kind(  # noqa: PLR0913, PLR0917  # one column of the table each
    book: Book, kind: RecordKind, fault_kind: str, levels: str, fault_class: FaultClass, scope: str, profile: str
) -> None:
    found = graded(book, a_record(kind=kind, code=None), Policy(profile))
    assert (found.kind, str(found.level)) == (fault_kind, levels.split()[PROFILES.index(profile)])
    assert (found.fault_class, found.scope) == (fault_class, scope)
    assert found.because.startswith(f"Fault {fault_kind} is graded {found.level} in profile {profile}: ")
    assert sentences(found.because) == 1
    assert_fits(found)


@pytest.mark.parametrize(
    ("severity", "fault_kind", "level"),
    [
        ("fatal", "pcie_uncorrectable", Level.P1),
        ("non-fatal", "pcie_uncorrectable", Level.P1),
        ("corrected", "pcie_corrected", Level.P2),
    ],
)
def test_a_pcie_error_counts_only_when_it_is_of_a_gpu(book: Book, severity: str, fault_kind: str, level: Level) -> None:
    details = {"aer_severity": severity, "of_gpu": True}
    found = graded(book, a_record(kind=RecordKind.AER, code=None, details=details))
    assert (found.kind, found.level) == (fault_kind, level)
    for of_gpu in (False, None):
        other = a_record(kind=RecordKind.AER, code=None, details={**details, "of_gpu": of_gpu})
        assert grade(book, other, Policy()) is None


def test_a_pcie_line_without_a_severity_or_an_owner_has_no_grade(book: Book) -> None:
    for details in ({"of_gpu": True}, {"of_gpu": True, "aer_severity": None}, {"aer_severity": "fatal"}):
        assert grade(book, a_record(kind=RecordKind.AER, code=None, details=details), Policy()) is None


@pytest.mark.parametrize(
    ("word", "kind", "level"),
    [("fatal", "sxid_fatal", "P0"), ("non-fatal", "sxid_nonfatal", "P2"), ("correctable", "sxid_nonfatal", "P2")],
)
@pytest.mark.parametrize("code", [12020, 12028, 11001, 99999])
def test_the_word_in_an_sxid_line_decides_whatever_the_row_says(
    book: Book, code: int, word: str, kind: str, level: str
) -> None:
    found = graded(book, an_sxid(code, word))
    assert (found.kind, str(found.level), found.scope) == (kind, level, "node")
    assert f"its line says {word.capitalize()}" in found.because


@pytest.mark.parametrize("profile", PROFILES)
def test_without_a_word_the_row_of_an_sxid_decides(book: Book, profile: str) -> None:
    for code in book.sxid_codes():
        found = graded(book, an_sxid(code, None), Policy(profile))
        fatal = book.sxids[code].fatal
        assert (found.kind, found.level) == (("sxid_fatal", Level.P0) if fatal else ("sxid_nonfatal", Level.P2))
        assert found.rows == (f"sxid:{code}", f"other:{found.kind}")
        assert found.fault_class is FaultClass.HARDWARE
        assert sentences(found.because) == 1
        assert_fits(found)


def test_an_unknown_sxid_without_a_word_is_p2(book: Book) -> None:
    found = graded(book, an_sxid(99999, None))
    assert (found.kind, found.level, found.rows) == ("sxid_nonfatal", Level.P2, ("other:sxid_nonfatal",))
    assert found.title == "SXid 99999, not in the book"


def test_a_fatal_error_of_the_whole_fabric_takes_in_every_partition(book: Book) -> None:
    always = [10003, 12020, 22003, 22011, *range(23001, 23018)]
    for code in always:
        assert "Stop every partition of the fabric" in graded(book, an_sxid(code, "fatal")).action
    assert "every partition of the fabric" not in graded(book, an_sxid(12028, "fatal")).action


def test_the_second_and_third_line_of_an_sxid_are_graded_only_when_asked(book: Book) -> None:
    for part in ("severity", "data"):
        line = an_sxid(12020, None, part)
        assert grade(book, line, Policy()) is None
        alone = grade_part(book, line, Policy())
        assert alone is not None
        assert (alone.kind, alone.level) == ("sxid_fatal", Level.P0)


def test_a_part_of_any_other_line_is_graded_as_the_line(book: Book) -> None:
    assert grade_part(book, an_xid(79), Policy()) == graded(book, an_xid(79))


def test_the_action_of_an_sxid_follows_the_level_that_is_set(book: Book) -> None:
    line = an_sxid(12028, "fatal")
    wanted = {Level.IGNORE: "Nothing to do.", Level.P2: "Stop the jobs", Level.P1: "Give the node no new work. Stop "}
    for level, opening in wanted.items():
        assert graded(book, line, Policy(levels={"sxid:12028": level})).action.startswith(opening)


def test_a_quiet_sxid_asks_for_nothing_now(book: Book) -> None:
    assert graded(book, an_sxid(19049, "non-fatal")).action == "Nothing to do now: hardware corrected it."
