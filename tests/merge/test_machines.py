"""Time in a log of one or several machines, what a driver that is loaded ends, and what a flood may cost."""

import json
import sys

import pytest

from gpuward.isolation.merge import FAULTS_KEPT, MACHINES_KEPT, Merger
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.gpu import Mig
from gpuward.model.level import Level
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER, Moment
from tests.kit.merging import GPU_B, HOUR, Told, line_of, sxid, terms, told, xid
from tests.kit.records import at

DAY = 24 * HOUR


def restarted(merger: Merger) -> Merger:
    after = Merger(terms())
    after.unpack(json.loads(json.dumps(merger.pack())))
    return after


def settled(changes: Told) -> list[tuple[ChangeKind, str | None, Level]]:
    return [(one.kind, one.fault.node, one.fault.verdict.level) for one in changes.changes]


# --- one clock for each machine -----------------------------------------------------------------------------------


def test_the_clock_of_one_machine_settles_nothing_of_another() -> None:
    seen = told([xid(45, 0), xid(13, 5 * DAY, node="gpu-2"), xid(31, 10)], finish=False)
    fault = seen.of(45)
    assert (fault.verdict.level, seen.kinds(fault)) == (Level.IGNORE, [ChangeKind.BEGAN, ChangeKind.EXPLAINED])


def test_a_fault_goes_on_though_another_machine_is_days_ahead() -> None:
    assert len(told([xid(43, 0), xid(13, 5 * DAY, node="gpu-2"), xid(43, 100)]).faults) == 2


def test_a_wait_of_a_silent_machine_holds_up_no_other() -> None:
    merger = Merger(terms())
    told([xid(45, 500, node="gpu-2"), xid(45, 0)], merger=merger, finish=False)
    (change,) = merger.advance(at(61), boot="b1", node="gpu-1")
    assert (change.fault.node, change.fault.verdict.level) == ("gpu-1", Level.P1)


def test_a_fault_of_a_silent_machine_keeps_no_other_open() -> None:
    seen = told([xid(43, 5000, node="gpu-2"), xid(43, 0), xid(13, 400, pci=GPU_B)], finish=False)
    assert (ChangeKind.CLOSED, "gpu-1", Level.P2) in settled(seen)


def test_lines_that_come_late_are_still_one_fault() -> None:
    late = [xid(43, second) for second in (0, 5, 10)]
    seen = told([xid(43, 90_000, pci=GPU_B), *late, xid(43, 90_010, pci=GPU_B)])
    assert sorted(fault.count for fault in seen.faults) == [2, 3]


def test_a_time_that_goes_back_without_a_line_lets_no_fault_linger() -> None:
    merger = Merger(terms())
    told([xid(45, 0)], merger=merger, finish=False)
    assert merger.advance(at(59), boot="b1") == []
    assert merger.advance(at(1), boot="b1") == []
    assert [change.fault.verdict.level for change in merger.rest(5)] == []
    assert [change.fault.verdict.level for change in merger.rest(5)] == [Level.P1]


def test_a_line_that_comes_late_waits_as_long_as_any_other() -> None:
    merger = Merger(terms())
    told([xid(43, 1000, pci=GPU_B), xid(45, 0)], merger=merger, finish=False)
    assert merger.advance(at(1060), boot="b1") == []
    explained = told([xid(31, 1)], merger=merger, finish=False)
    assert explained.of(45).verdict.level is Level.IGNORE


def test_another_boot_may_be_earlier() -> None:
    merger = Merger(terms())
    told([xid(45, 1000), xid(45, 0, boot="b2")], merger=merger, finish=False)
    (change,) = merger.advance(at(61), boot="b2")
    assert (change.fault.boot, change.fault.verdict.level) == ("b2", Level.P1)


def test_rest_lets_time_pass_for_machines_that_were_not_heard() -> None:
    merger = Merger(terms())
    told([xid(45, 0), xid(45, 0, node="gpu-2")], merger=merger, finish=False)
    assert merger.rest(50) == [], "both were just heard"
    merger.advance(at(1), boot="b1", node="gpu-2")
    assert [change.fault.node for change in merger.rest(61)] == ["gpu-1"]
    assert [change.fault.node for change in merger.rest(61)] == ["gpu-2"]


