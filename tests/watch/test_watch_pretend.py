"""What a watch does over pretend ports, where clocks, losses and trouble can be had at will. No process is started."""

import dataclasses
from datetime import UTC, datetime

import pytest

from gpuward.agent.watch import MOST_FAILURES
from gpuward.model.gpu import Gpu
from gpuward.model.signal import Gap
from gpuward.ports import Holder, Refused, Unreachable
from tests.kit.pretend import START, At, PretendClock, PretendInventory, PretendProcesses
from tests.kit.watching import LOST, TEXT, TORN, World, events, said, xid_text

POD = "3f0c2d1e-5a4b-4c6d-8e7f-0123456789ab"
HOLDER = Holder(pid=41237, command="python3 train.py", session=7, container_id="c" * 64, pod_uid=POD)


def gpu(index: int, pci: str) -> Gpu:
    return Gpu(index=index, pci=pci, uuid=f"GPU-{index:08d}-0000-4000-8000-000000000000", model="H100", minor=index)


def test_a_fault_is_told_with_its_gpu_its_holder_and_the_time_of_its_line() -> None:
    world = World(
        processes=PretendProcesses(HOLDER), inventory=PretendInventory(gpu(0, "0000:0a:00"), gpu(5, "0000:ab:00"))
    )
    [told] = world.watch(world.ring(3, LOST), seconds=5)
    fault = told.change.fault
    assert said([told]) == [("began", 79, "P0")]
    assert told.gpu is not None
    assert (told.gpu.index, fault.gpu_uuid) == (5, told.gpu.uuid)
    assert fault.first.wall == pytest.approx(START + 3, abs=1e-3)
    assert told.at == pytest.approx(START + 3, abs=1e-3)
    assert not told.history
    held = {"command": "python3 train.py", "container_id": "c" * 64, "pod_uid": POD, "session": 7, "job": POD}
    assert held.items() <= dict(fault.details).items()
    assert fault.id == "gpu-17.b00t1d42.p0"


def syslog(seconds: float, body: str) -> str:
    return f"{datetime.fromtimestamp(START + seconds, UTC).isoformat(timespec='microseconds')} gpu-17 kernel: {body}"


def with_uptime(hour: int, seconds: int, body: str) -> str:
    return f"Nov 30 {hour:02d}:12:{seconds:02d} gpu-17 kernel: [{seconds:5d}.000000] {body}"


@pytest.mark.parametrize(
    "restarted",
    [
        False,
        pytest.param(
            True,
        ),
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([syslog(1, LOST)], [syslog(300, "Linux version 6.8.0 (build) #1 SMP"), syslog(320, LOST)]),
        ([with_uptime(3, 50, LOST)], [with_uptime(4, 10, LOST)]),
    ],
    ids=["boot line", "uptime"],
)
def test_a_gpu_lost_again_after_a_reboot_is_told_again(before: list[str], after: list[str], *, restarted: bool) -> None:
    world = World(origin=TEXT)
    first, later = events(*((1, line) for line in before)), events(*((0 if restarted else 2, line) for line in after))
    if restarted:
        told = [*world.watch(*first, seconds=5), *world.watch(*later, seconds=5)]
    else:
        told = world.watch(*first, *later, seconds=8)
    assert said(told) == [("began", 79, "P0")] * 2


def test_lost_lines_are_warned_of_and_reading_goes_on() -> None:
    world = World()
    told = world.watch(
        At(1, Gap(source="/dev/kmsg", missed=512, why="its ring was overwritten")),
        At(1, Gap(source="/dev/kmsg", missed=None, why="the file was cut")),
        world.ring(2, LOST),
        seconds=4,
    )
    assert world.warnings == ["/dev/kmsg: its ring was overwritten (512 lines lost)", "/dev/kmsg: the file was cut"]
    assert said(told) == [("began", 79, "P0")]


