"""Every rule row, in the words of its claim: what it makes of its faults, and which it must leave alone."""

import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuward.isolation import around, judge, live, merge
from gpuward.isolation import terms as terms_room
from gpuward.isolation.catalogue.load import load_rules
from gpuward.isolation.catalogue.rules import Rule, RuleError, Selector, read_rules
from gpuward.isolation.merge import Merger
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.level import FaultClass, Level
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER
from tests.kit.merging import GPU_A, GPU_B, GPU_C, HOUR, line_of, sxid, terms, told, xid
from tests.kit.records import at

COVERED: set[str] = set()


def spoke(rule_id: str, fault: Fault) -> bool:
    COVERED.add(rule_id)
    return rule_id in fault.verdict.rules


# --- 45 is a consequence -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", [13, 31, 79, 999])
@pytest.mark.parametrize("seconds", [-59.0, -0.001, 0.0, 59.0])
def test_45_with_another_xid_on_the_gpu_is_a_consequence(cause: int, seconds: float) -> None:
    records = sorted([xid(cause, 100 + seconds), xid(45, 100)], key=lambda record: record.moment.wall or 0)
    fault = told(records).of(45)
    assert spoke("R45-consequence", fault) or spoke("R79-fallout", fault)
    assert fault.verdict.level is Level.IGNORE
    assert fault.verdict.explained_by is not None


@pytest.mark.parametrize("other", [xid(31, 61), xid(31, 1, pci=GPU_B), xid(31, 1, node="gpu-2")])
def test_45_is_alone_when_the_other_xid_is_late_or_elsewhere(other: Record) -> None:
    fault = told([xid(45, 0), other]).of(45)
    assert not spoke("R45-consequence", fault)
    assert (fault.verdict.level, fault.verdict.explained_by) == (Level.P1, None)


def test_45_waits_60_seconds_before_it_is_p1() -> None:
    merger = Merger(terms())
    began = told([xid(45, 0)], merger=merger, finish=False).only()
    assert (began.verdict.level, began.verdict.waits) == (Level.P2, True)
    assert merger.advance(at(60), boot="b1") == []
    (change,) = merger.advance(at(60.5), boot="b1")
    assert (change.kind, change.fault.verdict.level) == (ChangeKind.WORSENED, Level.P1)


def test_the_wait_ends_at_once_when_the_cause_comes() -> None:
    seen = told([xid(45, 0), xid(31, 10)], finish=False)
    assert seen.kinds(seen.of(45)) == [ChangeKind.BEGAN, ChangeKind.EXPLAINED]
    assert seen.of(45).verdict.fault_class is FaultClass.APPLICATION


def test_a_storm_of_45_after_31_stays_one_consequence() -> None:
    records = [xid(31, 0), *(xid(45, second) for second in range(1, 150, 3))]
    fault = told(records).of(45)
    assert (fault.count, fault.verdict.level) == (50, Level.IGNORE)


def test_a_45_long_after_its_cause_is_alone_again() -> None:
    records = [xid(31, 0), *(xid(45, second) for second in (1, 150, 300, 450))]
    assert told(records).of(45).verdict.level is Level.P1


def test_45_that_names_its_cause_needs_no_window() -> None:
    fault = told([xid(45, 0, details={"caused_by_xid": 149})], finish=False).only()
    assert spoke("R45-named", fault)
    assert (fault.verdict.level, fault.verdict.waits) == (Level.IGNORE, False)
    assert "149" in fault.verdict.because


def test_a_named_45_does_not_cover_a_lone_one_of_the_same_fault() -> None:
    fault = told([xid(45, 0, details={"caused_by_xid": 149}), xid(45, 100)]).only()
    assert fault.verdict.level is Level.P1


def test_45_without_times_follows_what_stands_in_the_log() -> None:
    records = [xid(31, None, moment=NEVER), xid(45, None, moment=NEVER)]
    assert told(records).of(45).verdict.level is Level.IGNORE
    assert told([xid(45, None, moment=NEVER)]).of(45).verdict.level is Level.P1


def test_45_after_a_fatal_switch_error_is_its_consequence() -> None:
    fault = told([sxid(24007, 0, word="fatal"), xid(45, 5)]).of(45)
    assert spoke("R45-switch", fault)
    assert fault.verdict.level is Level.IGNORE
    assert told([sxid(24007, 0, word="non-fatal"), xid(45, 5)]).of(45).verdict.level is Level.P1


