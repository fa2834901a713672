"""What may be said to `gpuward watch`, and what it says of its log and its folder. What it tells is tested there."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.commands import COMMAND, Answer, ask, ask_process, environment
from tests.kit.watching import LOST, Running, watching

PIPE = "what comes through a pipe is read by `gpuward scan -`"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "kern.log"
    file.touch()
    return file


def test_a_file_that_is_not_there_yet_is_said_once_and_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    with watching("--kernel-log", log) as running:
        log.write_text(f"2026-11-20T03:12:07+00:00 gpu-17 kernel: {LOST}\n")
        running.wait_for(lambda line: "Xid 79" in line)
        assert running.stop() == 0
    waiting = [line for line in running.complaints if "not there" in line]
    assert waiting == [f"gpuward: {log} is not there yet, waiting for it\n"]


def test_a_file_that_is_there_is_not_said_to_be_awaited(log: Path) -> None:
    with watching("--kernel-log", log) as running:
        assert running.stop() == 0
    assert len(running.complaints) == 1


@pytest.mark.parametrize("folder", ["missing", "kern.log"])
def test_a_file_in_a_folder_that_is_not_there_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], log: Path, folder: str
) -> None:
    place = log.parent / folder
    answer = ask(capsys, "watch", "--kernel-log", place / "syslog")
    assert (answer.code, answer.out) == (2, "")
    told = f"gpuward watch: --kernel-log: there is no folder {place} for syslog; check the name, or make the folder\n"
    assert answer.err == told


@pytest.mark.parametrize("word", ["-", ""])
def test_a_pipe_is_wrong_usage_and_the_remedy_is_scan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str
) -> None:
    for words in (["watch"], ["agent", "--standalone", "--state-dir", str(tmp_path)]):
        if words[0] == "agent" and not word:
            continue  # nothing said: the log of this machine
        answer = ask(capsys, *words, "--kernel-log", word)
        assert (answer.code, answer.out) == (2, "")
        assert PIPE in answer.err


def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with watching("--kernel-log", tmp_path / "k\x1b[31m.log", "--node", "a\x1b[1mb") as running:
        assert running.stop() == 0
    assert running.complaints[0].endswith("k?[31m.log is not there yet, waiting for it\n")
    assert "\x1b" not in "".join(running.complaints)


def test_a_node_is_told_without_control_characters(log: Path) -> None:
    log.write_text(f"{LOST}\n")
    with watching("--kernel-log", log, "--node", "a\x1b[1mb", "--json") as running:
        running.wait_for(lambda line: '"code":79' in line)
        assert running.stop() == 0
    assert [one["node"] for one in running.objects()] == ["a?[1mb"]


def second(*words: str | Path) -> Answer:
    return ask_process(*words)


@pytest.mark.parametrize("command", [["watch"], ["agent", "--standalone"]])
def test_a_folder_that_a_watch_uses_is_refused_to_others_until_it_ends(log: Path, command: list[str]) -> None:
    state = log.parent / "state"
    words = ("--kernel-log", log, "--state-dir", state)
    with watching(*words) as first:
        answer = second(*command, *words)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err == (
            f"gpuward {command[0]}: another agent or watch (pid {first.process.pid}) uses {state}; "
            "stop it, or give another --state-dir\n"
        )
        first.stop(signal.SIGKILL)
    with watching(*words) as next_one:
        assert next_one.stop() == 0


def test_a_folder_that_an_agent_uses_is_refused_to_a_watch(log: Path) -> None:
    words = ("--kernel-log", log, "--state-dir", log.parent / "state")
    with subprocess.Popen(
        [*COMMAND, "agent", "--standalone", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        agent = Running(process)
        try:
            agent.wait_for(lambda line: str(log) in line)
            answer = second("watch", *words)
        finally:
            agent.stop()
    assert answer.code == 3
    assert f"another agent or watch (pid {process.pid}) uses {log.parent / 'state'}" in answer.err


def test_two_watches_without_a_folder_or_with_two_do_not_meet(log: Path) -> None:
    for option in ([], ["--state-dir"]):
        folders = [[str(log.parent / name) for _ in option] for name in "ab"]
        with (
            watching("--kernel-log", log, *option, *folders[0]) as one,
            watching("--kernel-log", log, *option, *folders[1]) as two,
        ):
            assert (one.stop(), two.stop()) == (0, 0)


def test_a_folder_that_cannot_be_used_is_said_once_and_the_watch_goes_on_without(log: Path) -> None:
    state = log / "state"
    log.write_text(f"{LOST}\n")
    with watching("--kernel-log", log, "--state-dir", state) as running:
        running.wait_for(lambda line: "Xid 79" in line)
        assert running.stop() == 0
    [about] = [line for line in running.complaints if re.search("state|kept", line)]
    assert about == (
        f"gpuward: the state folder {state} cannot be used (Not a directory): nothing is kept, "
        "a restart will begin anew; give another --state-dir\n"
    )