def test_clocks_of_all_machines_are_kept_over_a_restart() -> None:
    merger = Merger(terms())
    told([xid(45, 0), xid(43, 50, pci=GPU_B), xid(45, 900, node="gpu-2")], merger=merger, finish=False)
    after = restarted(merger)
    assert [change.fault.node for change in after.rest(11)] == ["gpu-1"]
    assert after.pack() == restarted(after).pack()


def test_a_flood_of_waits_without_times_is_bounded() -> None:
    merger = Merger(terms())
    flood = [xid(45, None, moment=NEVER, pci=f"{number:04x}:3b:00") for number in range(FAULTS_KEPT + 100)]
    told(flood, merger=merger, finish=False)
    assert len(merger.pack()["waiting"]) == FAULTS_KEPT


def test_clocks_of_machines_with_nothing_going_on_are_not_kept() -> None:
    merger = Merger(terms())
    told([xid(43, n, node=f"n{n}") for n in range(FAULTS_KEPT + 100)], merger=merger, finish=False)
    assert len(merger.pack()["timelines"]) == FAULTS_KEPT


def test_65536_machines_are_told_apart_and_those_beyond_are_one() -> None:
    merger = Merger(terms())
    assert MACHINES_KEPT == 65536
    for number in range(MACHINES_KEPT):
        merger.advance(at(0), boot="b1", node=f"n{number}")
    seen = told([xid(43, 0, node=f"n{MACHINES_KEPT - 1}"), xid(43, 1, node="n5")], merger=merger, finish=False)
    assert len(seen.faults) == 2
    beyond = told([xid(43, 2, node="late-1"), xid(43, 3, node="late-2")], merger=merger, finish=False)
    assert beyond.only().count == 1
    assert len(merger.pack()["machines"]) == MACHINES_KEPT


# --- what the driver and users say -------------------------------------------------------------------------------


def loaded(seconds: float, **changes: object) -> Record:
    return line_of(RecordKind.DRIVER_LOADED, seconds, pci=None, details={"driver_version": "575.51.02"}, **changes)


def test_a_loss_after_the_driver_was_loaded_again_is_a_new_one() -> None:
    seen = told([xid(79, 0), loaded(100), xid(79, 200)])
    assert [fault.count for fault in seen.faults] == [1, 1]
    assert "R79-second" in seen.faults[1].verdict.rules


def test_the_fault_before_the_driver_was_loaded_is_not_closed_by_that() -> None:
    merger = Merger(terms())
    seen = told([xid(79, 0), loaded(100)], merger=merger, finish=False)
    assert seen.kinds(seen.of(79)) == [ChangeKind.BEGAN]
    assert len(merger.faults()) == 1


@pytest.mark.parametrize(
    "load",
    [
        loaded(100, facility="user"),
        loaded(100, node="gpu-2"),
        loaded(-100),
    ],
)
def test_a_load_by_a_user_elsewhere_or_earlier_ends_no_fault(load: Record) -> None:
    assert told([xid(79, 0), load, xid(79, 200)]).only().count == 2


def test_a_load_that_is_read_again_ends_no_fault() -> None:
    load = loaded(100)
    merger = Merger(terms())
    told([xid(79, 0), load, xid(79, 100)], merger=merger, finish=False)
    after = restarted(merger)
    seen = told([load, xid(79, 300)], merger=after)
    assert seen.faults[-1].count == 2


def test_a_loss_after_a_load_is_a_new_one_over_a_restart_too() -> None:
    merger = Merger(terms())
    told([xid(79, 0), loaded(100)], merger=merger, finish=False)
    assert told([xid(79, 200)], merger=restarted(merger), finish=False).only().count == 1


@pytest.mark.parametrize("facility", ["user", "daemon"])
def test_a_uuid_that_a_user_wrote_is_not_learned(facility: str) -> None:
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    forged = line_of(RecordKind.GPU_UUID, 0, facility=facility, details={"uuid": uuid})
    assert told([forged, xid(43, 1)]).only().gpu_uuid is None


# --- MIG ----------------------------------------------------------------------------------------------------------


def instance(gi: int | None) -> Mig | None:
    return None if gi is None else Mig(gi=gi, ci=0)


@pytest.mark.parametrize(
    ("cause", "follower", "level"),
    [(1, 1, Level.IGNORE), (1, 2, Level.P1), (None, 2, Level.IGNORE), (1, None, Level.IGNORE)],
)
def test_faults_of_two_gpu_instances_are_not_of_one_place(
    cause: int | None, follower: int | None, level: Level
) -> None:
    seen = told([xid(31, 0, mig=instance(cause)), xid(45, 1, mig=instance(follower))])
    assert seen.of(45).verdict.level is level


