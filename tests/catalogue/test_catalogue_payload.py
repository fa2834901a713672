"""What the words, registers and labels in a line decide: NVLink 5 decode, Xid 74 and Xid 154."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.catalogue import decode
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.decode import Layout
from gpuward.isolation.catalogue.load import load
from gpuward.isolation.catalogue.rows import LinkSeverity, NvlinkRow, Pattern, Recovery
from gpuward.isolation.grade import Grade, Policy, grade
from gpuward.model.level import Level
from gpuward.model.record import Record
from tests.kit.records import a_record

DRIVERS = {Layout.V1: "570.86.15", Layout.V2: "575.51.02"}
DECODED = [row for code in (144, 145, 146, 147, 148, 149, 150) for row in load().nvlink(code)]
FIXED = {147: Level.P2, 148: Level.P2, 150: Level.P0}


def graded(record: Record, policy: Policy | None = None) -> Grade:
    found = grade(load(), record, policy or Policy())
    assert found is not None
    return found


def a_link_error(code: int, words: list[str] | None, **changes: Any) -> Record:
    driver = changes.pop("driver", None)
    nvlink = {"unit": None, "severity": None, "xc": 0, "i": 0, "link": 9, "words": words, **changes}
    details = {"nvlink": nvlink} if driver is None else {"nvlink": nvlink, "driver_version": driver}
    return a_record(code=code, details=details)


def words_for(row: NvlinkRow, layout: Layout, *, promoted: bool = False, noise: int = 0) -> list[str]:
    """Return words as a driver of this layout prints them for `row`; `noise` fills the bits that do not matter."""
    patterns = {
        (Layout.V1, False): row.v1,
        (Layout.V2, False): row.v2,
        (Layout.V1, True): row.promoted_v1,
        (Layout.V2, True): row.promoted_v2,
    }
    pattern = patterns[layout, promoted]
    assert pattern is not None
    info = pattern.value | (noise & ~pattern.mask & 0xFFFFFFFF)
    status = row.error_status[-1] if row.error_status else noise
    return [f"0x{info:08x}", f"0x{status:08x}", "0x00000000"]


def unit_of(row: NvlinkRow, layout: Layout) -> str:
    return row.unit_v1 if layout is Layout.V1 else row.unit_v2


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("row", DECODED, ids=lambda row: f"{row.xid}-{row.number}")
def test_every_decode_row_is_found_by_its_own_words(row: NvlinkRow, layout: Layout) -> None:
    record = a_link_error(row.xid, words_for(row, layout), unit=unit_of(row, layout), driver=DRIVERS[layout])
    found = graded(record)
    said = found.details["decode"]
    if layout is Layout.V1 and row.unit_v1 != row.unit_v2 and row.unit_v1.startswith("TLW_"):
        twin = DECODED[said["row"] - 1]  # V1 has one pattern for both pipes: the twin asks for the same
        assert (twin.v1, twin.error_status, twin.recovery) == (row.v1, row.error_status, row.recovery)
    else:
        assert said["row"] == row.number
        assert found.rows == (f"xid:{row.xid}", f"nvlink5:{row.xid}:{row.number}")
    assert (said["layout"], said["unit"]) == (layout.value, unit_of(row, layout))
    assert (said["severity"], said["recovery"], said["investigate"]) == (row.severity, row.recovery, row.investigate)
    assert f"says {row.recovery}" in found.because
    assert ". " not in found.because


@given(row=st.sampled_from(DECODED), layout=st.sampled_from(Layout), noise=st.integers(0, 0xFFFFFFFF))
def test_bits_outside_the_mask_change_nothing(row: NvlinkRow, layout: Layout, noise: int) -> None:
    clean, noisy = (
        decode.match_nvlink(
            load().nvlink(row.xid),
            decode.words_of(words_for(row, layout, noise=bits)),
            allowed=(layout,),
            unit=unit_of(row, layout),
        )
        for bits in (0, noise)
    )
    assert row.number in {match.row.number for match in noisy}
    if row.promoted_recovery is None and all(match.row.promoted_recovery is None for match in clean):
        assert clean == noisy


@pytest.mark.parametrize("row", DECODED, ids=lambda row: f"{row.xid}-{row.number}")
def test_a_decode_row_gives_the_level_that_its_recovery_asks_for(row: NvlinkRow) -> None:
    found = graded(a_link_error(row.xid, words_for(row, Layout.V2), unit=row.unit_v2, driver="580.10"))
    quiet = row.recovery is Recovery.IGNORE and row.investigate == "IGNORE"
    asked = Level.P0 if row.recovery is Recovery.RESET_GPU else Level.IGNORE if quiet else Level.P2
    assert found.level is FIXED.get(row.xid, asked)


@pytest.mark.parametrize(
    ("driver", "layout"),
    [("570.172.08", "V1"), ("574.99", "V1"), ("575", "V2"), ("575.51.02", "V2"), ("610.1", "V2")],
)
def test_the_branch_of_the_driver_picks_the_layout(driver: str, layout: str) -> None:
    words = {"V1": ["0x000001c6", "0x0"], "V2": ["0x00000011", "0x0"]}
    assert graded(a_link_error(149, words[layout], driver=driver)).details["decode"]["layout"] == layout
    other = graded(a_link_error(149, words["V2" if layout == "V1" else "V1"], driver=driver))
    assert "decode" not in other.details


@pytest.mark.parametrize("driver", [None, "", "R575", "unknown"])
def test_without_a_known_driver_both_layouts_are_tried_and_it_is_said(driver: str | None) -> None:
    for words, layout in ((["0x000001c6", "0x0"], "V1"), (["0x00000011", "0x0"], "V2")):
        found = graded(a_link_error(149, words, driver=driver))
        assert found.level is Level.P0
        assert found.details["decode"]["layout"] == layout
        assert "the driver version is not known" in found.because


def test_the_driver_is_not_mentioned_when_it_is_known() -> None:
    assert "driver version" not in graded(a_link_error(149, ["0x000001c6", "0x0"], driver="570.1")).because


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_layouts_that_fit_the_stronger_counts(*, swapped: bool) -> None:
    quiet, grave = (
        next(row for row in DECODED if row.recovery is wanted) for wanted in (Recovery.IGNORE, Recovery.RESET_GPU)
    )
    pattern = Pattern(0xFF, 0x21)
    only_v1 = replace(grave if swapped else quiet, xid=144, v1=pattern, v2=None, error_status=())
    only_v2 = replace(quiet if swapped else grave, xid=144, v1=None, v2=pattern, error_status=())
    book = replace(load(), nvlinks={144: (only_v1, only_v2)})
    found = grade(book, a_link_error(144, ["0x21", "0x0"]), Policy())
    assert found is not None
    assert (found.level, found.details["decode"]["layout"]) == (Level.P0, "V1" if swapped else "V2")
    assert "the stronger result of both layouts, as the driver version is not known" in found.because


def test_the_unit_in_the_line_tells_rows_of_one_pattern_apart() -> None:
    for unit in ("MSE_WATCHDOG", "MSE Degraded"):
        found = graded(a_link_error(150, ["0x0", "0x0"], unit=unit, driver="575.1"))
        assert found.details["decode"]["unit"] == unit
    mixed = a_link_error(149, ["0x01000011", "0x0"], unit="NETIR_LINK_EVT/NETIR_LINK_DOWN", driver="575.1")
    assert graded(mixed).details["decode"]["bits"]["reason"] == 16


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("row", [row for row in DECODED if row.promoted_recovery], ids=lambda row: row.number)
def test_a_promotable_row_is_fatal_when_its_second_pattern_fits(row: NvlinkRow, layout: Layout) -> None:
    words = words_for(row, layout, promoted=True)
    found = graded(a_link_error(row.xid, words, unit=row.unit_v1, driver=DRIVERS[layout]))
    said = found.details["decode"]
    assert (found.level, said["row"], said["severity"], said["recovery"]) == (
        Level.P0,
        row.number,
        "Fatal",
        "RESET_GPU",
    )
    assert said["bits"]["promoted"] is True
    assert "promoted to fatal" in found.because
    plain = graded(a_link_error(row.xid, words_for(row, layout), unit=row.unit_v1, driver=DRIVERS[layout]))
    assert plain.level is Level.P2
    assert plain.details["decode"]["bits"]["promoted"] is False


def test_a_line_that_says_fatal_beats_a_row_that_says_non_fatal() -> None:
    found = graded(a_link_error(145, ["0x00000082", "0x00000100"], severity="Fatal", driver="570.1"))
    assert found.level is Level.P0
    assert found.action.startswith("Take the GPU out of service now, then reset the GPU")
    assert "the line says Fatal and the row Non-fatal, and the stronger of the two counts" in found.because


def test_a_row_that_says_fatal_beats_a_line_that_says_nonfatal() -> None:
    for code, words in ((145, ["0x00000082", "0x00000040"]), (149, ["0x000001c6", "0x0"])):
        found = graded(a_link_error(code, words, severity="Nonfatal", driver="570.1"))
        assert found.level is Level.P0
        assert "the line says Nonfatal and the row" in found.because


def test_a_line_that_agrees_with_its_row_says_nothing_of_it() -> None:
    fatal = graded(a_link_error(149, ["0x000001c6", "0x0"], severity="Fatal", driver="570.1"))
    assert "the line says" not in fatal.because
    quiet = graded(a_link_error(145, ["0x00000082", "0x00000100"], severity="Nonfatal", driver="570.1"))
    assert (quiet.level, quiet.action) == (Level.IGNORE, "Nothing to do.")
    assert "the line says" not in quiet.because


def test_fatal_is_not_the_same_as_needs_a_reset() -> None:
    """Reason 38 is link-fatal in the sheet and yet asks for nothing but a look."""
    found = graded(a_link_error(149, ["0x026001c6", "0x0"], severity="Fatal", driver="570.1"))
    assert (found.level, found.details["decode"]["severity"]) == (Level.P2, "Link Fatal")


def test_a_row_that_waits_for_xid_154_is_p2_and_says_so_in_its_details() -> None:
    found = graded(a_link_error(145, ["0x00000082", "0x00000001"], severity="Nonfatal", driver="570.1"))
    assert (found.level, found.details["decode"]["recovery"]) == (Level.P2, "XID_154_EVAL")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (None, "it has no words, so no row matched"),
        ([], "it has no words, so no row matched"),
        (["nonsense"], "it has no words, so no row matched"),
        (["0xffffffff", "0x0"], "no row of the decode table matched its words"),
        (["0x00000082", "0x00000003"], "no row of the decode table matched its words"),
        (["0x00000082"], "no row of the decode table matched its words"),
    ],
)
def test_a_line_that_no_row_fits_is_p2_and_says_so(words: list[str] | None, told: str) -> None:
    found = graded(a_link_error(145, words, severity="Nonfatal"))
    assert (found.level, found.rows) == (Level.P2, ("xid:145",))
    assert told in found.because
    assert "decode" not in found.details


def test_a_line_without_any_nvlink_part_is_p2() -> None:
    assert graded(a_record(code=146, details={})).level is Level.P2


def test_a_row_for_any_status_needs_no_second_word() -> None:
    assert graded(a_link_error(149, ["0x000001c6"], driver="570.1")).level is Level.P0


def test_codes_of_a_fixed_level_keep_it_and_still_show_their_decode() -> None:
    found = graded(a_link_error(147, ["0x0000000e", "0x1"], severity="Fatal", driver="575.1"))
    assert (found.level, found.details["decode"]["unit"]) == (Level.P2, "TREX")
    assert found.because.endswith("but the line says Fatal and the row Non-fatal.")


def test_the_settings_go_before_the_decode() -> None:
    record = a_link_error(149, ["0x000001c6", "0x0"], driver="570.1")
    found = graded(record, Policy(levels={"xid:149": Level.P2}))
    assert found.level is Level.P2
    assert found.details["decode"]["recovery"] == "RESET_GPU"
    assert "as set in the settings" in found.because


def test_the_fields_of_the_words_are_named() -> None:
    found = graded(a_link_error(149, ["0x021425c6", "0x00000005"], driver="570.1"))
    assert found.details["decode"]["bits"] == {
        "reason": 33,
        "unit_code": 0x1C6,
        "error_status": "0x00000005",
        "error_status_bits": [0, 2],
    }


def a_register_error(**registers: int) -> Record:
    values = [0] * 7
    for name, value in registers.items():
        values[int(name.removeprefix("r")) - 1] = value
    return a_record(code=74, details={"registers": values})


@pytest.mark.parametrize("place", sorted(load().registers), ids=lambda place: f"{place[0]}.{place[1]}")
def test_each_listed_bit_of_xid_74_decides_as_its_row_says(place: tuple[int, int]) -> None:
    register, bit = place
    found = graded(a_register_error(**{f"r{register}": 1 << bit}))
    benign = load().registers[place].benign
    assert found.level is (Level.P2 if benign else Level.P0)
    assert f"{register}.{bit} (" in found.because
    (said,) = found.details["decode"]
    assert (said["register"], said["bit"], said["benign"]) == (register, bit, benign)
    assert found.rows == ("xid:74", f"nvlink74:{register}:{bit}")
    assert found.action.count(". ") <= 1


@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=7, max_size=7))
def test_xid_74_is_p2_only_when_every_set_bit_is_benign(registers: list[int]) -> None:
    found = graded(a_record(code=74, details={"registers": registers}))
    bits = [(at + 1, bit) for at, value in enumerate(registers) for bit in range(32) if value >> bit & 1]
    rows = [load().register_bit(*place) for place in bits]
    benign = bool(rows) and all(row is not None and row.benign for row in rows)
    assert found.level is (Level.P2 if benign else Level.P0)


def test_benign_bits_together_are_benign_and_all_are_told() -> None:
    found = graded(a_register_error(r1=1 << 0 | 1 << 30, r5=1 << 20))
    assert found.level is Level.P2
    assert "every register bit that is set is harmless: 1.0 (" in found.because
    assert "1.30 (" in found.because
    assert "5.20 (" in found.because


@pytest.mark.parametrize("details", [{}, {"registers": None}, {"registers": []}, {"registers": [0] * 7}])
def test_xid_74_without_a_set_bit_is_not_benign(details: dict[str, Any]) -> None:
    found = graded(a_record(code=74, details=details))
    assert (found.level, found.rows) == (Level.P0, ("xid:74",))


def test_an_unlisted_bit_of_xid_74_is_not_benign() -> None:
    for registers in ({"r1": 1 << 23 | 1 << 2}, {"r2": 1}, {"r7": 1 << 31}):
        found = graded(a_register_error(**registers))
        assert found.level is Level.P0
        assert "not listed" in found.because


def a_recovery(**details: str | None) -> Record:
    return a_record(code=154, details={f"recovery_{name}": value for name, value in details.items()})


@pytest.mark.parametrize("profile", ["default", "nvidia", "intent"])
@pytest.mark.parametrize(
    ("label", "level"),
    [
        ("None", Level.IGNORE),
        ("GPU Reset Required", Level.P0),
        ("PF FLR", Level.P0),
        ("Node Reboot Required", Level.P0),
        ("Bus Reset", Level.P0),
        ("System Reboot", Level.P0),
        ("Drain P2P", Level.P1),
        ("Drain and Reset", Level.P1),
        ("Recover IMEX Domain", Level.P1),
        ("Dance", Level.P2),
    ],
)
@pytest.mark.parametrize("value", ["0x0", "0x1", "0x4", "0xff"])
def test_the_label_that_xid_154_moves_to_decides_whatever_its_number(
    label: str, level: Level, profile: str, value: str
) -> None:
    record = a_recovery(**{"from": "0x0", "from_label": "None", "to": value, "to_label": label})
    found = graded(record, Policy(profile))
    assert found.level is level
    assert f"changed from None to {label}" in found.because
    assert found.action.count(". ") <= 1


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("0x0", Level.IGNORE),
        ("0x1", Level.P0),
        ("0x2", Level.P0),
        ("0x3", Level.P1),
        ("0x4", Level.P1),
        ("0x5", Level.P1),
        ("0x6", Level.P0),
        ("0x7", Level.P0),
        ("0x8", Level.P2),
        ("nonsense", Level.P2),
    ],
)
def test_the_number_of_xid_154_decides_where_no_label_is_printed(value: str, level: Level) -> None:
    for label in (None, ""):
        assert graded(a_recovery(to=value, to_label=label)).level is level


def test_xid_154_without_a_payload_is_p2() -> None:
    found = graded(a_record(code=154, details={}))
    assert found.level is Level.P2
    assert "its line names no recovery action" in found.because


def test_the_bits_of_a_record_can_be_told_in_words(book: Book) -> None:
    assert decode.in_words(book, a_register_error(r1=1 << 23, r4=1 << 18)) == (
        "Register 1 bit 23: can be ignored, benign.",
        "Register 4 bit 18: follows from another error, and the fabric must be reset.",
    )
    assert decode.in_words(book, a_link_error(149, ["0x004001c6", "0x00000005"], driver="570.1")) == (
        (
            "In layout V1 it is NETIR_LINK_EVT (unit code 0x1c6, reason 4, error status bits [0, 2]): Link Fatal, "
            "recovery RESET_GPU, investigate INVESTIGATE_LINK_SI, origin HW, row 67."
        ),
    )
    assert decode.in_words(book, a_link_error(149, ["0xffffffff"])) == (
        "intrInfo 0xffffffff fits no row of the decode table.",
    )
    assert decode.in_words(book, a_recovery(**{"from": "0x0", "to": "0x4", "to_label": "Drain and Reset"})) == (
        "The driver's recovery action went from 0x0 to Drain and Reset.",
    )


def test_a_record_without_bits_has_nothing_to_tell(book: Book) -> None:
    for record in (a_record(code=79), a_record(code=None), a_record(code=145), a_record(code=154), a_record(code=74)):
        assert decode.in_words(book, record) == ()


def test_decode_rows_say_what_their_severity_is_when_promoted() -> None:
    (row,) = [row for row in DECODED if row.promoted_recovery][:1]
    match = decode.NvlinkMatch(Layout.V2, row, promoted=True)
    assert (match.severity, match.recovery, match.unit) == (LinkSeverity.FATAL, Recovery.RESET_GPU, row.unit_v2)