def test_a_lone_45_is_held_and_is_p1_after_a_minute_of_silence() -> None:
    world = World()
    began, worse = world.watch(world.ring(1, TORN), seconds=90)
    assert said([began, worse]) == [("began", 45, "P2"), ("worsened", 45, "P1")]
    assert began.change.fault.verdict.waits
    assert not worse.change.fault.verdict.waits
    assert 60 <= worse.at - began.at <= 63


def test_a_45_that_waits_when_the_watch_is_restarted_is_p1_though_nothing_more_is_written() -> None:
    world = World()
    world.watch(world.ring(1, TORN), seconds=10)
    told = world.watch(seconds=90)
    assert said(told) == [("worsened", 45, "P1")]
    assert told[0].change.fault.id == world.told[0].change.fault.id


def test_the_time_while_no_watch_ran_counts_for_a_45_that_waits() -> None:
    world = World()
    (began,) = world.watch(world.ring(1, TORN), seconds=10)
    world.clock.wait(40)
    (worse,) = world.watch(seconds=90)
    assert said([worse]) == [("worsened", 45, "P1")]
    assert 60 <= worse.at - began.at <= 63


def test_a_45_whose_minute_passed_while_no_watch_ran_is_p1_seconds_after_the_start() -> None:
    world = World()
    world.watch(world.ring(1, TORN), seconds=3)
    world.clock.wait(3600)
    started = world.clock.now()
    (worse,) = world.watch(seconds=30)
    assert said([worse]) == [("worsened", 45, "P1")]
    assert worse.at - started <= 6


def test_a_clock_set_back_while_no_watch_ran_takes_nothing_from_a_wait() -> None:
    world = World()
    (began,) = world.watch(world.ring(1, TORN), seconds=10)
    world.clock.step(-7200)
    (worse,) = world.watch(seconds=90)
    assert said([worse]) == [("worsened", 45, "P1")]
    assert 60 <= worse.at + 7200 - began.at <= 65


def test_a_restart_again_and_again_does_not_put_off_a_verdict() -> None:
    world = World()
    (began,) = world.watch(world.ring(1, TORN), seconds=2)
    told = [one for _ in range(40) for one in world.watch(seconds=2)]
    told += world.watch(seconds=7)
    assert said(told) == [("worsened", 45, "P1")]
    assert told[0].at - began.at <= 92


def test_a_45_of_a_silent_machine_is_settled_while_another_one_goes_on_writing() -> None:
    world = World(origin=TEXT)
    chatter = [At(at, syslog(at, "usb 1-1: new device").replace("gpu-17", "gpu-18")) for at in range(2, 90)]
    told = world.watch(At(1, syslog(1, TORN)), *chatter, seconds=95)
    assert said(told) == [("began", 45, "P2"), ("worsened", 45, "P1")]
    assert 60 <= told[1].at - told[0].at <= 63


def test_a_45_that_waits_is_explained_by_what_was_written_while_no_watch_ran() -> None:
    world = World()
    world.watch(world.ring(1, TORN), seconds=3)
    late = world.ring(1, xid_text(31, "MMU Fault"))
    world.clock.wait(3600)
    told = world.watch(late, seconds=5)
    assert said(told) == [("began", 31, "P1"), ("explained", 45, "ignore")]
    assert told[1].change.fault.verdict.explained_by == told[0].change.fault.id
    assert not any(one.history for one in told), "nobody was told of it before"


def test_a_restart_tells_nothing_twice_and_goes_on() -> None:
    world = World()
    assert said(world.watch(world.ring(1, LOST), seconds=5)) == [("began", 79, "P0")]
    assert world.watch(seconds=5) == []
    told = world.watch(world.ring(1, TORN), seconds=5)
    assert said(told) == [("began", 45, "ignore")]
    assert told[0].change.fault.verdict.explained_by == world.told[0].change.fault.id
    assert world.warnings == []


def test_a_place_that_is_gone_is_told_and_what_is_read_again_is_not_told_again() -> None:
    world = World()
    world.watch(world.ring(1, LOST), world.ring(2, TORN), seconds=5)
    world.store.text = (world.store.text or "").replace('"cursor": "p1"', '"cursor": "p77"')
    assert world.watch(seconds=5) == []
    assert "the place where the last watch stopped is gone from the log" in world.warnings[0]


