"""Inputs and outputs of `gpuward scan` that are no plain files: pipes, terminals, folders, closed and full streams."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.commands import COMMAND, ask_process, environment, written

LOST = "2026-11-20T03:12:07+00:00 ember kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
_NOBODY = 65534
_LARGE = 9 * 1024 * 1024


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log with one fault at P0."""
    return written(tmp_path, [LOST])


def shell(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which "$0" "$@" is the command."""
    return subprocess.run(
        ["/bin/bash", "-c", script, *COMMAND, *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


def in_terminal(*words: str | Path, columns: int = 80) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of the command, each written to a terminal of its own."""
    texts: list[str] = []
    ends = [pty.openpty(), pty.openpty()]
    for _, far in ends:
        termios.tcsetwinsize(far, (24, columns))
    with subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=ends[0][1],
        stderr=ends[1][1],
        env=environment() | {"TERM": "xterm"},
    ) as process:
        for near, far in ends:
            os.close(far)
            texts.append(_drained(near))
        code = process.wait(60)
    return code, texts[0], texts[1]


def _drained(handle: int) -> str:
    content = b""
    try:
        while piece := os.read(handle, 65536):
            content += piece
    except OSError:  # how a terminal tells that its other end is closed
        pass
    os.close(handle)
    return content.decode()


def test_a_terminal_gets_colours_and_a_pipe_none(log: Path) -> None:
    code, out, err = in_terminal("scan", log)
    assert code == 1
    assert "\x1b[1;31mP0" in out
    assert "1 line read" in err
    assert "\x1b" not in ask_process("scan", log).out


