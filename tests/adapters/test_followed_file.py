"""What FollowedFile promises when a real file grows, is renamed, cut and replaced under it."""

import os
import re
import threading
import time
from pathlib import Path

import pytest

from gpuward.adapters.follow import FollowedFile
from gpuward.model.signal import Signal
from gpuward.ports import Origin, Refused
from tests.kit.followed import add, cursors, drain, gaps, texts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kern.log"


def test_it_starts_at_the_beginning_and_goes_on(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    log = FollowedFile(str(file))
    assert texts(log.read(1)) == ["one", "two"]
    add(file, b"three\n")
    assert texts(log.read(1)) == ["three"]
    log.close()


def test_it_waits_for_a_file_that_is_not_there_yet(file: Path) -> None:
    log = FollowedFile(str(file))
    assert log.read(0.06) == []
    writer = threading.Timer(0.2, file.write_bytes, [b"one\n"])
    writer.start()
    assert texts(log.read(5)) == ["one"]
    writer.join()
    log.close()


def test_a_line_comes_within_a_tenth_of_a_second(file: Path) -> None:
    file.touch()
    log = FollowedFile(str(file))
    log.read(0)
    written: list[float] = []

    def write() -> None:
        add(file, b"one\n")
        written.append(time.monotonic())

    writer = threading.Timer(0.3, write)
    writer.start()
    assert texts(log.read(5)) == ["one"]
    came = time.monotonic()
    writer.join()
    assert came - written[0] < 0.1
    log.close()


def test_waiting_costs_next_to_nothing(file: Path) -> None:
    file.write_bytes(b"one\n")
    log = FollowedFile(str(file))
    log.read(1)
    before = time.process_time()
    assert log.read(1.0) == []
    assert time.process_time() - before < 0.02
    log.close()


def test_only_whole_lines_are_handed_out(file: Path) -> None:
    log = FollowedFile(str(file))
    for piece in (b"o", b"n", b"e\r"):
        add(file, piece)
        assert log.read(0) == []
    add(file, b"\ntw")
    assert texts(log.read(0)) == ["one"]
    assert log.read(0) == []
    add(file, b"o\n")
    assert texts(log.read(0)) == ["two"]
    log.close()


def test_lines_are_numbered_and_each_cursor_is_the_place_after_it(file: Path) -> None:
    file.write_bytes(b"one\r\ntwo\n")
    status = file.stat()
    log = FollowedFile(str(file))
    came = log.read(1)
    assert [(one.line, one.text) for one in came if isinstance(one, Signal)] == [(1, "one"), (2, "two")]
    for place, cursor in zip((5, 9), cursors(came), strict=True):
        assert re.fullmatch(f"f{status.st_dev}-{status.st_ino}-{place}-[0-9a-f]{{8}}", cursor)
    log.close()


def test_a_renamed_file_is_finished_before_the_new_one_begins(file: Path) -> None:
    file.write_bytes(b"old 1\n")
    log = FollowedFile(str(file))
    assert texts(log.read(1)) == ["old 1"]
    rotated = file.with_suffix(".1")
    file.rename(rotated)
    assert log.read(0.1) == []
    add(rotated, b"old 2\n")
    assert texts(log.read(0.1)) == ["old 2"]
    file.touch()
    assert log.read(0.1) == []
    add(rotated, b"old 3, the writer has not noticed\n")
    assert texts(log.read(0.1)) == ["old 3, the writer has not noticed"]
    add(rotated, b"old 4\n")
    add(file, b"new 1\n")
    assert texts(drain(log)) == ["old 4", "new 1"]
    log.close()


def test_the_lines_of_a_new_file_are_numbered_from_one(file: Path) -> None:
    file.write_bytes(b"old\n")
    log = FollowedFile(str(file))
    log.read(1)
    file.rename(file.with_suffix(".1"))
    file.write_bytes(b"new\n")
    assert [one.line for one in drain(log) if isinstance(one, Signal)] == [1]
    log.close()


def test_a_replaced_file_whose_last_line_had_no_end_is_a_gap(file: Path) -> None:
    file.write_bytes(b"whole\nbroken")
    log = FollowedFile(str(file))
    log.read(1)
    file.rename(file.with_suffix(".1"))
    file.write_bytes(b"new\n")
    came = drain(log)
    assert gaps(came) == ["the file was replaced, and its last line had no end"]
    assert texts(came) == ["new"]
    log.close()


def test_a_deleted_and_recreated_file_is_read_from_its_start(file: Path) -> None:
    file.write_bytes(b"old\n")
    log = FollowedFile(str(file))
    log.read(1)
    file.unlink()
    assert log.read(0.06) == []
    file.write_bytes(b"new\n")
    assert texts(drain(log)) == ["new"]
    log.close()


def test_a_truncated_file_is_read_from_its_start_with_a_gap(file: Path) -> None:
    file.write_bytes(b"old line, quite long\n")
    log = FollowedFile(str(file))
    log.read(1)
    os.truncate(file, 0)
    came = list(log.read(0.1))
    add(file, b"new\n")
    came += drain(log)
    assert gaps(came) == ["the file was cut and is read again from its start"]
    assert texts(came) == ["new"]
    log.close()


def test_a_truncated_file_that_has_grown_past_our_place_is_noticed(file: Path) -> None:
    file.write_bytes(b"old\n")
    log = FollowedFile(str(file))
    log.read(1)
    file.write_bytes(b"new 1\nnew 2\n")
    came = drain(log)
    assert texts(came) == ["new 1", "new 2"]
    assert len(gaps(came)) == 1
    log.close()


def test_the_hole_that_a_writer_leaves_after_a_cut_hides_no_line(file: Path) -> None:
    with file.open("wb") as writer:
        writer.write(b"x" * 300_000 + b"\n")
        writer.flush()
        log = FollowedFile(str(file))
        drain(log)
        os.truncate(file, 0)
        writer.write(b"new\n")
        writer.flush()
        assert texts(drain(log)) == ["new"]
    log.close()


def test_a_line_over_64_kib_is_a_gap_and_the_next_one_comes(file: Path) -> None:
    file.write_bytes(b"one\n" + b"x" * 65_537)
    log = FollowedFile(str(file))
    assert texts(drain(log)) == ["one"]
    add(file, b"x" * 500_000 + b"\nthree\n" + b"y" * 65_536 + b"\n")
    came = drain(log)
    assert gaps(came) == ["line 2 is longer than 64 KiB and was passed over"]
    assert texts(came) == ["three", "y" * 65_536]
    log.close()


def test_bytes_that_are_not_utf8_are_replaced(file: Path) -> None:
    file.write_bytes(b"caf\xc3\xa9 \xff\0\n")
    log = FollowedFile(str(file))
    assert texts(log.read(1)) == ["café \ufffd"]
    log.close()


def test_nothing_is_known_of_the_lines_but_their_source(file: Path) -> None:
    assert FollowedFile(str(file)).origin() == Origin(source=str(file), boot=None, boot_time=None, node=None)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is a folder; name the log file in it"):
        FollowedFile(str(tmp_path)).read(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, only root can become one")
def test_a_file_without_permission_is_refused(file: Path) -> None:
    for folder in (file.parent, *file.parent.parents[:2]):
        folder.chmod(0o755)
    file.touch(mode=0)
    file.chmod(0)
    os.seteuid(65534)
    try:
        with pytest.raises(Refused, match="may not be read by this user; run as root or a member of its group"):
            FollowedFile(str(file)).read(0)
    finally:
        os.seteuid(0)