def test_a_fault_with_lines_of_two_gpu_instances_is_of_both() -> None:
    records = [xid(31, 0, mig=instance(1)), xid(45, 1, mig=instance(2)), xid(31, 2, mig=instance(2))]
    merger = Merger(terms())
    seen = told(records[:2], merger=merger, finish=False)
    seen.changes += told(records[2:], merger=restarted(merger)).changes
    assert seen.of(45).verdict.level is Level.IGNORE


# --- which of several causes --------------------------------------------------------------------------------------


def cause_of(fault: Fault, seen: Told) -> int | None:
    return next(other.code for other in seen.faults if other.id == fault.verdict.explained_by)


def test_the_cause_is_one_that_nothing_explains() -> None:
    seen = told([xid(48, 0), xid(94, 1), xid(45, 2)])
    assert seen.of(94).verdict.explained_by is not None
    assert cause_of(seen.of(45), seen) == 48
    explained_but_worse = told([xid(48, 0), xid(95, 1), xid(31, 2, details={}), xid(45, 3)])
    assert cause_of(explained_but_worse.of(45), explained_but_worse) == 48


def test_an_unexplained_cause_goes_before_a_worse_one_that_is_explained() -> None:
    seen = told([xid(122, 0), xid(31, 1), xid(13, 2), xid(45, 3)])
    assert seen.of(31).verdict.explained_by is not None
    assert seen.of(31).verdict.level > seen.of(13).verdict.level
    assert cause_of(seen.of(45), seen) in {13, 122}


@pytest.mark.parametrize("order", [(13, 48), (48, 13)])
def test_of_causes_that_nothing_explains_the_worst_is_named(order: tuple[int, int]) -> None:
    seen = told([xid(order[0], 0), xid(order[1], 1), xid(45, 2)])
    assert cause_of(seen.of(45), seen) == 48


@pytest.mark.parametrize("order", [(13, 43), (43, 13)])
def test_of_causes_that_are_equally_bad_the_earliest_is_named(order: tuple[int, int]) -> None:
    seen = told([xid(order[0], 0), xid(order[1], 1), xid(45, 2)])
    assert seen.of(13).verdict.level is seen.of(43).verdict.level
    assert cause_of(seen.of(45), seen) == order[0]


def test_the_earliest_is_told_by_time_not_by_place_in_the_log() -> None:
    seen = told([xid(13, 1), xid(43, 0), xid(45, 2)])
    assert cause_of(seen.of(45), seen) == 43


def test_without_times_the_earliest_is_the_one_further_up() -> None:
    seen = told([xid(code, None, moment=NEVER) for code in (13, 43, 45)])
    assert cause_of(seen.of(45), seen) == 13


# --- what a flood costs -------------------------------------------------------------------------------------------


def calls_of_the_last(records: list[Record], last: int) -> float:
    """Return how many Python functions are called for each of the last records: a cost that no machine changes."""
    merger = Merger(terms())
    for record in records[:-last]:
        merger.step(record)
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for record in records[-last:]:
            merger.step(record)
    finally:
        sys.setprofile(before)
    return calls / last


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([xid(13, n / 1000, pci=f"{n:04x}:3b:00") for n in range(1000)], id="one job on many GPUs"),
        pytest.param([xid(1000 + n, n / 1000) for n in range(1000)], id="many codes"),
        pytest.param([xid(45, n / 1000, pci=f"{n:04x}:3b:00") for n in range(1000)], id="many lone teardowns"),
        pytest.param([sxid(20000 + n, n / 1000, word="fatal") for n in range(1000)], id="many switch errors"),
    ],
)
def test_a_flood_of_distinct_faults_costs_no_more_for_each_than_a_thousand_calls(records: list[Record]) -> None:
    assert calls_of_the_last(records, 50) < 1200


def test_uptime_alone_is_enough_for_the_clock_of_a_machine() -> None:
    merger = Merger(terms())
    told([xid(45, None, moment=Moment(wall=None, uptime=10.0))], merger=merger, finish=False)
    merger.rest(0)
    assert [change.fault.verdict.level for change in merger.rest(61)] == [Level.P1]
