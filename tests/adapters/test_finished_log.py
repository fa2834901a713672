"""What FinishedLog promises for every shape of a finished log. The live logs are not tried here."""

import bz2
import gzip
import io
import lzma
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuward.adapters.logfile import FinishedLog
from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Refused, Tally, Unreachable
from tests.kit.followed import texts

NEEDLES = (b"NVRM", b"SXid", b"AER: ", b"PCIe Bus Error", b"Linux version")
GOOD = b"[    7.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
OTHER = b"[    7.500000] eth0: link is up"


def read_all(place: str | BinaryIO, needles: tuple[bytes, ...] = NEEDLES) -> tuple[list[Signal | Gap], Tally]:
    log = FinishedLog("a.log", place, needles=needles)
    return list(log.signals()), log.tally()


def read_bytes(content: bytes) -> tuple[list[Signal | Gap], Tally]:
    return read_all(io.BytesIO(content))


def places(came: Sequence[Signal | Gap]) -> list[tuple[int, str]]:
    return [(one.line, one.cursor) for one in came if isinstance(one, Signal)]


def read_until_trouble(place: str | BinaryIO) -> tuple[list[str], EdgeError | None]:
    got: list[Signal | Gap] = []
    try:
        got.extend(FinishedLog("a.log", place, needles=NEEDLES).signals())
    except EdgeError as error:
        return texts(got), error
    return texts(got), None


def refusal(place: str | BinaryIO) -> str:
    _, error = read_until_trouble(place)
    assert isinstance(error, Refused)
    return str(error)


class Drip(io.RawIOBase):
    """A stream that hands over its content in pieces of the given sizes, over and over."""

    def __init__(self, content: bytes, sizes: Sequence[int]) -> None:
        super().__init__()
        self._content = content
        self._sizes = sizes
        self._turn = 0

    def read(self, _size: int = -1, /) -> bytes:
        """Return the next piece."""
        size = self._sizes[self._turn % len(self._sizes)]
        self._turn += 1
        piece, self._content = self._content[:size], self._content[size:]
        return piece