def test_a_45_solo_is_p2_in_the_other_profiles() -> None:
    assert {told([xid(45, 0)], profile=name).only().verdict.level for name in ("nvidia", "intent")} == {Level.P2}


def test_three_lone_45_in_a_day_are_hardware() -> None:
    three = told([xid(45, hour * HOUR) for hour in (0, 5, 10)]).faults
    assert [fault.verdict.fault_class for fault in three] == [FaultClass.APPLICATION] * 2 + [FaultClass.HARDWARE]
    assert spoke("R45-repeat", three[-1])
    assert "diagnostics" in three[-1].verdict.action
    explained = [record for hour in (0, 5, 10) for record in (xid(31, hour * HOUR), xid(45, hour * HOUR + 1))]
    assert not any(spoke("R45-repeat", fault) for fault in told(explained).faults)
    slow = told([xid(45, hour * HOUR) for hour in (0, 5, 30)]).faults
    assert not any(spoke("R45-repeat", fault) for fault in slow)


# --- a lost GPU -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [31, 43, 45, 62, 74, 94, 95, 109, 119, 120, 140, 143, 154])
def test_what_comes_after_a_loss_is_fallout(code: int) -> None:
    fault = told([xid(79, 0), xid(code, 1)]).of(code)
    assert spoke("R79-fallout", fault) or code == 45
    assert fault.verdict.level is Level.IGNORE
    assert fault.verdict.explained_by is not None


def test_what_came_before_the_loss_or_elsewhere_is_no_fallout() -> None:
    assert told([xid(119, 0), xid(79, 1)]).of(119).verdict.level is Level.P0
    assert told([xid(79, 0), xid(119, 1, pci=GPU_B)]).of(119).verdict.level is Level.P0


def test_the_text_of_a_loss_is_part_of_its_79() -> None:
    fault = told([xid(79, 0), line_of(RecordKind.FALLEN_OFF_BUS, 0.1)]).of(None)
    assert spoke("R79-line", fault)
    assert fault.verdict.level is Level.IGNORE
    alone = told([line_of(RecordKind.FALLEN_OFF_BUS, 0)]).only()
    assert (alone.verdict.level, alone.verdict.fault_class) == (Level.P0, FaultClass.HARDWARE)


def test_a_loss_after_a_hang_says_so() -> None:
    fault = told([xid(119, 0), xid(79, 30)]).of(79)
    assert spoke("R79-after-hang", fault)
    assert "Xid 119 came first" in fault.verdict.because


def test_the_second_loss_in_a_week_asks_for_a_new_gpu() -> None:
    second = told([xid(79, 0), xid(79, 100 * HOUR)]).faults[-1]
    assert spoke("R79-second", second)
    assert "replace" in second.verdict.action
    assert "replace" not in told([xid(79, 0), xid(79, 200 * HOUR)]).faults[-1].verdict.action


def test_74_of_the_other_gpus_are_witnesses_of_a_loss() -> None:
    seen = told([xid(79, 0), xid(74, 1, pci=GPU_B), xid(74, 1, pci=GPU_C)])
    for pci in (GPU_B, GPU_C):
        fault = seen.of(74, pci=pci)
        assert spoke("R74-witness", fault)
        assert fault.verdict.level is Level.P2
        assert GPU_A in fault.verdict.because
    assert told([xid(79, 0), xid(74, 100, pci=GPU_B)]).of(74).verdict.level is Level.P0


def test_switches_that_saw_a_loss_are_witnesses() -> None:
    fault = told([xid(79, 0), sxid(20034, 12, word="fatal")]).of(20034)
    assert spoke("RSXid-witness", fault)
    assert fault.verdict.level is Level.P2
    assert told([xid(79, 0), sxid(24007, 12, word="fatal")]).of(24007).verdict.level is Level.P0


def test_74_after_a_fatal_switch_error_is_forwarded() -> None:
    fault = told([sxid(24007, 0, word="fatal"), xid(74, 1)]).of(74)
    assert spoke("R74-forwarded", fault)
    assert fault.verdict.level is Level.P2


# --- memory -----------------------------------------------------------------------------------------------------


