"""Where FollowedFile goes on: what a cursor promises about a file that was left, cut, overwritten and renamed."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.follow import FollowedFile
from gpuward.adapters.logfile import FinishedLog
from gpuward.model.signal import Signal
from tests.kit.followed import add, cursors, drain, gaps, texts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kern.log"


def test_after_a_seek_line_numbers_are_still_true(file: Path) -> None:
    file.write_bytes(b"line\n" * 60_000)
    log = FollowedFile(str(file))
    cursor = [one.cursor for one in drain(log) if isinstance(one, Signal)][40_000]
    again = FollowedFile(str(file))
    assert again.seek(cursor)
    first = again.read(1)[0]
    assert isinstance(first, Signal)
    assert first.line == 40_002
    log.close()
    again.close()


def test_a_new_line_at_the_place_of_one_that_was_cut_away_has_another_cursor(file: Path) -> None:
    log = FollowedFile(str(file))
    seen: list[str] = []
    for second, code in ((8, 48), (8, 79), (9, 79)):
        file.write_bytes(
            b"Nov 29 03:12:%02d node kernel: NVRM: Xid (PCI:0000:3b:00): %d, %s\n" % (second, code, b"x" * 99)
        )
        seen += cursors(drain(log))
    assert len(seen) == len(set(seen)) == 3
    log.close()


def test_the_same_line_read_again_has_the_same_cursor(file: Path) -> None:
    content = b"".join(b"line %d\n" % at for at in range(40_000))
    file.write_bytes(content[:300_001])
    log = FollowedFile(str(file))
    came = drain(log)
    add(file, content[300_001:])
    came += drain(log)
    again = FollowedFile(str(file))
    assert cursors(drain(again)) == cursors(came)
    assert again.seek(cursors(came)[10])
    assert cursors(drain(again)) == cursors(came)[11:]
    log.close()
    again.close()


@pytest.mark.parametrize("number", ["0" * 30, "9" * 30, "9" * 5000, "-1", ""])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_cursor_with_an_absurd_number_is_no_place(file: Path, number: str, part: int) -> None:
    file.write_bytes(b"one\n")
    log = FollowedFile(str(file))
    parts = cursors(log.read(1))[0].removeprefix("f").split("-")
    parts[part] = number
    assert not log.seek("f" + "-".join(parts))
    assert texts(log.read(0)) == ["one"]
    log.close()


def test_a_cursor_without_its_fingerprint_or_far_behind_the_end_is_no_place(file: Path) -> None:
    file.write_bytes(b"one\n")
    log = FollowedFile(str(file))
    begin, place, fingerprint = cursors(log.read(1))[0].rsplit("-", 2)
    for cursor in (f"{begin}-{place}", f"{begin}-0", f"{begin}-{place}-", f"{begin}-{'9' * 18}-{fingerprint}"):
        assert not log.seek(cursor)
        assert texts(log.read(0)) == ["one"]
    log.close()


def test_a_place_is_found_after_a_boot_gave_the_device_another_number(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    log = FollowedFile(str(file))
    _, rest = cursors(log.read(1))[0].split("-", 1)
    assert log.seek(f"f7-{rest}")
    assert texts(log.read(0)) == ["two"]
    log.close()


@pytest.mark.parametrize("content", [b"1 new line\n2 new line\n", b"1 new line\n2 new line\n3 new line\n"])
def test_a_file_overwritten_in_place_while_nobody_watched_is_no_place(file: Path, content: bytes) -> None:
    file.write_bytes(b"1 old line\n2 old line\n")
    log = FollowedFile(str(file))
    first, last = cursors(log.read(1))
    log.close()
    file.write_bytes(content)
    for cursor in (first, last):
        assert not log.seek(cursor)
        assert texts(log.read(0)) == content.decode().splitlines()
    log.close()


@pytest.mark.parametrize("name", ["kern.log.1", "kern.log-20251129", "old"])
def test_a_file_renamed_while_nobody_watched_is_read_on_and_then_the_new_one(file: Path, name: str) -> None:
    file.write_bytes(b"old 1\nold 2\n")
    log = FollowedFile(str(file))
    place = cursors(log.read(1))[0]
    log.close()
    rotated = file.rename(file.with_name(name))
    add(rotated, b"old 3\n")
    file.write_bytes(b"new 1\n")
    assert log.seek(place)
    came = drain(log)
    assert [(one.line, one.text) for one in came if isinstance(one, Signal)] == [
        (2, "old 2"),
        (3, "old 3"),
        (1, "new 1"),
    ]
    assert gaps(came) == []
    assert log.seek(cursors(came)[1])
    assert texts(drain(log)) == ["new 1"]
    log.close()


def test_a_file_that_was_rotated_in_between_is_told(file: Path) -> None:
    add(file, b"one\n")
    log = FollowedFile(str(file))
    [cursor] = cursors(drain(log))
    log.close()
    file.rename(file.with_name("kern.log.2"))
    between = file.with_name("kern.log.1")
    add(between, b"missed\n")
    os.utime(between, ns=(1, file.with_name("kern.log.2").stat().st_mtime_ns + 1))
    add(file, b"two\n")
    assert log.seek(cursor)
    came = drain(log)
    log.close()
    assert texts(came) == ["two"]
    [gap] = gaps(came)
    assert str(between) in gap


def test_a_renamed_file_is_found_before_there_is_a_new_one(file: Path) -> None:
    file.write_bytes(b"old 1\nold 2\n")
    log = FollowedFile(str(file))
    place = cursors(log.read(1))[0]
    log.close()
    file.rename(file.with_suffix(".1"))
    assert log.seek(place)
    assert texts(drain(log)) == ["old 2"]
    file.write_bytes(b"new 1\n")
    assert texts(drain(log)) == ["new 1"]
    log.close()


def test_a_renamed_file_is_found_behind_a_link_and_among_thousands(file: Path) -> None:
    file.write_bytes(b"old 1\nold 2\n")
    link = file.parent / "elsewhere" / "link.log"
    link.parent.mkdir()
    link.symlink_to(file)
    log = FollowedFile(str(link))
    place = cursors(log.read(1))[0]
    log.close()
    for number in range(2000):
        (file.parent / f"{number}").touch()
    file.rename(file.with_suffix(".log.1"))
    file.write_bytes(b"new 1\n")
    assert log.seek(place)
    assert texts(drain(log)) == ["old 2", "new 1"]
    log.close()


def test_a_renamed_file_with_another_text_is_not_read_on(file: Path) -> None:
    file.write_bytes(b"old 1\nold 2\n")
    log = FollowedFile(str(file))
    place = cursors(log.read(1))[0]
    log.close()
    rotated = file.rename(file.with_suffix(".1"))
    rotated.write_bytes(b"else 1\nelse 2\n")
    file.write_bytes(b"new 1\n")
    assert not log.seek(place)
    assert texts(drain(log)) == ["new 1"]
    log.close()


_LINES = st.lists(st.sampled_from([b"a", b"", b"\r", b"a\rb", b"\0", b"b\r\0", b"\xff", b"NVRM: x,"]), max_size=8)


@given(_LINES, st.sampled_from([b"\n", b"\r\n"]))
def test_a_watch_and_a_scan_see_the_same_lines(parts: list[bytes], ending: bytes) -> None:
    with tempfile.NamedTemporaryFile() as out:
        out.write(b"a log begins" + ending + b"".join(part + ending for part in parts))
        out.flush()
        log = FollowedFile(out.name)
        followed = log.read(0)
        log.close()
        finished = list(FinishedLog(out.name, out.name, needles=(b"\n",)).head(99))
    assert [(one.line, one.text) for one in followed if isinstance(one, Signal)] == [
        (one.line, one.text) for one in finished
    ]


@pytest.mark.parametrize("change", ["replaced", "shorter", "other text", "gone"])
def test_a_place_in_another_text_is_not_sought(file: Path, change: str) -> None:
    file.write_bytes(b"one\ntwo\n")
    log = FollowedFile(str(file))
    cursor = next(one.cursor for one in reversed(log.read(1)) if isinstance(one, Signal))
    held = file.open("rb")  # keeps the inode from being used again
    match change:
        case "replaced":
            file.unlink()
            file.write_bytes(b"one\ntwo\nthree\n")
        case "shorter":
            file.write_bytes(b"new\n")
        case "other text":
            file.write_bytes(b"a much longer line\n")
        case _:
            file.unlink()
    again = FollowedFile(str(file))
    assert not again.seek(cursor)
    assert texts(again.read(0)) == (file.read_text().splitlines() if file.exists() else [])
    held.close()
    log.close()
    again.close()