class Failing(io.RawIOBase):
    """A stream whose device fails after its content."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content

    def read(self, _size: int = -1, /) -> bytes:
        """Return the content, then fail."""
        piece, self._content = self._content, b""
        if not piece:
            raise OSError(5, "Input/output error")
        return piece


def dripped(content: bytes, sizes: Sequence[int]) -> tuple[list[Signal | Gap], Tally]:
    return read_all(Drip(content, sizes))  # type: ignore[arg-type]  # RawIOBase is a BinaryIO in all that is used


def test_only_lines_with_a_needle_are_yielded_with_their_number_and_offset() -> None:
    came, tally = read_bytes(OTHER + b"\n" + GOOD + b"\n" + OTHER + b"\n" + GOOD + b"\n")
    assert texts(came) == [GOOD.decode()] * 2
    step = len(OTHER) + 1
    assert places(came) == [(2, f"f{step}"), (4, f"f{2 * step + len(GOOD) + 1}")]
    assert tally == Tally(lines=4, skipped=0)


def test_a_last_line_without_newline_counts() -> None:
    came, tally = read_bytes(OTHER + b"\n" + GOOD)
    assert texts(came) == [GOOD.decode()]
    assert tally.lines == 2


def test_an_empty_log_has_no_lines() -> None:
    assert read_bytes(b"") == ([], Tally(lines=0, skipped=0))


def test_the_line_after_a_wrapped_one_comes_too() -> None:
    wrapped = GOOD + b","
    came, _ = read_bytes(wrapped + b"\r\nthe rest\r\nnot this\n" + OTHER + b",\nnor this\n")
    assert texts(came) == [wrapped.decode(), "the rest"]


def test_the_rest_of_a_wrapped_line_is_found_across_a_block_border() -> None:
    came, _ = dripped(GOOD + b",\nthe rest\nnot this\n", [len(GOOD) + 2, 3])
    assert texts(came) == [GOOD.decode() + ",", "the rest"]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r\r\n"])
def test_every_kind_of_line_end_is_a_line_end(ending: bytes) -> None:
    content = ending.join([OTHER, GOOD, OTHER, GOOD]) + ending
    for sizes in ([1], [len(content)], [7, 1, 3]):
        came, tally = dripped(content, sizes)
        assert texts(came) == [GOOD.decode()] * 2
        assert [line for line, _ in places(came)] == [2, 4]
        assert tally.lines == 4


def test_a_lone_cr_ends_no_line() -> None:
    content = b"app: a\r" + GOOD + b"\n" + GOOD + b"\r"
    for sizes in ([1], [len(content)], [7, 1, 3]):
        came, tally = dripped(content, sizes)
        assert texts(came) == [f"app: a\r{GOOD.decode()}", GOOD.decode()]
        assert [line for line, _ in places(came)] == [1, 2]
        assert tally.lines == 2


def test_the_rest_of_a_wrapped_line_does_not_begin_after_a_lone_cr() -> None:
    came, _ = read_bytes(GOOD + b",\rforged\n" + OTHER + b"\n")
    assert texts(came) == [GOOD.decode() + ",\rforged"]


def test_nuls_within_a_line_are_dropped() -> None:
    came, _ = read_bytes(b"\0\0" + GOOD[:20] + b"\0" + GOOD[20:] + b"\0\n")
    assert texts(came) == [GOOD.decode()]


def test_a_hole_of_nuls_hides_no_line() -> None:
    came, tally = read_bytes(GOOD + b"\n" + bytes(700_000) + GOOD + b"\n" + bytes(5_000))
    assert texts(came) == [GOOD.decode()] * 2
    assert tally == Tally(lines=2, skipped=0)


def test_invalid_utf8_is_replaced() -> None:
    came, _ = read_bytes(GOOD + b" \xff\xfe name=caf\xc3\xa9\n")
    assert texts(came) == [GOOD.decode() + " \ufffd\ufffd name=café"]


def test_garbage_around_good_lines_stops_nothing() -> None:
    garbage = bytes(range(256)) * 40
    came, _ = read_bytes(garbage + b"\n" + GOOD + b"\n" + garbage + b"\n" + GOOD + b"\n" + garbage)
    assert texts(came) == [GOOD.decode()] * 2


@pytest.mark.parametrize("extra", [0, 1])
def test_a_line_of_64_kib_is_read_and_a_longer_one_passed_over(extra: int) -> None:
    long = GOOD + b"x" * (65536 - len(GOOD) + extra)
    for content in (long + b"\n" + GOOD + b"\n", GOOD + b"\n" + long + b"\n" + GOOD + b"\n", GOOD + b"\n" + long):
        came, tally = read_bytes(content)
        assert len(texts(came)) == content.count(b"NVRM") - extra
        assert tally.skipped == extra


def test_a_gap_names_the_line_that_was_passed_over_once() -> None:
    came, tally = dripped(GOOD + b"\n" + b"y" * 300_000 + b"\n" + GOOD + b"\n", [100_000])
    assert came[1] == Gap(source="a.log", missed=1, why="line 2 is longer than 64 KiB and was passed over")
    assert [line for line, _ in places(came)] == [1, 3]
    assert tally == Tally(lines=3, skipped=1)


def test_the_line_after_one_passed_over_is_not_taken_for_a_rest() -> None:
    came, _ = read_bytes(GOOD + b",\n" + b"y" * 70_000 + b"\nnot this\n")
    assert texts(came) == [GOOD.decode() + ","]


lines = st.lists(
    st.sampled_from([GOOD, OTHER, b"", b"N", b"NVR", b"SXid", b"AER: x,", b"\0", b"XAER", b"a\rNVRM", b"LONG"]),
    max_size=12,
)


@settings(deadline=None)
@given(lines, st.sampled_from([b"\n", b"\r\n"]), st.lists(st.integers(40, 40_000), min_size=1, max_size=4))
def test_how_the_bytes_arrive_changes_nothing(parts: list[bytes], ending: bytes, sizes: list[int]) -> None:
    content = ending.join([GOOD, *parts, b""]).replace(b"LONG", b"z" * 66_000)
    assert dripped(content, sizes) == read_bytes(content)


@given(st.lists(st.sampled_from([GOOD, OTHER, b"", b"NVR", b"xSXid", b"AER:", b"AER: "]), max_size=30))
def test_what_is_found_is_what_a_plain_search_finds(parts: list[bytes]) -> None:
    came, tally = read_bytes(b"".join(part + b"\n" for part in parts))
    wanted = [at for at, part in enumerate(parts, 1) if any(needle in part for needle in NEEDLES)]
    assert [line for line, _ in places(came)] == wanted
    assert tally.lines == len(parts)


@given(st.integers(0, 400), st.integers(1, 5))
def test_a_needle_is_found_whether_its_bytes_are_rare_or_common(every: int, of: int) -> None:
    noise = b"V X R M N P B L EXT4-fs AER SX NVR\n" if every % 2 else b"plain words of a log\n"
    parts = [GOOD + b"\n" if at % (every + 1) == 0 else noise for at in range(400 * of)]
    came, _ = read_bytes(b"".join(parts))
    assert len(texts(came)) == sum(part.startswith(GOOD) for part in parts)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_utf_16_is_read_with_and_without_a_mark(encoding: str, mark: str) -> None:
    content = (mark + "\r\n".join([OTHER.decode(), GOOD.decode()] * 600)).encode(encoding)
    came, tally = dripped(content, [4099])
    assert texts(came) == [GOOD.decode()] * 600
    assert tally.lines == 1200


def test_a_utf8_mark_is_no_part_of_the_first_line() -> None:
    assert texts(read_bytes(b"\xef\xbb\xbf" + GOOD)[0]) == [GOOD.decode()]


def test_gzip_of_several_members_with_padding_is_one_log(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(OTHER + b"\n" + GOOD[:9]) + bytes(512) + gzip.compress(GOOD[9:] + b"\n" + GOOD))
    assert texts(read_all(str(file))[0]) == [GOOD.decode()] * 2


def test_gzip_of_utf_16_is_read() -> None:
    assert texts(read_bytes(gzip.compress((GOOD.decode() + "\n").encode("utf-16")))[0]) == [GOOD.decode()]


def test_gzip_cut_anywhere_gives_the_whole_lines_and_says_so() -> None:
    content = b"".join(b"%s #%d %d\n" % (GOOD, at, at * 7919 % 1_000_003) for at in range(2000))
    packed = gzip.compress(content)
    want = content.decode().splitlines()
    got: list[str] = []
    for cut in range(97, len(packed), 97):
        got, error = read_until_trouble(io.BytesIO(packed[:cut]))
        assert got == want[: len(got)]
        assert isinstance(error, Refused)
        assert str(error) == (
            "the gzip file a.log is cut short; the whole lines before the cut were read, get the file again"
        )
    assert len(got) > 1950


def test_gzip_damaged_in_the_middle_gives_the_lines_before_and_says_so() -> None:
    content = b"".join(b"%s #%d\n" % (GOOD, at) for at in range(3000))
    packed = gzip.compress(content)
    intact, error = read_until_trouble(io.BytesIO(packed[:-8] + bytes(8)))
    assert intact == content.decode().splitlines()
    assert isinstance(error, Refused)
    assert "the gzip file a.log is damaged" in str(error)
    assert error.__cause__ is not None


def test_something_else_after_a_gzip_member_is_damage() -> None:
    got, error = read_until_trouble(io.BytesIO(gzip.compress(GOOD + b"\n") + b"tail"))
    assert got == [GOOD.decode()]
    assert isinstance(error, Refused)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lzma.compress(GOOD), "a.log is xz-compressed; use: xzcat a.log | gpuward scan -"),
        (bz2.compress(GOOD), "a.log is bzip2-compressed; use: bzcat a.log | gpuward scan -"),
        (b"\x28\xb5\x2f\xfd" + GOOD, "a.log is zstd-compressed; use: zstdcat a.log | gpuward scan -"),
        (b"\x04\x22\x4d\x18" + GOOD, "a.log is lz4-compressed; use: lz4cat a.log | gpuward scan -"),
        (b"PK\x03\x04" + GOOD, "a.log is a zip archive; use: unzip -p a.log | gpuward scan -"),
        (
            b"LPKSHHRH" + bytes(200),
            "a.log is a binary journal; use: journalctl --file a.log -k -o json | gpuward scan -",
        ),
        (b"\x7fELF" + bytes(200), "a.log is a program, not a log; use: gpuward scan LOGFILE"),
    ],
)
def test_a_format_that_is_not_read_is_refused_with_the_remedy(content: bytes, sentence: str) -> None:
    assert refusal(io.BytesIO(content)) == sentence


def test_a_binary_file_is_refused_at_its_end() -> None:
    content = bytes(range(256)) * 4000
    assert refusal(io.BytesIO(content)).startswith("a.log is not text; name a log file")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(str(tmp_path)) == "a.log is a folder; name the log files in it"


def test_a_missing_file_is_unreachable(tmp_path: Path) -> None:
    _, error = read_until_trouble(str(tmp_path / "none"))
    assert isinstance(error, Unreachable)
    assert str(error) == "a.log is not there; check the name"
    assert isinstance(error.__cause__, FileNotFoundError)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    assert "embedded null" in refusal("a\0b"), "the words in brackets are Python's own, and differ by version"
    assert refusal("x" * 5000).startswith("a.log cannot be read (File name too long);")


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert refusal(str(tmp_path / "s")) == "a.log is a socket, not a log; name a file, or - for standard input"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, only root can become one")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "secret"
    file.write_bytes(GOOD)
    file.chmod(0)
    os.seteuid(65534)
    try:
        said = refusal(str(file))
    finally:
        os.seteuid(0)
    assert said == "a.log may not be read by this user; run as root or a member of its group"


def test_a_device_that_fails_is_unreachable_after_the_lines_before() -> None:
    got, error = read_until_trouble(Failing(GOOD + b"\n" + GOOD[:30]))  # type: ignore[arg-type]  # as in dripped
    assert got == [GOOD.decode()]
    assert isinstance(error, Unreachable)
    assert str(error) == "a.log failed while it was read (input/output error); check the disk it is on"


def test_a_pipe_nobody_writes_to_does_not_wait_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    _, error = read_until_trouble(str(tmp_path / "pipe"))
    assert isinstance(error, Unreachable)
    assert str(error) == "nothing was written to the pipe a.log; start its writer first"


def test_a_pipe_is_read_until_its_writer_closes_it() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.writelines([GOOD + b"\n"] * 5000)

    writer = threading.Thread(target=write)
    writer.start()
    came, _ = read_all(f"/proc/self/fd/{reading}")
    writer.join()
    os.close(reading)
    assert len(texts(came)) == 5000


def test_a_stream_that_does_not_wait_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(GOOD + b"\n")

    writer = threading.Timer(0.2, write)
    writer.start()
    with os.fdopen(reading, "rb") as stream:
        came, _ = read_all(stream)
    writer.join()
    assert texts(came) == [GOOD.decode()]


def test_progress_is_told_now_and_then(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes((OTHER + b"\n") * 700_000)
    told: list[tuple[int, int | None]] = []
    log = FinishedLog("a.log", str(file), needles=NEEDLES, progress=lambda done, size: told.append((done, size)))
    assert list(log.signals()) == []
    size = file.stat().st_size
    assert len(told) == size // (8 * 1024 * 1024)
    assert told == sorted(told)
    assert {said for _, said in told} == {size}


@pytest.mark.real
def test_the_kernel_ring_given_as_a_file_is_read_to_its_end() -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("/dev/kmsg may not be read here")
    came, tally = read_all("/dev/kmsg", needles=(b",",))
    assert tally.lines == len(texts(came)) > 0
    assert all(text.split(";", 1)[0].count(",") >= 3 for text in texts(came))
