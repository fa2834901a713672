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
FLEET = ("gpuward.sim", "fleet", "--speed", "20")
SERVER = ("gpuward.sim", "server")
WATCH = ("gpuward.sim", "watch")
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
    ids = [f"{words[1]}-{until}" for words, until in cases]
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
    ids=lambda value: value[0][1] if isinstance(value, tuple) else value.name,
)
def test_a_demonstration_ends_in_a_sentence(show: Show, number: signal.Signals, tmp_path: Path) -> None:
    by = _SIGNALS[number]
    show.send_signal(number)
    _, errors = show.communicate(timeout=AT_ONCE_SECONDS)
    assert show.returncode == 128 + number
    assert errors.endswith(f"\nEnded by {by}, before its end. All of it was pretend, and nothing of it is left.\n")
    assert "Traceback" not in errors
    assert left(tmp_path) == []


_INTERRUPTED = """
import dataclasses, os, runpy, signal, sys
module, part, *words = sys.argv[1:]
def ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)
class Finder:
    def find_spec(self, name, path=None, target=None):
        return ctrl_c() if name == part else None
if part == "a class":
    dataclasses.Field.__set_name__ = ctrl_c
sys.meta_path.insert(0, Finder())
sys.argv[1:] = words
runpy.run_module(module, run_name="__main__")
"""
"""Runs a module as `python -m` does, and presses Ctrl-C when it loads that part of it, or makes a class of fields."""


@pytest.mark.parametrize(
    ("words", "part"),
    [
        *((show, "gpuward.sim.curtain") for show in (FLEET, SERVER, WATCH)),
        (FLEET, "gpuward.sim.fleet.showing"),
        (SERVER, "gpuward.sim.machines.machine"),
        (WATCH, "gpuward.sim.server"),
        (RUN, "gpuward.cli.main"),
        (RUN, "gpuward.cli.sim"),
        *((show, "a class") for show in (FLEET, RUN)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)
def test_ctrl_c_ends_it_in_order_while_it_is_still_loaded(words: tuple[str, ...], part: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, words[0], part, *words[1:]],
        check=False,
        capture_output=True,
        text=True,
        timeout=3 * AT_ONCE_SECONDS,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 128 + signal.SIGINT
    assert left(tmp_path) == []


def test_a_show_that_there_is_not_is_wrong_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuward.sim", "flete"], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "python -m gpuward.sim: say which show: fleet, server, watch\n"


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