def test_after_a_reboot_the_ring_of_the_new_boot_is_read_from_its_start() -> None:
    world = World()
    world.watch(*[world.ring(1, "usb 1-1: new device")] * 3, seconds=5)
    rebooted = World(clock=PretendClock(START + 600, monotonic=5.0), store=world.store)
    rebooted.origin = dataclasses.replace(world.origin, boot="0ther800")
    told = rebooted.watch(rebooted.ring(0, LOST), *[rebooted.ring(0, "usb 1-1: new device")] * 9, seconds=5)
    assert said(told) == [("began", 79, "P0")]
    assert told[0].change.fault.id == "gpu-17.0ther800.p0"
    assert rebooted.warnings == []


def test_what_stood_in_the_log_before_is_history_and_its_pid_is_not_looked_up() -> None:
    world = World(processes=PretendProcesses(HOLDER))
    old = world.ring(0, LOST)
    world.clock.wait(3600)
    told = world.watch(old, world.ring(5, xid_text(31, "MMU Fault", pci="0000:0a:00", pid=7)), seconds=10)
    assert [(one.change.fault.code, one.history) for one in told] == [(79, True), (31, False)]
    assert "pod_uid" not in told[0].change.fault.details
    assert world.processes.asked == [7]


def test_a_live_line_with_a_stamp_of_whole_seconds_is_no_history() -> None:
    clock = PretendClock(datetime(2026, 11, 30, 3, 12, 7, 700_000, tzinfo=UTC).timestamp())
    told = World(clock=clock, origin=TEXT).watch(*events((0.1, f"Nov 30 03:12:07 gpu-17 kernel: {LOST}")), seconds=2)
    assert [one.history for one in told] == [False]


def test_the_pid_of_a_line_without_a_time_is_not_looked_up() -> None:
    world = World(processes=PretendProcesses(HOLDER), origin=TEXT)
    told = world.watch(*events((1, LOST)), seconds=3)
    assert said(told) == [("began", 79, "P0")]
    assert world.processes.asked == []
    assert not told[0].history


def test_a_process_that_is_gone_leaves_what_the_line_says() -> None:
    world = World()
    [told] = world.watch(world.ring(1, LOST), seconds=3)
    assert world.processes.asked == [41237]
    assert (told.change.fault.pid, told.change.fault.process) == (41237, "python3")
    assert "pod_uid" not in told.change.fault.details


@pytest.mark.parametrize("step_seconds", [7200.0, -7200.0])
def test_after_a_clock_step_a_live_line_is_no_history_has_the_new_time_and_its_holder(step_seconds: float) -> None:
    world = World(processes=PretendProcesses(HOLDER))
    told = world.watch(
        At(2, lambda: world.clock.step(step_seconds)), world.ring(3, LOST), world.ring(4, TORN), seconds=8
    )
    assert said(told) == [("began", 79, "P0"), ("began", 45, "ignore")]
    assert told[0].change.fault.first.wall == pytest.approx(START + step_seconds + 3, abs=1e-3)
    assert not any(one.history for one in told)
    assert told[0].change.fault.details["pod_uid"] == POD


@pytest.mark.parametrize("step_seconds", [4 * 3600.0, -4 * 3600.0])
def test_a_clock_step_between_two_lines_of_one_boot_does_not_part_cause_and_consequence(step_seconds: float) -> None:
    world = World()
    told = world.watch(
        world.ring(1, LOST), At(2, lambda: world.clock.step(step_seconds)), world.ring(3, TORN), seconds=8
    )
    assert said(told) == [("began", 79, "P0"), ("began", 45, "ignore")]


