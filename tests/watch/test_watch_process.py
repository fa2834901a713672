"""`gpuward watch` as a person runs it, on a followed file. Restarts and the kernel's own log are not here."""

import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuward.sim.server import HOST, build_proc, uuid_of
from tests.kit.watching import LOST, TORN, watching, xid_text


def write(log: Path, *bodies: str, at: float | None = None) -> None:
    """Add kernel lines with the present time, or another, as a syslog daemon does."""
    stamp = datetime.fromtimestamp(time.time_ns() / 1e9 if at is None else at, UTC).isoformat(timespec="microseconds")
    with log.open("a") as file:
        file.writelines(f"{stamp} gpu-17 kernel: {body}\n" for body in bodies)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "kern.log"
    file.touch()
    return file


def test_a_person_reads_which_gpu_under_which_pod_and_whose_fault(log: Path, tmp_path: Path) -> None:
    build_proc(tmp_path / "proc")
    with watching(
        "--kernel-log", log, "--proc-root", tmp_path / "proc", "--node", HOST, "--timezone", "UTC"
    ) as running:
        write(log, LOST)
        head = running.wait_for(lambda line: "Xid 79" in line)
        do = running.wait_for(lambda line: "do:" in line)
        why = running.wait_for(lambda line: "why:" in line)
        assert running.stop() == 0
    pattern = (
        r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) P0     GPU 5 \(0000:ab:00\) fell off the bus at (\d\d:\d\d:\d\d) "
        r"under python3 \(pid 41237, pod uid 0d6ac9f2-6a34-4c59-9a7e-5b1f3c2d8e71, container 9f2c9f2c9f2c\): "
        r"hardware, not your code \(Xid 79\)\n"
    )
    match = re.fullmatch(pattern, head)
    assert match is not None, head
    assert match[1].endswith(match[2])
    assert re.fullmatch(r" {20}do:    Take the GPU out of service now.*\n", do)
    assert re.fullmatch(r" {20}why:   Xid 79 is graded P0.*\n", why)
    assert running.complaints == [f"gpuward: watching {log}; nothing on this machine is changed\n"]


def test_an_object_has_the_fault_its_holder_and_its_gpu_and_comes_within_a_second(log: Path, tmp_path: Path) -> None:
    build_proc(tmp_path / "proc")
    with watching("--kernel-log", log, "--proc-root", tmp_path / "proc", "--node", HOST, "--json") as running:
        before = time.time_ns() / 1e9
        write(log, LOST, TORN)
        running.wait_for(lambda line: '"code":45' in line)
        assert time.time_ns() / 1e9 - before < 1.0
        assert running.stop() == 0
    lost, torn = running.objects()
    assert (lost["change"], lost["code"], lost["level"], lost["was"], lost["waits"]) == ("began", 79, "P0", None, False)
    assert (lost["pci"], lost["gpu_uuid"], lost["class"]) == ("0000:ab:00", uuid_of(5), "hardware")
    assert lost["details"]["command"] == "python3 train.py --nodes 4"
    assert lost["details"]["container_id"] == "9f2c" * 16
    assert lost["details"]["pod_uid"] == "0d6ac9f2-6a34-4c59-9a7e-5b1f3c2d8e71"
    assert lost["details"]["session"] == 41237
    assert lost["history"] is False
    assert (torn["level"], torn["explained_by"]) == ("ignore", lost["id"])
    told = datetime.fromisoformat(lost["told"]) - datetime.fromisoformat(lost["time"])
    assert 0 <= told.total_seconds() < 1.0


def test_what_was_in_the_log_before_is_history(log: Path) -> None:
    write(log, LOST, at=1_790_000_000)
    with watching("--kernel-log", log, "--json") as running:
        running.wait_for(lambda line: '"code":79' in line)
        write(log, xid_text(31, "MMU Fault", pci="0000:0a:00"))
        running.wait_for(lambda line: '"code":31' in line)
    assert [(one["code"], one["history"]) for one in running.objects()] == [(79, True), (31, False)]


