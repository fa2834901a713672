"""What Journal promises of its journalctl child alone. The common promises are tried elsewhere."""

import json
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from gpuward.adapters.journal import Journal
from gpuward.model.signal import Gap, Signal
from gpuward.ports import Origin, Refused, Unreachable
from tests.kit.journal import Entry, make_journal, need_journal

OTHER_BOOT = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"


def read_to_end(log: Journal) -> list[Signal]:
    came: list[Signal] = []
    with closing(log):
        while not log.ended:
            came += [one for one in log.read(10) if isinstance(one, Signal)]
    return came


def stand_in(folder: Path, script: str) -> tuple[str, ...]:
    """Write a small program to stand where journalctl stands."""
    program = folder / "journalctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return (str(program),)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    need_journal()
    return tmp_path / "a.journal"


@pytest.mark.real
def test_a_finished_journal_is_read_to_its_end_with_all_its_boots(file: Path) -> None:
    make_journal(
        file, [Entry("one", 1, boot=OTHER_BOOT), Entry("two", 2), Entry("an application", 3, transport="stdout")]
    )
    came = [json.loads(one.text) for one in read_to_end(Journal(files=[str(file)], follow=False))]
    assert [line["MESSAGE"] for line in came] == ["one", "two"]
    assert came[0]["_BOOT_ID"] == OTHER_BOOT
    assert came[0]["SYSLOG_FACILITY"] == "0"
    assert came[1]["__MONOTONIC_TIMESTAMP"] == "2000000"


@pytest.mark.real
def test_a_message_that_is_not_text_or_is_long_comes_whole(file: Path) -> None:
    make_journal(file, [Entry(b"bad \xff", 1), Entry("two\nlines", 2), Entry("x" * 9000, 3)])
    came = [json.loads(one.text)["MESSAGE"] for one in read_to_end(Journal(files=[str(file)], follow=False))]
    assert came == [list(b"bad \xff"), "two\nlines", "x" * 9000]


@pytest.mark.real
def test_the_cursor_is_the_journal_s_own(file: Path) -> None:
    make_journal(file, [Entry('quoted "__CURSOR":"nonsense"', 1)])
    [came] = read_to_end(Journal(files=[str(file)], follow=False))
    assert came.cursor == "j" + json.loads(came.text)["__CURSOR"]


@pytest.mark.real
def test_a_place_in_another_journal_is_not_sought(file: Path, tmp_path: Path) -> None:
    make_journal(file, [Entry("one", 1), Entry("two", 2)])
    other = make_journal(tmp_path / "b.journal", [Entry("zero", 0.5, boot=OTHER_BOOT), Entry("one", 1.5)])
    log = Journal(files=[str(file)], follow=False)
    for line in read_to_end(Journal(files=[str(other)], follow=False)):
        assert not log.seek(line.cursor)
    assert [json.loads(one.text)["MESSAGE"] for one in read_to_end(log)] == ["one", "two"]


@pytest.mark.real
def test_a_missing_journal_file_is_unreachable_in_journalctl_s_words(tmp_path: Path) -> None:
    need_journal()
    log = Journal(files=[str(tmp_path / "none.journal")])
    with closing(log), pytest.raises(Unreachable, match=r"ended by itself \(Failed to open files: No such file"):
        log.read(10)


def test_a_missing_journalctl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="journalctl is not installed; read the kernel log from /dev/kmsg instead"):
        Journal((str(tmp_path / "journalctl"),)).read(1)


def test_a_journalctl_that_may_not_be_run_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "journalctl"
    program.touch(mode=0o644)
    with pytest.raises(Refused, match=r"cannot be started \(Permission denied\); read /dev/kmsg instead"):
        Journal((str(program),)).read(1)


def test_a_lack_of_permission_is_refused(tmp_path: Path) -> None:
    said = "No journal files were opened due to insufficient permissions."
    log = Journal(stand_in(tmp_path, f"echo 'Hint: see the manual' >&2; echo '{said}' >&2; exit 1"))
    with closing(log), pytest.raises(Refused, match=f"may not read the journal .{said}.; run as root or in the group"):
        log.read(10)


def test_a_child_that_ends_is_unreachable_and_is_started_again_after_the_last_line(tmp_path: Path) -> None:
    script = f"""echo '{{"__CURSOR":"s=1;i=2"}}'; echo "$*" >> {tmp_path}/asked"""
    with closing(Journal(stand_in(tmp_path, script))) as log:
        for _ in range(2):
            assert [one.cursor for one in log.read(10) if isinstance(one, Signal)] == ["js=1;i=2"]
            with pytest.raises(Unreachable, match=r"ended by itself \(it said nothing\); it is started again"):
                log.read(10)
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert "--after-cursor" not in first
    assert first.endswith("--follow --no-tail -k")
    assert second.endswith("--follow --no-tail --after-cursor=s=1;i=2 _TRANSPORT=kernel")


def test_a_child_that_complains_a_lot_does_not_block(tmp_path: Path) -> None:
    script = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo '{}'"
    with closing(Journal(stand_in(tmp_path, script))) as log:
        assert [one.text for one in log.read(20) if isinstance(one, Signal)] == ["{}"]


def test_a_line_over_1_mib_is_a_gap_and_the_next_one_comes(tmp_path: Path) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo '{}'; sleep 60"
    came: list[Signal | Gap] = []
    with closing(Journal(stand_in(tmp_path, script))) as log:
        while len(came) < 2:
            came += log.read(10)
    assert came[0] == Gap("journal", missed=1, why="a journal line is longer than 1 MiB and was passed over")
    assert came[1] == Signal("journal", line=2, cursor="j", text="{}")


def test_closing_ends_the_child_and_what_it_started_even_if_it_does_not_want_to(tmp_path: Path) -> None:
    script = (
        f"trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; while :; do sleep 1; done' & echo '{{}}'; wait"
    )
    log = Journal(stand_in(tmp_path, script))
    log.read(10)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    begun = time.monotonic()
    log.close()
    assert 1.5 < time.monotonic() - begun < 4
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_nothing_is_known_of_the_lines_but_their_source() -> None:
    assert Journal().origin() == Origin(source="journal", boot=None, boot_time=None, node=None)


def test_the_child_cannot_read_our_input(tmp_path: Path) -> None:
    ours = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    try:
        with closing(Journal(stand_in(tmp_path, "readlink /proc/self/fd/0"))) as log:
            assert [one.text for one in log.read(10) if isinstance(one, Signal)] == [os.devnull]
    finally:
        os.dup2(ours, 0)
        for handle in (ours, reading, writing):
            os.close(handle)
