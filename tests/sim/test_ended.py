"""Whoever ends a demonstration or a run, by a signal or by closing its output, gets the prompt back at once.

With a sentence and an exit code, no traceback, and nothing left running.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuward.adapters.processes import ProcessTable

pytestmark = pytest.mark.xdist_group("agent")

AT_ONCE_SECONDS = 10.0
"""More than is needed on a machine that is busy; a person waits for less than a second."""
FLEET = ("gpuward.sim.fleet.demo", "--speed", "20")
SERVER = ("gpuward.sim.stage",)
WATCH = ("gpuward.sim.demo",)
RUN = ("gpuward", "sim", "run", "--seed", "3", "--nodes", "16", "--days", "300")
Show = subprocess.Popen[str]


@pytest.fixture
def show(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Show]:
    words, until = request.param
    with subprocess.Popen(
        [sys.executable, "-u", "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        try:
            assert process.stdout is not None
            assert any(until in line for line in process.stdout), f"never shown: {until}"
            yield process
        finally:
            process.kill()
            if process.stderr is not None:
                process.stderr.close()


def started(*cases: tuple[tuple[str, ...], str]) -> pytest.MarkDecorator:
    ids = [f"{words[0]}-{until}" for words, until in cases]
    return pytest.mark.parametrize("show", cases, indirect=True, ids=ids)


def left(folder: Path) -> list[str]:
    """Return what is still there of a show: its processes and its files."""
    table = ProcessTable().text().decode()
    return [*(line for line in table.splitlines() if str(folder) in line), *map(str, folder.iterdir())]


_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


@pytest.mark.parametrize(
    ("show", "number"),
    [
        *((shown, number) for shown in ((FLEET, "seen, P0"), (WATCH, "P0")) for number in _SIGNALS),
        ((SERVER, "qualify"), signal.SIGTERM),  # it takes long to come to that
    ],
    indirect=["show"],
    ids=lambda value: value[0][0] if isinstance(value, tuple) else value.name,
)
def test_a_demonstration_ends_in_a_sentence(show: Show, number: signal.Signals, tmp_path: Path) -> None:
    by = _SIGNALS[number]
    show.send_signal(number)
    _, errors = show.communicate(timeout=AT_ONCE_SECONDS)
    assert show.returncode == 128 + number
    assert errors.endswith(f"\nEnded by {by}, before its end. All of it was pretend, and nothing of it is left.\n")
    assert "Traceback" not in errors
    assert left(tmp_path) == []


@started((FLEET, "from a second terminal"), (SERVER, "-> fenced"))
def test_ctrl_c_ends_it_at_other_moments_too(show: Show, tmp_path: Path) -> None:
    show.send_signal(signal.SIGINT)
    show.communicate(timeout=AT_ONCE_SECONDS)
    assert show.returncode == 128 + signal.SIGINT
    assert left(tmp_path) == []


@started((RUN, '"what":"moved"'))
def test_a_run_says_how_far_it_was(show: Show) -> None:
    show.send_signal(signal.SIGINT)
    _, errors = show.communicate(timeout=AT_ONCE_SECONDS)
    assert show.returncode == 128 + signal.SIGINT
    assert "gpuward: ended by Ctrl-C, " in errors.splitlines()[-1]
    assert "of 300 days were over" in errors.splitlines()[-1]
    assert "Traceback" not in errors


@started((FLEET, "seen, P0"), (SERVER, "qualify"), (WATCH, "P0"), (RUN, '"what":"moved"'))
def test_what_nobody_reads_is_not_gone_on_with(show: Show, tmp_path: Path) -> None:
    assert show.stdout is not None
    assert show.stderr is not None
    show.stdout.close()
    assert show.wait(timeout=3 * AT_ONCE_SECONDS) == 128 + signal.SIGPIPE
    assert "Traceback" not in show.stderr.read()
    assert left(tmp_path) == []
