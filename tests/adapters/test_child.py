"""Children under a deadline: real shells that answer, hang, flood, leave others behind or cannot be killed."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuward.adapters import child
from gpuward.adapters.child import LONGEST_BYTES, Hung, Program, Said, ends_by, within
from gpuward.ports import Refused

if TYPE_CHECKING:
    from subprocess import Popen

SOON = 20.0


@pytest.fixture
def program(tmp_path: Path) -> "Script":
    return Script(tmp_path / "tool")


class Script:
    """A shell script as a program."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def does(self, text: str) -> str:
        """Write the script and return how it is called."""
        self.file.write_text(f"#!/bin/sh\n{text}\n")
        self.file.chmod(0o755)
        return str(self.file)

    def pid(self) -> int:
        """Return the number that the script has written to `pid`, once it has."""
        file = self.file.parent / "pid"
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError, ValueError):
                return int(file.read_text())
            time.sleep(0.01)
        raise AssertionError("it did not start")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def gone(pid: int) -> bool:
    end = time.monotonic() + SOON
    while is_alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_words_and_exit_code_come_back(program: Script) -> None:
    tool = program.does('echo "out $1"; echo err >&2; exit 7')
    assert Program(tool).run("x", deadline=within(SOON)) == Said(code=7, out="out x\n", err="err\n")


def test_standard_input_is_closed(program: Script) -> None:
    assert Program(program.does("cat; echo end")).run(deadline=within(SOON)).out == "end\n"


def test_its_environment_is_the_given_one(program: Script) -> None:
    tool = program.does('echo "$WORD"')
    assert Program(tool, {"WORD": "yes", "PATH": os.defpath}).run(deadline=within(SOON)).out == "yes\n"


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not installed"):
        Program(str(tmp_path / "nothing")).run(deadline=within(SOON))


def test_a_program_that_may_not_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(Refused, match="cannot be started"):
        Program(str(tmp_path / "file")).run(deadline=within(SOON))


def test_a_program_that_hangs_is_killed_with_its_children_and_reaped(program: Script) -> None:
    folder = program.file.parent
    tool = program.does(f"echo $$ > {folder}/own; sleep 600 & echo $! > {folder}/pid; wait")
    started = time.monotonic()
    with pytest.raises(Hung, match=r"did not answer within 0\.5 s"):
        Program(tool).run("-q", deadline=within(0.5))
    assert time.monotonic() - started < SOON
    assert gone(program.pid())
    assert not Path("/proc", (folder / "own").read_text().strip()).exists()


def test_a_program_that_closes_its_output_and_stays_is_killed(program: Script) -> None:
    tool = program.does("exec >&- 2>&-; exec sleep 600")
    with pytest.raises(Hung):
        Program(tool).run(deadline=within(0.5))


def test_what_a_program_leaves_behind_does_not_hold_up_its_answer(program: Script) -> None:
    tool = program.does(f"echo said; sleep 600 & echo $! > {program.file.parent}/pid")
    assert Program(tool).run(deadline=within(SOON)).out == "said\n"
    assert gone(program.pid())


def test_what_leaves_the_group_does_not_hold_up_the_answer(program: Script) -> None:
    tool = program.does(f"echo said; setsid sleep 600 & echo $! > {program.file.parent}/pid; sleep 0.2")
    assert Program(tool).run(deadline=within(SOON)).out == "said\n"
    with contextlib.suppress(ProcessLookupError):
        os.kill(program.pid(), signal.SIGKILL)


def test_last_words_after_a_look_at_the_pipes_and_before_one_at_the_program_are_heard(
    program: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = program.file.parent / "go"
    tool = program.does(f"while ! test -e {go}; do sleep 0.01; done; echo said")

    def has_ended(running: "Popen[bytes]") -> bool:
        monkeypatch.undo()
        go.touch()
        return ends_by(running, within(SOON))

    monkeypatch.setattr(child, "has_ended", has_ended)
    assert Program(tool).run(deadline=within(SOON)) == Said(0, "said\n", "")


def test_a_flood_is_refused(program: Script) -> None:
    started = time.monotonic()
    with pytest.raises(Refused, match="more than 4 MiB"):
        Program(program.does("exec yes")).run(deadline=within(600.0))
    assert time.monotonic() - started < SOON


def test_an_answer_of_just_the_limit_is_whole(program: Script) -> None:
    tool = program.does(f"head -c {LONGEST_BYTES} /dev/zero")
    assert len(Program(tool).run(deadline=within(SOON)).out) == LONGEST_BYTES


def test_no_second_one_is_started_while_the_first_cannot_be_ended(program: Script) -> None:
    tool = program.does(f"echo $$ > {program.file.parent}/pid; echo run >> {program.file.parent}/runs; exec sleep 600")
    runner = Program(tool, kill=lambda _pid, _signal: None)  # as a process asleep in the driver takes a SIGKILL
    with pytest.raises(Hung):
        runner.run(deadline=within(0.5))
    try:
        with pytest.raises(Hung, match="is still there"):
            runner.run(deadline=within(SOON))
        assert (program.file.parent / "runs").read_text() == "run\n"
    finally:
        os.kill(program.pid(), signal.SIGKILL)
    program.does("echo back")
    assert runner.run(deadline=within(SOON)).out == "back\n"


def test_two_callers_take_turns(program: Script) -> None:
    alone = program.file.parent / "alone"
    tool = program.does(f"mkdir {alone} || echo both; sleep 0.1; rmdir {alone}")
    runner = Program(tool)
    heard: list[str] = []
    threads = [threading.Thread(target=lambda: heard.append(runner.run(deadline=within(SOON)).out)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [""] * 4


def test_a_caller_who_waits_for_his_turn_waits_no_longer_than_his_deadline(program: Script) -> None:
    tool = program.does(f"echo $$ > {program.file.parent}/pid; exec sleep 1")
    runner = Program(tool)
    thread = threading.Thread(target=lambda: runner.run(deadline=within(SOON)))
    thread.start()
    program.pid()
    with pytest.raises(Hung, match="another"):
        runner.run(deadline=within(0.1))
    thread.join()