def plain(text: str) -> list[str]:
    """Return the lines of what a terminal got, without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@pytest.mark.parametrize("columns", [32, 60, 80, 131])
def test_on_a_narrow_terminal_a_fault_is_a_block_of_wrapped_lines(log: Path, columns: int) -> None:
    _, out, _ = in_terminal("scan", "--timezone", "UTC", log, columns=columns)
    heading, *lines, empty, summary = plain(out)
    assert heading == "GPU 0000:3b:00 on ember"
    assert (empty, summary) == ("", "1 fault: 1 P0")
    assert max(map(len, lines)) <= columns
    assert all(line[:8] in {"P0      ", " " * 8} and line == line.rstrip() for line in lines)
    told = " ".join(" ".join(line[8:] for line in lines).split())
    assert told.startswith("2026-11-20 03:12:07 GPU 0000:3b:00 Xid 79: GPU no longer reachable over PCIe (off the bus)")
    assert " hardware, 1 line do: Take the GPU out of service now" in told
    assert " why: Xid 79 is graded P0" in told
    assert "\x1b[1;31mP0" in out


def test_on_a_wide_terminal_faults_are_a_table(log: Path) -> None:
    out = plain(in_terminal("scan", log, columns=132)[1])
    assert "FIRST" in out[2]
    assert max(map(len, out)) <= 132


@pytest.mark.parametrize(("columns", "is_table"), [(None, True), ("80", False), ("132", True), ("wide", True)])
def test_what_is_piped_is_a_table_unless_columns_says_that_it_is_narrow(
    log: Path, columns: str | None, *, is_table: bool
) -> None:
    said = {} if columns is None else {"COLUMNS": columns}
    done = subprocess.run(
        [*COMMAND, "scan", log],
        capture_output=True,
        text=True,
        env=environment() | said | {"FORCE_COLOR": "1"},
        timeout=60,
        check=False,
    )
    assert ("FIRST" in done.stdout) is is_table
    assert "\x1b" not in done.stdout


def test_progress_is_drawn_on_a_terminal_and_taken_away_again(tmp_path: Path) -> None:
    big = tmp_path / "big.log"
    big.write_bytes(b"plain line of a log that is big\n" * (_LARGE // 32) + LOST.encode() + b"\n")
    _, _, err = in_terminal("scan", "--json", big)
    assert f"gpuward: {big}: " in err
    assert " %" in err
    assert err.endswith("\r\x1b[Kgpuward: 294913 lines read, 1 recognised, 0 unparsed\r\n")


def test_a_pipe_gets_no_progress() -> None:
    answer = ask_process("scan", "--json", "-", stdin=b"plain line of a log that is big\n" * (_LARGE // 32))
    assert answer.err == "gpuward: 294912 lines read, 0 recognised, 0 unparsed\n"


@pytest.mark.parametrize(("words", "count"), [("--json --all", 400), ("--all", 400), ("--lines", 4000)])
def test_a_reader_that_goes_away_ends_the_command_without_a_word(tmp_path: Path, words: str, count: int) -> None:
    lines = [f"[{at * 200}.000000] NVRM: Xid (PCI:{at:04x}:3b:00): 13, Graphics Exception" for at in range(count)]
    done = shell('"$0" "$@" | head -1; exit ${PIPESTATUS[0]}', "scan", *words.split(), written(tmp_path, lines))
    assert done.returncode == 141
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(
    "words", [["explain", "79"], ["explain", "--list"], ["--help"], ["scan", "--help"], ["--version"]]
)
def test_other_commands_leave_without_a_word_too(words: list[str]) -> None:
    done = shell('"$0" "$@" | true; exit ${PIPESTATUS[0]}', *words)
    assert done.returncode in {0, 141}
    assert done.stderr == ""


@pytest.mark.parametrize("words", [["scan"], ["scan", "--json"], ["scan", "--lines"], ["explain"]])
def test_an_output_that_is_full_is_told_and_is_exit_code_3(log: Path, words: list[str]) -> None:
    done = shell('"$0" "$@" >/dev/full', *words, "79" if words == ["explain"] else log)
    assert done.returncode == 3
    assert done.stderr.endswith(
        "gpuward: cannot write (No space left on device); make room for the output and temporary files\n"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_do_not_change_the_exit_code(log: Path, closed: str) -> None:
    done = shell(f'"$0" "$@" {closed}', "scan", log)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_standard_input_that_is_closed_is_an_input_that_cannot_be_read(log: Path) -> None:
    done = shell('"$0" "$@" <&-', "scan", "--json", log, "-")
    assert done.returncode == 3
    assert '"code":79' in done.stdout
    assert "gpuward: standard input cannot be read" in done.stderr


@pytest.mark.parametrize("words", ["explain xid:999", "--help", "scan --help", "--version"])
def test_an_output_that_is_small_is_not_lost_silently_either(words: str) -> None:
    done = shell('"$0" "$@" >/dev/full', *words.split())
    assert done.returncode == 3
    assert done.stderr.startswith("gpuward: cannot write (No space left on device)")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["scan --since never", "scan --bogus", "gaze", "explain"])
def test_standard_error_that_is_full_does_not_hide_wrong_usage(words: str) -> None:
    assert shell('"$0" "$@" 2>/dev/full', *words.split()).returncode == 2
    assert shell('"$0" "$@" 2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}', *words.split()).returncode in {2, 141}


def test_a_pipe_that_is_slow_is_read_to_its_end() -> None:
    done = shell(f'(printf "%s" "{LOST[:30]}"; sleep 0.3; echo "{LOST[30:]}") | "$0" "$@"', "scan", "--json")
    assert done.returncode == 1
    assert '"code":79' in done.stdout


@pytest.mark.parametrize(
    ("make", "told"),
    [
        ("rm", "is not there; check the name"),
        ("mkdir", "is a folder; name the log files in it"),
        ("mkfifo", "nothing was written to the pipe"),
        ("loop", "cannot be read (Too many levels of symbolic links)"),
    ],
)
def test_an_input_that_is_no_log_is_named_with_the_remedy(log: Path, tmp_path: Path, make: str, told: str) -> None:
    odd = tmp_path / "odd"
    match make:
        case "mkdir":
            odd.mkdir()
        case "mkfifo":
            os.mkfifo(odd)
        case "loop":
            odd.symlink_to(odd)
    answer = ask_process("scan", "--json", odd, log)
    assert answer.code == 3
    assert answer.object()["code"] == 79
    assert str(odd) in answer.err
    assert told in answer.err


def test_a_file_without_permission_is_named_with_the_remedy() -> None:
    script = (
        "import os, sys; from gpuward.cli.main import run; run(['scan', '/dev/null']); "
        f"os.geteuid() or os.seteuid({_NOBODY}); sys.exit(run())"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        log = written(Path(folder), [LOST])
        log.chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", script, "scan", str(log)], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 3
    assert f"{log} may not be read by this user; run as root or a member of its group" in done.stderr


def test_an_interrupt_ends_the_command_without_a_word(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    os.mkfifo(silent)
    writer = os.open(silent, os.O_RDWR)
    with subprocess.Popen([*COMMAND, "scan", silent], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _wait_until(lambda: _holds(process.pid, silent))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    os.close(writer)
    assert (process.returncode, out, err) == (130, b"", b"")


def _holds(pid: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(handle.readlink() == path for handle in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _wait_until(done: Callable[[], bool]) -> None:
    for _ in range(3000):
        if done():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen within 30 s")
