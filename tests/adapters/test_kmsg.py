"""What Kmsg promises of /dev/kmsg alone: frame, clock, losses. The common promises are tried elsewhere."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpuward.adapters.kmsg import Kmsg, first_line
from gpuward.model.signal import Gap, Signal
from gpuward.ports import Refused, Unreachable
from tests.kit.kmsg import kmsg_writer, need_kmsg


@pytest.fixture
def write() -> Iterator[Callable[[bytes], None]]:
    with kmsg_writer() as writer:
        yield writer


def written(log: Kmsg, token: str) -> list[Signal]:
    came: list[Signal] = []
    while more := log.read(0.1):
        came += [one for one in more if isinstance(one, Signal) and token in one.text]
    return came


def while_waiting(log: Kmsg, write: Callable[[bytes], None], token: str) -> Signal:
    """Return the record that is written while it is waited for."""
    writing = threading.Timer(0.2, write, [f"gpuward test {token}".encode()])
    writing.start()
    try:
        while True:
            for one in log.read(20.0):
                if isinstance(one, Signal) and token in one.text:
                    return one
    finally:
        writing.join()


def test_the_lines_of_variables_are_dropped() -> None:
    record = b"6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n"
    assert first_line(record) == b"6,339,5140900,-;NET: Registered protocol family 10"


def test_the_dictionary_lines_are_dropped_and_escapes_stay() -> None:
    assert first_line(b"3,1,2,-;a\\x0ab\n SUBSYSTEM=pci\n") == rb"3,1,2,-;a\x0ab"


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
def test_a_record_comes_with_its_frame_sequence_and_cursor(write: Callable[[bytes], None]) -> None:
    token = secrets.token_hex(8)
    write(f"gpuward test {token} café back\\slash".encode())
    with closing(Kmsg()) as log:
        [came] = written(log, token)
    frame, message = came.text.split(";", 1)
    assert message == rf"gpuward test {token} caf\xc3\xa9 back\x5cslash", "the kernel's escapes are the recogniser's"
    priority, sequence, _, _ = frame.split(",")
    assert int(priority) >> 3 == 1, "a writer in user space is never facility kern"
    assert (came.line, came.cursor) == (int(sequence), f"k{sequence}")


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
def test_boot_time_and_the_record_s_clock_give_the_time_of_day(write: Callable[[bytes], None]) -> None:
    token = secrets.token_hex(8)
    with closing(Kmsg()) as log:
        written(log, token)
        before = time.time_ns() / 1e9
        came = while_waiting(log, write, token)
        after = time.time_ns() / 1e9
        boot_time = log.origin().boot_time
    assert boot_time is not None
    at = boot_time + int(came.text.split(",")[2]) / 1e6
    assert before - 0.010 <= at <= after + 0.010, "however far the records' clock has drifted since the boot"


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
def test_a_record_that_was_read_late_does_not_move_the_time_of_the_others(write: Callable[[bytes], None]) -> None:
    token = secrets.token_hex(8)
    with closing(Kmsg()) as log:
        written(log, token)
        while_waiting(log, write, token)
        began = log.origin().boot_time
        write(f"gpuward test {token}".encode())
        time.sleep(0.5)
        assert written(log, token)
        assert log.origin().boot_time == pytest.approx(began, abs=0.005)


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
def test_old_records_tell_nothing_of_the_clock(write: Callable[[bytes], None]) -> None:
    token = secrets.token_hex(8)
    write(f"gpuward test {token}".encode())
    time.sleep(1.5)
    with closing(Kmsg()) as log:
        by_clocks_alone = log.origin().boot_time
        while not [one for one in log.read(1.0) if isinstance(one, Signal) and token in one.text]:
            pass
        assert log.origin().boot_time == pytest.approx(by_clocks_alone, abs=0.005)


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
def test_origin_names_this_boot_and_machine() -> None:
    origin = Kmsg().origin()
    assert origin.boot is not None
    assert Path("/proc/sys/kernel/random/boot_id").read_text("ascii").startswith(origin.boot)
    assert len(origin.boot) == 8
    assert origin.source == "/dev/kmsg"
    assert origin.node == socket.gethostname().partition(".")[0]


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
def test_the_place_just_before_the_oldest_record_still_counts() -> None:
    need_kmsg()
    # A line of anybody's that comes meanwhile takes the oldest out of a full ring: then it is tried again.
    tries = 0
    while True:
        oldest = _oldest()
        with closing(Kmsg()) as log:
            just_before = log.seek(f"k{oldest - 1}")
            further = log.seek(f"k{oldest - 2}")
            first = log.read(0)[0]
        tries += 1
        if _oldest() == oldest or tries == 50:
            break
    assert just_before is (oldest > 0)
    assert not further
    assert isinstance(first, Signal)
    assert first.line == oldest


def _oldest() -> int:
    with closing(Kmsg()) as log:
        return next(one.line for one in log.read(0) if isinstance(one, Signal))


@pytest.mark.real
@pytest.mark.xdist_group("kmsg")
@pytest.mark.skipif("GPUWARD_FLOOD_KMSG" not in os.environ, reason="empties this machine's kernel log; ask for it")
def test_an_overwritten_ring_is_one_gap_that_counts_what_was_lost(write: Callable[[bytes], None]) -> None:
    with closing(Kmsg()) as log:
        last = 0
        while came := log.read(0):
            last = max(one.line for one in came if isinstance(one, Signal))
        for _ in range(20_000):
            write(b"gpuward test " + b"." * 900)
        gap, first, *_ = log.read(0)
        assert isinstance(gap, Gap)
        assert isinstance(first, Signal)
        assert gap.missed == first.line - last - 1 > 0
        assert gap.why == "the kernel wrote faster than we read, and its ring was overwritten"
        assert not any(isinstance(one, Gap) for one in log.read(0))
        assert not log.seek(f"k{last}")


def test_a_missing_device_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"cannot be opened .No such file or directory.; in a container, mount it"):
        Kmsg(str(tmp_path / "kmsg")).read(0)


def test_something_else_in_its_place_is_refused() -> None:
    with pytest.raises(Refused, match="/dev/null is not the kernel's log; in a container, mount /dev/kmsg from"):
        Kmsg("/dev/null").read(0)


def test_a_missing_boot_id_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"the boot id under .* cannot be read; mount proc there"):
        Kmsg(proc=str(tmp_path)).origin()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, only root can become one")
def test_a_device_without_permission_is_refused(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    device.touch()
    device.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(Refused, match="may not be read by this user; run as root or with the capability"):
            Kmsg(str(device)).read(0)
    finally:
        os.seteuid(0)
