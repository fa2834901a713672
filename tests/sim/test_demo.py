"""The demonstration as `make demo-watch` runs it, only faster: every verdict that it promises is told."""

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gpuward.sim", "watch", *words], check=False, capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="module")
def demo() -> "subprocess.CompletedProcess[str]":
    return run("--speed", "40")


@pytest.fixture(scope="module")
def watched(demo: "subprocess.CompletedProcess[str]") -> Sequence[str]:
    """Return what the watch said of faults, one line a change."""
    live = demo.stdout.split("The same log read as a file")[0]
    return [line for line in live.splitlines() if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line)]


def about(lines: Sequence[str], code: str, gpu: int) -> list[str]:
    return [line for line in lines if code in line and f" GPU {gpu} (" in line]


def test_it_ends_with_0_and_nobody_complains(demo: "subprocess.CompletedProcess[str]") -> None:
    assert demo.returncode == 0
    assert "did not end as it should" not in demo.stdout
    assert "Traceback" not in demo.stderr


def test_the_lost_gpu_is_p0_with_its_index_pod_and_whose_fault(watched: Sequence[str]) -> None:
    [line] = about(watched, "(Xid 79", 5)
    assert " P0 " in line
    assert "GPU 5 (0000:ab:00) fell off the bus" in line
    assert "under python3" in line
    assert "pod uid 0d6ac9f2-6a34-4c59-9a7e-5b1f3c2d8e71" in line
    assert "hardware, not your code" in line


def test_what_follows_from_the_loss_is_ignore(watched: Sequence[str]) -> None:
    for code in ("fallen_off_bus", "(Xid 154", "(Xid 45"):
        [line] = about(watched, code, 5)
        assert re.search(r"\d ignore +(explained: )?GPU 5", line)


def test_a_bad_program_is_p1_of_the_application_and_its_storm_is_one_consequence(watched: Sequence[str]) -> None:
    [fault] = about(watched, "(Xid 31", 2)
    assert re.search(r"\d P1 +GPU 2", fault)
    assert "under jupyter-lab" in fault
    assert "the application, not the hardware" in fault
    [storm] = about(watched, "(Xid 45", 2)
    assert re.search(r"\d ignore +GPU 2", storm)


def test_a_lone_45_is_held_first_and_then_p1(watched: Sequence[str]) -> None:
    held, worse = about(watched, "(Xid 45", 1)
    assert re.search(r"\d P2 +GPU 1", held)
    assert re.search(r"\d P1 +worse, was P2: GPU 1", worse)


def test_nothing_else_is_told(watched: Sequence[str]) -> None:
    assert len(watched) == 8
    assert not any("Xid 641" in line or " GPU 0 (" in line or "0000:05:00" in line for line in watched)


def test_the_scan_and_the_explanation_at_its_end_are_shown(demo: "subprocess.CompletedProcess[str]") -> None:
    _, _, end = demo.stdout.partition("The same log read as a file")
    scan, _, explained = end.partition("What a code means")
    assert "0000:ab:00" in scan
    assert "P0" in scan
    assert "xid:45" in explained


@pytest.mark.parametrize("speed", ["0", "-1", "fast"])
def test_a_speed_that_is_none_is_wrong_usage(speed: str) -> None:
    done = run("--speed", speed)
    assert done.returncode == 2
    assert "--speed" in done.stderr