def test_followers_of_48_add_only_evidence() -> None:
    seen = told([xid(48, 0), xid(171, 0.1), xid(63, 0.2), xid(94, 0.3), xid(95, 0.4)])
    assert seen.of(48).verdict.level is Level.P0
    for rule_id, code in (("R48-detail", 171), ("R48-remap", 63), ("R94-sympathetic", 94)):
        assert spoke(rule_id, seen.of(code))
        assert seen.of(code).verdict.level is Level.IGNORE
    assert spoke("R95-sympathetic", seen.of(95))
    assert seen.of(95).verdict.level is Level.P0


def test_alone_they_keep_their_own_level() -> None:
    levels = {code: told([xid(code, 0)]).only().verdict.level for code in (171, 172, 63, 94, 95)}
    assert levels == {171: Level.P0, 172: Level.P0, 63: Level.P1, 94: Level.P1, 95: Level.P0}


def test_the_flags_of_94_raise_it() -> None:
    required = told([xid(94, 0, details={"rst": True, "d_rst": False})]).only()
    assert spoke("R94-reset", required)
    assert required.verdict.level is Level.P0
    drained = told([xid(94, 0, details={"rst": False, "d_rst": True})], profile="nvidia").only()
    assert spoke("R94-drain-reset", drained)
    assert drained.verdict.level is Level.P1
    assert told([xid(94, 0)], profile="nvidia").only().verdict.level is Level.P2


def test_48_is_lowered_only_when_the_settings_allow_it() -> None:
    records = [xid(48, 0), xid(63, 1), xid(94, 2, details={"rst": False, "d_rst": False})]
    assert told(records).of(48).verdict.level is Level.P0
    lowered = told(records, options=["lower_48"]).of(48)
    assert spoke("R48-with-remap", lowered)
    assert spoke("R48-contained", lowered)
    assert lowered.verdict.level is Level.P1
    assert told(records[:1], options=["lower_48"]).of(48).verdict.level is Level.P0
    assert told(records[:2], options=["lower_48"]).of(48).verdict.level is Level.P0


def test_92_with_63_is_p1_whichever_comes_first() -> None:
    for order in ([xid(92, 0), xid(63, HOUR)], [xid(63, 0), xid(92, HOUR)]):
        fault = told(order).of(92)
        assert spoke("R92-with-63", fault)
        assert fault.verdict.level is Level.P1
    assert told([xid(92, 0)]).only().verdict.level is Level.P2


# --- links ------------------------------------------------------------------------------------------------------


def _nvlink(
    code: int, seconds: float, *, unit: str, words: tuple[int, int], word: str = "Nonfatal", **more: Any
) -> Record:
    details = {
        "nvlink": {
            "unit": unit,
            "severity": word,
            "xc": "XC0",
            "i": 0,
            "link": 3,
            "words": [f"0x{value:08x}" for value in (*words, 0, 0)],
        },
        "driver_version": "570.10.01",
    }
    severity = "fatal" if word == "Fatal" else "non-fatal"
    return xid(code, seconds, **{"pid": None, "link": 3, "severity": severity, "details": details, **more})


def test_an_error_that_follows_154_takes_its_level() -> None:
    remap = _nvlink(145, 0, unit="RLW_REMAP", words=(0x82, 0x1))
    alone = told([remap]).only()
    assert alone.verdict.level is Level.P2
    advice = xid(154, 1, pid=None, details={"recovery_to": "0x1", "recovery_to_label": "GPU Reset Required"})
    seen = told([_nvlink(145, 0, unit="RLW_REMAP", words=(0x82, 0x1)), advice])
    assert spoke("R144-154", seen.of(145))
    assert seen.of(145).verdict.level is Level.P0


def test_the_reporter_of_a_far_side_loss_is_not_reset() -> None:
    advice = xid(154, 0, pid=None, details={"recovery_to": "0x1", "recovery_to_label": "GPU Reset Required"})
    fault = told([advice, _nvlink(145, 1, unit="RLW_SRC_TRACK", words=(0xE2, 0x4))]).of(145)
    assert spoke("R145-far-side", fault)
    assert fault.verdict.level is Level.P2