def test_history_is_told_as_such_to_a_person(log: Path) -> None:
    write(log, LOST, at=1_790_000_000)
    with watching("--kernel-log", log, "--timezone", "UTC") as running:
        assert " P0     before this watch: GPU 0000:ab:00 fell off the bus" in running.wait_for(
            lambda line: "Xid 79" in line
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_0_no_traceback_and_its_place_saved(
    log: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with watching("--kernel-log", log, "--state-dir", tmp_path / "state") as running:
        write(log, LOST)
        running.wait_for(lambda line: "Xid 79" in line)
        began = time.monotonic()
        assert running.stop(number) == 0
        assert time.monotonic() - began < 3
    assert len(running.complaints) == 1
    assert {file.name for file in (tmp_path / "state").iterdir()} == {"agent.lock", "watch.json"}


def test_a_corrupt_state_is_said_and_the_log_is_read_anew(log: Path, tmp_path: Path) -> None:
    state = tmp_path / "watch.json"
    words = ("--kernel-log", log, "--state-dir", tmp_path, "--json")
    write(log, LOST)
    with watching(*words) as running:
        running.wait_for(lambda line: '"code":79' in line)
        assert running.stop() == 0
    state.write_bytes(state.read_bytes()[:-20])
    with watching(*words) as again:
        again.wait_for(lambda line: '"code":79' in line)
        assert again.stop() == 0
    [said] = [line for line in again.complaints if "the saved state is not used" in line]
    assert f"the log is read from its start: {state} is broken; delete it and the watch starts afresh" in said
    assert [one["id"] for one in again.objects()] == [one["id"] for one in running.objects()]
    with watching(*words) as third:
        assert third.stop() == 0
    assert third.output == []
    assert len(third.complaints) == 1


def test_a_state_that_cannot_be_written_is_a_sentence_and_the_watch_goes_on(log: Path) -> None:
    state = log.parent / "state"
    (state / "watch.json").mkdir(parents=True)
    with watching("--kernel-log", log, "--state-dir", state) as running:
        write(log, LOST)
        running.wait_for(lambda line: "Xid 79" in line)
        write(log, xid_text(31, "MMU Fault", pci="0000:0a:00"))
        running.wait_for(lambda line: "Xid 31" in line)
        assert running.stop() == 0
    saving = [line for line in running.complaints if "could not be saved" in line]
    assert len(saving) == 1
    assert f"cannot write {state / 'watch.json'}" in saving[0]
    assert "--state-dir" in saving[0]
    assert not any("Traceback" in line for line in running.complaints)


def watch_that_fails(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuward", "watch", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--kernel-log", "/"), 3, "gpuward watch: / is a folder; name the log file in it"),
        (("--kernel-log", "/dev/null"), 3, "gpuward watch: /dev/null is not the kernel's log"),
        (("--timezone", "Mars/Olympus"), 2, "gpuward watch: --timezone: there is no time zone 'Mars/Olympus'"),
        (("--config", "/nowhere.toml"), 2, "gpuward watch: --config: there is no file /nowhere.toml"),
    ],
)
def test_what_cannot_be_watched_is_one_sentence_and_an_exit_code(
    words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = watch_that_fails(*words)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(sentence)
    assert "Traceback" not in done.stderr


def test_without_journalctl_the_journal_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = watch_that_fails("--kernel-log", "journal")
    assert done.returncode == 3
    assert "journalctl is not installed" in done.stderr.splitlines()[-1]


def test_a_reader_of_the_output_that_goes_away_ends_it_quietly(log: Path) -> None:
    command = [sys.executable, "-m", "gpuward", "watch", "--kernel-log", str(log), "--json"]
    write(log, LOST)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert '"code":79' in process.stdout.readline()
        process.stdout.close()
        write(log, xid_text(31, "MMU Fault", pci="0000:0a:00"))
        assert process.wait(20) == 128 + signal.SIGPIPE
        assert "Traceback" not in process.stderr.read()
