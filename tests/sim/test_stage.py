"""The demonstration of the agent as `make demo-server` runs it; taking a fault out takes its lines out."""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuward.sim.machines.machine import build
from gpuward.sim.stage import Stage

pytestmark = [pytest.mark.xdist_group("agent"), pytest.mark.long]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gpuward.sim", "server", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.fixture(scope="module")
def shows() -> Sequence["subprocess.CompletedProcess[str]"]:
    """Return the whole show, and that without the GPU that is lost; both wait most of the time, so at once."""
    with ThreadPoolExecutor() as both:
        return list(both.map(lambda words: run(*words), ((), ("--without", "79"))))


@pytest.fixture
def shown(shows: Sequence["subprocess.CompletedProcess[str]"]) -> "subprocess.CompletedProcess[str]":
    return shows[0]


def test_every_part_ends_as_it_should(shown: "subprocess.CompletedProcess[str]") -> None:
    assert shown.returncode == 0, shown.stdout
    assert "never happened" not in shown.stdout
    assert "Traceback" not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("gpu", "story"),
    [
        ("0000:ab:00", ["suspect -> fenced", "drain asked", "-> parked", "parked -> closed"]),
        ("0000:44:00", ["drain done", "vacated -> repairing", "reset done", "probation -> closed"]),
        ("0000:18:00", ["No drain while work holds it", "fenced -> vacated", "reset done", "probation -> closed"]),
        ("0000:3b:00", ["P1 by xid:31", "ignore by xid:45 R45-consequence", "reset done", "probation -> closed"]),
    ],
)
def test_each_fault_has_its_story(shown: "subprocess.CompletedProcess[str]", gpu: str, story: list[str]) -> None:
    lines = [line for line in shown.stdout.splitlines() if f" GPU {gpu}: " in line]
    places = [next(place for place, line in enumerate(lines) if part in line) for part in story]
    assert places == sorted(places)
    opened = [line for line in lines if ": case " in line]
    assert len(opened) == 1


def test_the_quoted_line_comes_to_nothing(shown: "subprocess.CompletedProcess[str]") -> None:
    assert " GPU 0000:0a:00: " not in shown.stdout


def test_tools_that_hang_are_unknown(shown: "subprocess.CompletedProcess[str]") -> None:
    assert "GPU 0 0000:0a:00 unknown" in shown.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="NVML is compiled")
def test_the_gpus_are_read_by_nvml(shown: "subprocess.CompletedProcess[str]") -> None:
    assert "GPUs read by nvml" in shown.stdout


def test_without_the_fault_there_is_no_case_of_it(shows: Sequence["subprocess.CompletedProcess[str]"]) -> None:
    _, shown = shows
    assert shown.returncode == 0, shown.stdout
    assert " GPU 0000:ab:00: " not in shown.stdout
    assert "Xid 79" not in shown.stdout.partition("a health check")[0]


def test_it_waits_for_nothing_once_its_agent_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as agent:
        agent.wait()
        stage = Stage(build(tmp_path / "server", count=1), tmp_path, tmp_path / "gpuward.toml", {}, agent)
        began = time.monotonic()
        assert not stage.wait_for("GPU 0 returns", lambda: False)
        assert time.monotonic() - began < 10.0
    assert "the agent has ended, and this never happened: GPU 0 returns" in capsys.readouterr().out