def test_a_remap_error_after_a_dropped_link_is_a_by_product() -> None:
    dropped = _nvlink(149, 0, unit="NETIR_LINK_EVT", words=(0x005001C6, 0), word="Fatal", pci=GPU_B)
    fault = told([dropped, _nvlink(145, 10, unit="RLW_REMAP", words=(0x82, 0x4))]).of(145)
    assert spoke("R145-by-product", fault)
    assert fault.verdict.explained_by is not None


def test_three_74_on_one_link_in_a_day_are_hardware() -> None:
    informational = {"registers": [0, 0, 0, 0, 1 << 20, 0, 0]}
    records = [xid(74, hour * HOUR, link=5, details=informational) for hour in (0, 7, 14)]
    levels = [fault.verdict.level for fault in told(records).faults]
    assert levels == [Level.P2, Level.P2, Level.P0]
    assert spoke("R74-link-repeat", told(records).faults[-1])
    elsewhere = [xid(74, hour * HOUR, link=int(hour), details=informational) for hour in (0, 7, 14)]
    assert {fault.verdict.level for fault in told(elsewhere).faults} == {Level.P2}


# --- application or hardware ------------------------------------------------------------------------------------


def _sm(seconds: float, gpc: int, tpc: int, **more: Any) -> Record:
    return xid(13, seconds, **{"details": {"gpc": gpc, "tpc": tpc, "sm": 0}, **more})


def test_13_twice_on_the_same_gpc_and_tpc_is_hardware() -> None:
    last = told([_sm(0, 1, 2), _sm(5 * HOUR, 1, 2)]).faults[-1]
    assert spoke("R13-same-sm", last)
    assert (last.verdict.level, last.verdict.fault_class) == (Level.P1, FaultClass.HARDWARE)
    assert "EUD" in last.verdict.action


@pytest.mark.parametrize(
    "records",
    [
        [_sm(0, 1, 2), _sm(5 * HOUR, 1, 3)],
        [_sm(0, 1, 2), _sm(1, 1, 2)],
        [_sm(0, 1, 2), _sm(5 * HOUR, 1, 2, pci=GPU_B)],
        [_sm(0, 1, 2), _sm(25 * HOUR, 1, 2)],
    ],
    ids=["other TPC", "one burst", "other GPU", "more than a day"],
)
def test_13_is_the_application_otherwise(records: list[Record]) -> None:
    last = told(records).faults[-1]
    assert not spoke("R13-same-sm", last)
    assert (last.verdict.level, last.verdict.fault_class) == (Level.P2, FaultClass.APPLICATION)


def test_13_on_many_gpus_of_one_job_at_once_is_the_application() -> None:
    records = [_sm(hour * HOUR + n, 1, 2, pci=pci) for hour in (0, 5) for n, pci in enumerate((GPU_A, GPU_B))]
    for fault in told(records).faults:
        assert spoke("R13-burst", fault)
        assert fault.verdict.fault_class is FaultClass.APPLICATION


def test_31_twice_on_one_gpu_is_hardware() -> None:
    last = told([xid(31, 0), xid(31, 5 * HOUR)]).faults[-1]
    assert spoke("R31-same-gpu", last)
    assert (last.verdict.level, last.verdict.fault_class) == (Level.P1, FaultClass.HARDWARE)
    assert "diagnostics" in last.verdict.action
    assert told([xid(31, 0), xid(31, 5 * HOUR)], profile="nvidia").faults[-1].verdict.level is Level.P1


def test_31_on_two_gpus_in_a_day_is_the_application() -> None:
    last = told([xid(31, 0), xid(31, 5 * HOUR), xid(31, 6 * HOUR, pci=GPU_B)]).faults[-1]
    assert spoke("R31-many-gpus", last)
    assert last.verdict.fault_class is FaultClass.APPLICATION


def test_31_alone_is_the_application() -> None:
    assert told([xid(31, 0), xid(31, 25 * HOUR)]).faults[-1].verdict.fault_class is FaultClass.APPLICATION


def test_31_right_after_122_is_not_the_application() -> None:
    fault = told([xid(122, 0), xid(31, 0.05)]).of(31)
    assert spoke("R31-after-122", fault)
    assert fault.verdict.fault_class is FaultClass.HARDWARE
    assert told([xid(122, 0), xid(31, 60)]).of(31).verdict.fault_class is FaultClass.APPLICATION


