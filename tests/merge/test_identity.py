"""Which lines are one fault (R-identity), in what state it is, and that a replay or a restart creates nothing new."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.live import FACETS_KEPT
from gpuward.isolation.merge import FAULTS_KEPT, MACHINES_KEPT, UUIDS_KEPT, Merger
from gpuward.isolation.saved import FORMAT, SavedError
from gpuward.model.fault import ChangeKind
from gpuward.model.level import Level
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER, Moment
from tests.kit.merging import GPU_A, GPU_B, HOUR, Told, line_of, sxid, terms, told, xid
from tests.kit.records import START


def test_lines_within_180_seconds_are_one_fault() -> None:
    fault = told([xid(43, 0), xid(43, 179), xid(43, 358)]).only()
    assert fault.count == 3
    assert fault.first.wall == START
    assert fault.last.wall == START + 358


def test_a_line_after_the_gap_is_a_new_fault() -> None:
    assert len(told([xid(43, 0), xid(43, 181)]).faults) == 2


@pytest.mark.parametrize("code", [74, 79, 95, 109, 119])
def test_sticky_codes_stay_one_fault_for_three_hours(code: int) -> None:
    assert len(told([xid(code, 0), xid(code, 3 * HOUR - 1)]).faults) == 1
    assert len(told([xid(code, 0), xid(code, 3 * HOUR + 1)]).faults) == 2


@pytest.mark.parametrize(
    "other",
    [
        xid(43, 1, pci=GPU_B),
        xid(44, 1),
        xid(43, 1, boot="b2"),
        xid(43, 1, node="gpu-2"),
        xid(43, 1, facility="user"),
    ],
)
def test_another_gpu_code_boot_node_or_origin_is_another_fault(other: Record) -> None:
    assert len(told([xid(43, 0), other]).faults) == 2


def test_evidence_keeps_the_first_and_the_last_lines() -> None:
    records = [xid(43, second) for second in range(50)]
    fault = told(records).only()
    assert fault.count == 50
    assert [line.line for line in fault.evidence] == [record.line for record in (*records[:3], *records[-3:])]


def test_lines_without_time_stay_one_fault() -> None:
    fault = told([xid(43, None, moment=NEVER), xid(43, None, moment=NEVER)]).only()
    assert fault.count == 2
    assert fault.first == NEVER


def test_uptime_alone_measures_the_gap() -> None:
    early, late = (xid(43, None, moment=Moment(wall=None, uptime=uptime)) for uptime in (100.0, 300.0))
    assert len(told([early, late]).faults) == 2


def test_a_reboot_closes_faults_that_only_have_an_uptime() -> None:
    before = xid(45, None, moment=Moment(wall=None, uptime=9000.0), boot="b1")
    after = xid(43, None, moment=Moment(wall=None, uptime=3.0), boot="b2")
    seen = told([before, after], finish=False)
    assert ChangeKind.CLOSED in seen.kinds(seen.of(45))


def test_the_three_lines_of_an_sxid_are_one_fault_and_count_once() -> None:
    message = sxid(20034, 0, word="fatal", link=30)
    parts = [sxid(20034, 0.001, word=None, part=part) for part in ("severity", "data")]
    fault = told([message, *parts]).only()
    assert (fault.kind, fault.count, len(fault.evidence)) == ("sxid_fatal", 1, 3)
    assert fault.verdict.level is Level.P0


def test_a_non_fatal_sxid_is_not_raised_by_its_data_line() -> None:
    fault = told([sxid(20034, 0, word="non-fatal"), sxid(20034, 0.001, word=None, part="data")]).only()
    assert fault.verdict.level is Level.P2


def test_links_of_one_fault_are_listed() -> None:
    fault = told([sxid(20034, 0, word="fatal", link=30), sxid(20034, 1, word="fatal", link=31)]).only()
    assert fault.details["links"] == [30, 31]


def test_the_uuid_line_names_the_gpu_of_later_and_earlier_lines() -> None:
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    named = line_of(RecordKind.GPU_UUID, 1, details={"uuid": uuid})
    assert told([named, xid(43, 2)]).only().gpu_uuid == uuid
    assert told([xid(43, 0), named]).only().gpu_uuid == uuid


def test_the_same_records_again_create_nothing() -> None:
    records = [xid(79, 0), xid(31, 1, pci=GPU_B), xid(45, 2, pci=GPU_B)]
    merger = Merger(terms())
    first = told(records, merger=merger, finish=False)
    assert told(records, merger=merger, finish=False).changes == []
    assert {fault.count for fault in merger.faults()} == {1}
    assert len(first.faults) == 3


def test_the_same_line_in_another_section_is_the_same_record() -> None:
    first = xid(43, 0.123456)
    copy = xid(43, 0.123456, frame="journal-short-precise", details=dict(first.details), text=first.text)
    assert told([first, copy]).only().count == 1


def test_equal_lines_of_one_section_all_count() -> None:
    lines = [xid(43, 0.25, text="the same") for _ in range(3)]
    assert told(lines).only().count == 3


def test_a_fault_is_closed_when_its_window_has_passed() -> None:
    seen = told([xid(43, 0), xid(13, 500, pci=GPU_B)], finish=False)
    assert seen.kinds(seen.of(43)) == [ChangeKind.BEGAN, ChangeKind.CLOSED]
    assert seen.kinds(seen.of(13)) == [ChangeKind.BEGAN]


def test_a_flood_of_faults_is_bounded() -> None:
    merger = Merger(terms())
    records = [xid(43, 0, pci=f"{number:04x}:3b:00") for number in range(FAULTS_KEPT + 50)]
    seen = told(records, merger=merger, finish=False)
    assert len(merger.faults()) == FAULTS_KEPT
    assert sum(change.kind is ChangeKind.CLOSED for change in seen.changes) == 50


def test_the_strongest_payload_of_154_holds_until_none_clears_it() -> None:
    def action(seconds: float, name: str) -> Record:
        return xid(154, seconds, pid=None, details={"recovery_from_label": "None", "recovery_to_label": name})

    weaker = told([action(0, "GPU Reset Required"), action(1, "Drain and Reset")]).only()
    assert weaker.verdict.level is Level.P0
    assert weaker.details["recovery_to_label"] == "GPU Reset Required"
    cleared = told([action(0, "GPU Reset Required"), action(1, "None")]).only()
    assert cleared.verdict.level is Level.IGNORE


CODES = st.sampled_from([13, 31, 43, 45, 48, 63, 74, 79, 94, 119, 154, 999])
STEPS = st.lists(
    st.tuples(CODES, st.sampled_from([0.5, 20.0, 70.0, 200.0, 4000.0]), st.sampled_from([GPU_A, GPU_B])),
    max_size=30,
)


def _records(steps: list[tuple[int, float, str]]) -> list[Record]:
    seconds = 0.0
    records = []
    for code, step, pci in steps:
        seconds += step
        records.append(xid(code, seconds, pci=pci))
    return records


@given(steps=STEPS, cut=st.integers(min_value=0, max_value=30))
def test_a_restart_in_the_middle_changes_nothing(steps: list[tuple[int, float, str]], cut: int) -> None:
    records = _records(steps)
    whole = told(records)
    before = Merger(terms())
    changes = told(records[:cut], merger=before, finish=False).changes
    after = Merger(terms())
    after.unpack(json.loads(json.dumps(before.pack())))
    changes += told(records, merger=after).changes  # the whole log again: what was read before must be known
    assert Told(changes).faults == whole.faults
    assert changes == whole.changes


def test_saved_by_another_version_is_refused() -> None:
    with pytest.raises(SavedError, match="another version"):
        Merger(terms()).unpack({"format": 99})
    with pytest.raises(SavedError, match="cannot be read"):
        Merger(terms()).unpack({"format": FORMAT, "now": [None, None]})


def test_lines_without_a_name_are_of_the_first_machine_that_is_named() -> None:
    unnamed = xid(43, 0, node=None)
    fault = told([unnamed, xid(43, 1, node="gpu-1")]).only()
    assert (fault.count, fault.node) == (2, "gpu-1")
    assert len(told([xid(43, 0, node="gpu-1"), xid(43, 1, node="gpu-2"), xid(43, 2, node=None)]).faults) == 2


def test_rules_look_at_one_machine_only() -> None:
    seen = told([xid(79, 0, node="gpu-1"), xid(45, 1, node="gpu-2"), xid(74, 1, node="gpu-2", pci=GPU_B)])
    assert seen.of(45).verdict.level is Level.P1
    assert seen.of(74).verdict.level is Level.P0


def test_a_uuid_is_of_its_machine() -> None:
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    named = line_of(RecordKind.GPU_UUID, 0, node="gpu-1", details={"uuid": uuid})
    seen = told([named, xid(43, 1, node="gpu-1"), xid(43, 1, node="gpu-2")])
    assert [fault.gpu_uuid for fault in seen.faults] == [uuid, None]


def test_machines_and_uuids_of_a_flood_are_bounded() -> None:
    merger = Merger(terms())
    for number in range(UUIDS_KEPT + 10):
        merger.learn_uuid(f"{number:04x}:3b:00", "GPU-x", node=f"host-{number}")
    packed = merger.pack()
    assert len(packed["uuids"]) == UUIDS_KEPT
    assert len(packed["machines"]) <= MACHINES_KEPT


def test_a_line_without_time_lets_no_time_pass() -> None:
    merger = Merger(terms())
    told([xid(45, 0)], merger=merger, finish=False)
    assert merger.advance(NEVER, boot="b1") == []


def test_the_process_is_that_of_the_first_line_that_names_one() -> None:
    records = [
        xid(43, 0, pid=None, process=None),
        xid(43, 1, pid=7, process="serve"),
        xid(43, 2, pid=8, process="train"),
    ]
    fault = told(records).only()
    assert (fault.pid, fault.process) == (7, "serve")


def test_details_of_later_lines_are_added_and_the_first_ones_stay() -> None:
    records = [xid(43, 0, details={"channel": 1}), xid(43, 1, details={"channel": 2, "rst": True}), xid(43, 2)]
    assert told(records).only().details == {"channel": 1, "rst": True}


def test_a_stronger_kind_of_the_same_switch_error_takes_over() -> None:
    weak, strong = sxid(20034, 0, word="non-fatal"), sxid(20034, 1, word="fatal")
    seen = told([weak, strong])
    fault = seen.only()
    assert (fault.kind, fault.verdict.level, fault.count) == ("sxid_fatal", Level.P0, 2)
    assert ChangeKind.WORSENED in seen.kinds(fault)
    after = told([weak, strong, xid(45, 2)]).of(45)
    assert after.verdict.explained_by == fault.id


def test_two_gpus_that_did_not_start_are_told_apart_by_their_minor() -> None:
    records = [line_of(RecordKind.RMINIT_FAILED, minor, pci=None, details={"minor": minor}) for minor in (0, 1, 1)]
    assert sorted(fault.count for fault in told(records).faults) == [1, 2]


def test_a_journal_cursor_is_shortened_in_the_id() -> None:
    cursor = "js=5f2c;i=1a2b;b=0123456789abcdef;m=1;t=2;x=3"
    fault = told([xid(43, 0, cursor=cursor)]).only()
    assert fault.id.startswith("gpu-1.b1.j")
    assert len(fault.id) < 32


def test_two_records_of_one_place_have_two_ids() -> None:
    seen = told([xid(43, 0, cursor="f9"), xid(44, 0, cursor="f9", source="other.log")])
    assert len({fault.id for fault in seen.faults}) == 2


def test_old_answers_about_codes_are_let_go() -> None:
    merger = Merger(terms())
    told([xid(1000 + number, number) for number in range(5000)], merger=merger, finish=False)
    assert {fault.verdict.level for fault in merger.faults()} == {Level.P2}


def test_facets_of_one_fault_are_bounded() -> None:
    records = [xid(13, 0.01 * n, link=n, process=f"p{n}", details={"gpc": n, "tpc": n}) for n in range(200)]
    fault = told(records).only()
    assert len(fault.details["links"]) == FACETS_KEPT
    assert len(fault.details["gpc_tpc"]) == FACETS_KEPT
