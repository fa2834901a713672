"""`gpuward sim run` as a person runs it: the journal, what it came to, and its exit codes."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

Run = subprocess.CompletedProcess[str]


def run(*words: str) -> Run:
    return subprocess.run(
        [sys.executable, "-m", "gpuward", "sim", "run", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.fixture(scope="module")
def ran() -> Run:
    return run("--seed", "2", "--nodes", "6", "--days", "4")


def lines(ran: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_it_ends_well_and_says_what_it_came_to(ran: Run) -> None:
    assert ran.returncode == 0, ran.stderr
    assert "seed 2: 6 nodes with 8 GPUs each, 4 days" in ran.stderr
    assert "no law was broken, and nothing is left that no case asks for" in ran.stderr
    assert "node-days a CPU second" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_journal_has_the_truth_and_what_followed_from_it(ran: Run) -> None:
    told = lines(ran)
    kinds = {one["what"] for one in told}
    assert {"truth", "observed", "verdict", "moved", "effect"} <= kinds
    opened = {place(one) for one in told if one["what"] == "verdict"}
    truths = {place(one) for one in told if one["what"] == "truth"}
    assert opened <= truths


def test_the_same_seed_prints_the_same_bytes_and_another_one_others(ran: Run) -> None:
    assert run("--seed", "2", "--nodes", "6", "--days", "4").stdout == ran.stdout
    assert run("--seed", "1", "--nodes", "6", "--days", "4").stdout != ran.stdout


def test_without_a_stroke_its_case_and_lines_are_gone(ran: Run) -> None:
    truth = next(
        one
        for one in lines(ran)
        if one["what"] == "truth" and one["outcome"] in {"halted", "double-bit", "off-the-bus"}
    )
    where, number = place(truth), truth["rule"].removeprefix("stroke ")
    assert any(place(one) == where and one["what"] == "moved" for one in lines(ran))
    less = lines(run("--seed", "2", "--nodes", "6", "--days", "4", "--without", number))
    assert less
    assert not any(place(one) == where for one in less)


def place(line: dict[str, Any]) -> tuple[str, str]:
    return line.get("node", ""), line.get("gpu", "")


@pytest.mark.parametrize(
    "words",
    [
        ("--nodes", "0"),
        ("--days", "0"),
        ("--days", "x"),
        ("--seed", "-1"),
        ("--gpus", "17"),
        ("--mode", "all"),
        ("--seed", str(2**63)),
    ],
)
def test_what_cannot_be_run_is_wrong_usage(words: tuple[str, str]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert words[0] in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("number", ["0", "99999", "-1", "x"])
def test_a_stroke_that_there_is_not_is_wrong_usage(number: str) -> None:
    done = run("--seed", "2", "--nodes", "6", "--days", "4", "--without", number)
    assert done.returncode == 2
    assert "--without" in done.stderr
    assert done.stdout == ""


def test_it_is_said_which_strokes_there_are() -> None:
    done = run("--seed", "2", "--nodes", "6", "--days", "4", "--without", "700")
    assert re.search(r"--without 700: seed 2 has strokes 1 to \d+ with these nodes, GPUs and days\n", done.stderr)