def test_application_faults_of_different_jobs_take_the_gpu_out() -> None:
    records = [xid(43, hour * HOUR, process=name) for hour, name in ((0, "train"), (5, "serve"), (9, "train"))]
    last = told(records).faults[-1]
    assert spoke("R-app-repeat", last)
    assert (last.verdict.level, last.verdict.fault_class) == (Level.P1, FaultClass.HARDWARE)
    same = told([xid(43, hour * HOUR) for hour in (0, 5, 9)]).faults[-1]
    assert not spoke("R-app-repeat", same)
    assert same.verdict.level is Level.P2


def test_five_bursts_of_one_code_in_a_day_go_to_support() -> None:
    last = told([xid(109, 4 * HOUR * n) for n in range(5)]).faults[-1]
    assert spoke("R-generic-repeat", last)
    assert "support" in last.verdict.action
    assert not spoke("R-generic-repeat", told([xid(109, 4 * HOUR * n) for n in range(4)]).faults[-1])
    assert not spoke("R-generic-repeat", told([xid(31, 4 * HOUR * n) for n in range(6)]).faults[-1])


def test_32_twice_with_pcie_errors_is_p1() -> None:
    aer = line_of(RecordKind.AER, 0, details={"aer_severity": "corrected", "of_gpu": True, "driver": "nvidia"})
    last = told([aer, xid(32, HOUR), xid(32, 5 * HOUR)]).faults[-1]
    assert spoke("R32-repeat", last)
    assert spoke("R32-replays", last)
    assert last.verdict.level is Level.P1
    assert told([xid(32, HOUR), xid(32, 5 * HOUR)]).faults[-1].verdict.level is Level.P2


@pytest.mark.parametrize(
    ("code", "rule_id", "word"), [(119, "R119-persists", "power cycle"), (143, "R143-persists", "replace")]
)
def test_firmware_that_fails_again_asks_for_more(code: int, rule_id: str, word: str) -> None:
    last = told([xid(code, 0), xid(code, 10 * HOUR)]).faults[-1]
    assert spoke(rule_id, last)
    assert word in last.verdict.action
    assert word not in told([xid(code, 0)]).only().verdict.action


def test_a_stopped_power_unit_asks_for_the_temperatures() -> None:
    fault = told([xid(62, 0)]).only()
    assert spoke("R61-heat", fault)
    assert "temperatures" in fault.verdict.action


def test_154_names_what_it_follows() -> None:
    advice = xid(154, 1, pid=None, details={"recovery_to": "0x1", "recovery_to_label": "GPU Reset Required"})
    fault = told([xid(119, 0), advice]).of(154)
    assert spoke("R154-follows", fault)
    assert fault.verdict.level is Level.P0


def test_162_clears_163() -> None:
    fault = told([xid(163, 0), xid(162, 5 * HOUR)]).of(163)
    assert spoke("R162-clears", fault)
    assert fault.verdict.level is Level.IGNORE
    assert told([xid(162, 0), xid(163, 5 * HOUR)]).of(163).verdict.level is Level.P2


# --- what never acts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("facility", ["user", "daemon", "local0"])
def test_a_record_that_the_kernel_did_not_write_never_acts(facility: str) -> None:
    fault = told([xid(79, 0, facility=facility)]).only()
    assert spoke("R-origin", fault)
    assert fault.verdict.level is Level.P2
    assert facility in fault.verdict.because
    accepted = told([xid(79, 0, facility=facility)], options=["accept_user_records"]).only()
    assert accepted.verdict.level is Level.P0


def test_files_without_a_facility_are_taken_as_given() -> None:
    assert told([xid(79, 0, facility=None)]).only().verdict.level is Level.P0


def test_a_user_record_explains_nothing_of_the_kernel() -> None:
    seen = told([xid(79, 0, facility="user"), xid(119, 1), xid(45, 2)])
    assert seen.of(119).verdict.level is Level.P0
    assert seen.of(45).verdict.explained_by == seen.of(119).id


def test_an_address_of_two_parts_never_acts() -> None:
    fault = told([xid(79, 0, certain=False)]).only()
    assert spoke("R-two-part", fault)
    assert fault.verdict.level is Level.P2
    assert told([xid(79, 0, certain=False), xid(79, 1)]).only().verdict.level is Level.P0


