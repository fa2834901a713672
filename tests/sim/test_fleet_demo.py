"""The demonstration of a fleet as `make demo` runs it, without waiting; what it tells and sums up is what happened."""

import re
import subprocess
import sys

import pytest

Run = subprocess.CompletedProcess[str]


def run(*words: str) -> Run:
    return subprocess.run(
        [sys.executable, "-m", "gpuward.sim", "fleet", "--speed", "0", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def demo() -> Run:
    return run()


def of(demo: Run, node: str) -> list[str]:
    return [line for line in demo.stdout.splitlines() if f" {node} " in line and re.match(r"\d\d:", line)]


def test_it_ends_well_and_sums_up_what_happened(demo: Run) -> None:
    assert demo.returncode == 0, demo.stdout
    end = demo.stdout.partition("What it came to:")[2]
    assert "3 faults of GPUs or programs, 1 false alarm" in end
    assert "cases: 3 closed" in end
    assert "no law was broken, and nothing is left that no case asks for" in end
    assert "\x1b" not in demo.stdout, "plain lines where it is no terminal"


def test_the_false_alarm_is_withheld(demo: Run) -> None:
    assert "false alarm on node-05 0000:0a:00: 0 steps followed" in demo.stdout
    assert not any("->" in line for line in of(demo, "node-05"))


@pytest.mark.parametrize(
    ("node", "word"),
    [("node-03", "reset asked"), ("node-07", "a person rebooted the node"), ("node-09", "taint asked")],
)
def test_each_sick_node_is_worked_on_to_its_end(demo: Run, node: str, word: str) -> None:
    told = of(demo, node)
    assert any(word in line for line in told)
    assert any("-> closed" in line for line in told)


def test_the_kill_of_the_leader_is_told_as_it_happens_and_another_one_takes_over(demo: Run) -> None:
    lines = demo.stdout.splitlines()
    [place] = [number for number, line in enumerate(lines) if "is killed" in line]
    assert re.fullmatch(r"\d\d:\d\d:\d\d \*\*\* the leading controller, controller-\d, is killed", lines[place])
    assert any(" -> " in line for line in lines[place:]), "the others work on"
    assert "controllers and agents: 2 kills" in demo.stdout, "the leader, and the agent of a node that was rebooted"
    assert "is killed" not in run("--without", "5").stdout


def test_every_line_says_where_or_is_about_no_node(demo: Run) -> None:
    told = [line for line in demo.stdout.splitlines() if re.match(r"\d\d:", line)]
    [*pools] = [line for line in told if "Standby pool" in line]
    assert pools
    assert all(re.match(r"\d\d:\d\d:\d\d Standby pool standby: ", line) for line in pools)
    assert all(re.match(r"\S+ (node-\d\d( [0-9a-f:.]+)?: |Standby pool |\*\*\* )", line) for line in told)


def test_a_reset_is_not_told_before_it_is_asked_for(demo: Run) -> None:
    told = of(demo, "node-03")
    asked = next(number for number, line in enumerate(told) if "reset asked" in line)
    assert not any("is reset" in line for line in told[:asked])
    assert any("the GPU is to be reset" in line for line in told)


def test_taking_a_fault_out_takes_its_case_taint_and_lines_out(demo: Run) -> None:
    less = run("--without", "1")
    assert of(demo, "node-03")
    assert of(less, "node-03") == []
    assert "2 faults of GPUs or programs, 1 false alarm" in less.stdout
    assert "cases: 2 closed" in less.stdout


@pytest.mark.parametrize("speed", ["-1", "nan", "inf"])
def test_a_speed_that_is_none_is_wrong_usage(speed: str) -> None:
    done = run("--speed", speed)
    assert done.returncode == 2
    assert "--speed" in done.stderr