def test_a_user_record_does_not_act() -> None:
    world = World()
    told = world.watch(world.ring(1, LOST, facility="user"), world.ring(2, TORN, facility="user"), seconds=90)
    assert {str(one.change.fault.verdict.level) for one in told} <= {"P2", "ignore"}
    assert {one.change.fault.code for one in told} == {79, 45}


def test_a_user_record_neither_explains_nor_joins_what_the_kernel_reported() -> None:
    world = World()
    told = world.watch(world.ring(1, LOST, facility="user"), world.ring(2, TORN), world.ring(3, LOST), seconds=5)
    assert said(told) == [("began", 79, "P2"), ("began", 45, "P2"), ("began", 79, "P0"), ("explained", 45, "ignore")]
    assert told[-1].change.fault.verdict.explained_by == told[-2].change.fault.id


def test_a_user_record_acts_where_a_drill_accepts_it() -> None:
    world = World(options=("accept_user_records",))
    assert said(world.watch(world.ring(1, LOST, facility="user"), seconds=5)) == [("began", 79, "P0")]


def test_stamps_without_a_year_are_right_on_both_sides_of_new_year() -> None:
    eve = datetime(2026, 12, 31, 23, 59, 50, tzinfo=UTC).timestamp()
    world = World(clock=PretendClock(eve), origin=TEXT)
    told = world.watch(
        *events(
            (5, f"Dec 31 23:59:55 gpu-17 kernel: {LOST}"),
            (15, f"Jan  1 00:00:05 gpu-17 kernel: {xid_text(31, 'MMU Fault', pci='0000:0a:00')}"),
            (20, lambda: world.clock.wait(30 * 86400)),
            (30 * 86400 + 25, f"Jan 31 00:00:15 gpu-17 kernel: {xid_text(13, 'SM', pci='0000:3b:00')}"),
        ),
        seconds=30 * 86400 + 30,
    )
    assert [one.change.fault.first.wall for one in told] == [eve + 5, eve + 15, eve + 25 + 30 * 86400]
    assert not any(one.history for one in told)


def test_old_stamps_without_a_year_are_of_the_year_that_ended() -> None:
    new_year = datetime(2027, 1, 1, 0, 0, 30, tzinfo=UTC).timestamp()
    world = World(clock=PretendClock(new_year), origin=TEXT)
    [told] = world.watch(*events((0, f"Dec 31 23:59:50 gpu-17 kernel: {LOST}")), seconds=3)
    assert told.change.fault.first.wall == new_year - 40
    assert told.history


def test_a_log_that_stays_away_ends_the_watch_after_what_came_was_told_and_saved() -> None:
    world = World()
    with pytest.raises(Unreachable, match="the ring is gone"):
        world.watch(world.ring(1, LOST), At(2, Unreachable("the ring is gone; look for it")), seconds=1000)
    assert world.clock.monotonic() == pytest.approx(1000 + 2 + MOST_FAILURES, abs=1.5)
    assert world.warnings.count("the ring is gone; look for it") == 1
    assert said(world.told) == [("began", 79, "P0")]
    assert world.store.text is not None
    assert world.log is not None
    assert world.log.closed


def test_a_log_that_comes_back_is_read_on() -> None:
    world = World()

    def gone() -> None:
        raise Unreachable("the ring is gone; look for it")

    world.watch(
        world.ring(1, LOST),
        At(2, gone),
        At(2, gone),
        world.ring(10, xid_text(43, "Ch 00000008", pci="0000:3b:00")),
        seconds=20,
    )
    assert said(world.told) == [("began", 79, "P0"), ("began", 43, "P2")]
    assert world.warnings == ["the ring is gone; look for it"]


def test_a_log_that_was_never_there_ends_the_watch_at_once() -> None:
    world = World()
    with pytest.raises(Unreachable, match="the ring is gone"):
        world.watch(At(0, Unreachable("the ring is gone; look for it")), seconds=100)


def test_a_place_that_cannot_be_saved_is_said_once_and_the_watch_goes_on() -> None:
    world = World()
    world.watch(At(0, lambda: setattr(world.store, "broken", True)), world.ring(1, LOST), seconds=40)
    assert world.warnings == ["the place in the log could not be saved: the pretend store is full; make room"]
    assert said(world.told) == [("began", 79, "P0")]