def test_a_given_p0_is_never_taken_back() -> None:
    seen = told([xid(94, 0, details={"rst": True}), xid(94, 1, details={"rst": False})])
    assert seen.only().verdict.level is Level.P0


# --- the table itself -------------------------------------------------------------------------------------------


def test_a_new_row_is_a_working_rule() -> None:
    row = Rule(
        id="R-mine",
        source="a test",
        say="Seen {count} times.",
        subject=Selector(codes=frozenset({44})),
        companion=Selector(codes=frozenset({44})),
        key=("gpu",),
        before_seconds=100_000,
        count=2,
        raise_to=Level.P1,
        action="Look.",
    )
    book = load_rules()
    records = [xid(44, 0), xid(44, HOUR)]
    with_row = told(records, rules=replace(book, rules=(*book.rules, row))).faults[-1]
    assert (with_row.verdict.level, with_row.verdict.action) == (Level.P1, "Look.")
    assert "Seen 2 times." in with_row.verdict.because
    assert told(records).faults[-1].verdict.level is Level.P2


def test_settings_change_windows_and_counts_and_turn_rules_off() -> None:
    book = load_rules().tuned(
        {"R31-same-gpu": {"count": 3}, "R13-same-sm": {"enabled": False}, "I-all": {"gap_seconds": 10}}
    )
    assert told([xid(31, 0), xid(31, HOUR)], rules=book).faults[-1].verdict.fault_class is FaultClass.APPLICATION
    assert told([_sm(0, 1, 2), _sm(HOUR, 1, 2)], rules=book).faults[-1].verdict.level is Level.P2
    assert len(told([xid(43, 0), xid(43, 11)], rules=book).faults) == 2


def test_wrong_settings_are_all_named() -> None:
    with pytest.raises(RuleError) as wrong:
        load_rules().tuned({"R-none": {}, "R31-same-gpu": {"say": "x"}, "R-origin": {"enabled": False}})
    assert "R-none" in str(wrong.value)
    assert "rules.R31-same-gpu.say" in str(wrong.value)
    assert "rules.R-origin: is a law" in str(wrong.value)


GOOD = """
[[identity]]
id = "I-all"
gap_seconds = 180
source = "s"
[[rule]]
id = "R-one"
subject = { codes = [1] }
say = "x"
source = "s"
"""


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ('raise_to = "P7"', "raise_to 'P7' is unknown"),
        ('raise_to = "P1"', "must say the action"),
        ('class = "nobody"', "class 'nobody' is unknown"),
        ('key = ["rack"]', "'rack' is unknown"),
        ("count = -1", "count must be a number"),
        ('profiles = ["mine"]', "'mine' is unknown"),
        ('option = "fast"', "option 'fast' is unknown"),
        ('unless = ["R-two"]', "R-two does not come before it"),
        ("colour = 1", "no such column 'colour'"),
        ("companion = { codes = [2] }", "a companion needs a key"),
        ("waits = true", "waits needs after_seconds"),
        ('companion = { code = [2] }\nkey = ["gpu"]', "no such column 'code'"),
    ],
)
def test_a_wrong_row_is_named_with_its_column(row: str, sentence: str) -> None:
    with pytest.raises(RuleError, match="rule R-one") as wrong:
        read_rules(f"{GOOD}{row}\n")
    assert sentence in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[", "not TOML"),
        ("[[table]]\n", "no such table"),
        (GOOD.replace('source = "s"', ""), "source is missing"),
        (GOOD.replace('id = "R-one"', 'id = "R one"'), "letters, digits and hyphens"),
        (GOOD + '[[rule]]\nid = "R-one"\nsay = "x"\nsource = "s"\n', "stands twice"),
        (GOOD.replace("gap_seconds = 180", "gap_seconds = 180\ncodes = [79]"), "must fit every code"),
    ],
)
def test_a_wrong_table_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(RuleError) as wrong:
        read_rules(text)
    assert sentence in str(wrong.value)


def test_the_engine_names_no_rule_and_no_code() -> None:
    for module in (around, judge, live, merge, terms_room):
        source = inspect.getsource(module)
        assert not [rule.id for rule in load_rules().rules if f'"{rule.id}"' in source]


def test_every_rule_is_told_by_some_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    told_rules = set(re.findall(r'"(R[A-Za-z0-9-]+)"', text))
    assert {rule.id for rule in load_rules().rules} <= told_rules