def test_trouble_with_saving_that_comes_back_is_said_again() -> None:
    world = World()

    def broken(value: bool) -> At:  # noqa: FBT001  the word is its name
        return At(world.clock.monotonic(), lambda: setattr(world.store, "broken", value))

    for at, value in ((1, True), (20, False), (40, True)):
        world.script.events += [dataclasses.replace(broken(value), seconds=at), world.ring(at + 1, LOST)]
    world.watch(seconds=60)
    assert len(world.warnings) == 2


def test_what_was_told_is_saved_at_once() -> None:
    world = World()
    saved: list[str] = []
    world.watch(
        world.ring(1, LOST), world.ring(2, TORN), At(3, lambda: saved.append(world.store.text or "")), seconds=10
    )
    assert '"cursor": "p1"' in saved[0]


def test_the_place_is_saved_at_the_end() -> None:
    world = World()
    world.watch(world.ring(1, "usb 1-1: new device"), world.ring(2, "usb 1-1: gone"), seconds=3)
    assert '"cursor": "p1"' in (world.store.text or "")


def test_a_quiet_log_is_not_saved_again_and_again() -> None:
    world = World()
    world.watch(world.ring(1, LOST), seconds=600)
    assert world.store.saves <= 4


def test_lines_that_are_nothing_of_ours_move_the_saved_place_every_few_seconds() -> None:
    world = World()
    chatter = [world.ring(at, "usb 1-1: new device") for at in range(60)]
    world.watch(*chatter, seconds=60)
    assert 10 <= world.store.saves <= 15


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _text: "[]",
        lambda _text: "{}",
        lambda text: text.replace('"merger"', '"mergers"'),
        lambda text: text.replace('"rested_at"', '"rested"'),
        lambda text: text.replace('"format": 2', '"format": 0'),
        lambda text: text.replace('"recent"', '"decent"'),
        lambda text: text.replace('"P0"', '"P7"'),
        lambda text: text.replace('"merger": {', '"merger": [], "was": {'),
    ],
)
def test_a_broken_state_is_said_and_the_log_is_read_from_its_start(spoil: object) -> None:
    world = World()
    first = world.watch(world.ring(1, LOST), world.ring(2, TORN), seconds=5)
    assert callable(spoil)
    world.store.text = spoil(world.store.text)
    again = world.watch(seconds=5)
    assert said(again) == said(first)
    assert all(one.history for one in again)
    assert len(world.warnings) == 1
    assert world.warnings[0].startswith("the saved state is not used, the log is read from its start: ")


def test_gpus_that_cannot_be_listed_are_said_once_and_faults_are_told_without_an_index() -> None:
    world = World()
    world.inventory.listed = Refused("the list of GPUs may not be read; run as root")
    told = world.watch(world.ring(1, LOST), world.ring(2, TORN), seconds=5)
    assert [one.gpu for one in told] == [None, None]
    assert world.warnings == ["the numbers of the GPUs are not known: the list of GPUs may not be read; run as root"]


def test_gpus_of_a_driver_that_is_loaded_later_have_their_index() -> None:
    world = World()
    told = world.watch(
        At(5, lambda: setattr(world.inventory, "listed", (gpu(5, "0000:ab:00"),))), world.ring(6, LOST), seconds=8
    )
    assert told[0].gpu == gpu(5, "0000:ab:00")


def test_a_gpu_that_is_lost_from_the_list_leaves_the_others_their_index() -> None:
    world = World(inventory=PretendInventory(gpu(0, "0000:0a:00"), gpu(1, "0000:ab:00")))
    told = world.watch(
        At(1, lambda: setattr(world.inventory, "listed", (gpu(0, "0000:ab:00"),))), world.ring(2, LOST), seconds=4
    )
    assert told[0].gpu == gpu(1, "0000:ab:00")
