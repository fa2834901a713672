"""Watches of one followed file that are ended and started again: together they tell what one that never ended tells."""

import json
import random
import signal
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuward.sim.server import HOST, story
from tests.kit.pretend import START
from tests.kit.watching import Running, watching, xid_text


def lines() -> list[str]:
    """Return the pretend server's log; it has what merges, explains, waits, and is nothing of ours."""
    return [
        f"{datetime.fromtimestamp(START + line.seconds, UTC).isoformat(timespec='microseconds')} {HOST} {line.text}\n"
        for line in story()
    ]


def marker(number: int, after: str) -> str:
    """Return a line that always begins a fault of its own, with the time of the line before it."""
    stamp = after.split(" ", 1)[0]
    return f"{stamp} {HOST} kernel: {xid_text(38, f'marker {number}', pci=f'0000:e{number}:00')}\n"


def meanings(running: Running) -> list[str]:
    """Return what was told, without when."""
    return [json.dumps({**told, "told": None, "history": None}, sort_keys=True) for told in running.objects()]


def keys(told: Sequence[str]) -> set[tuple[Any, ...]]:
    """Return id and change of what was told."""
    return {(one["id"], one["change"]) for one in map(json.loads, told)}


def uninterrupted(log: Path, last: str) -> list[str]:
    """Return what a watch tells that reads the finished log in one go."""
    with watching("--kernel-log", log, "--json") as running:
        running.wait_for(lambda line: last in line)
        assert running.stop() == 0
    return meanings(running)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_watch_ended_at_several_places_tells_what_an_uninterrupted_one_tells(
    tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "kern.log"
    told: list[str] = []
    whole = lines()
    cuts = [0, 10, 12, 14, 30, 39, len(whole)]
    for turn, (start, end) in enumerate(pairwise(cuts)):
        with log.open("a") as file:
            file.writelines([*whole[start:end], marker(turn, whole[end - 1])])
        with watching("--kernel-log", log, "--state-dir", tmp_path, "--json") as running:
            running.wait_for(lambda line, turn=turn: f"marker {turn}" in line)  # type: ignore[misc]  # bound now
            running.stop(number)
        told += meanings(running)
        assert not any("Traceback" in line for line in running.complaints)
        assert len(running.complaints) == 1, "the place was not found"
    expected = uninterrupted(log, f"marker {turn}")
    assert keys(told) == keys(expected)
    assert set(told) == set(expected)
    if number is signal.SIGTERM:
        assert len(told) == len(set(told)), "told twice"


def test_a_watch_killed_at_any_instant_while_lines_come_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    whole = [line for line in lines() for _ in range(3)]
    chance = random.Random(7)  # noqa: S311  instants of a test, no secret
    done = threading.Event()

    def writer() -> None:
        with log.open("a", buffering=1) as file:
            for line in whole:
                file.write(line)
                time.sleep(0.02)
            file.write(marker(9, whole[-1]))
        done.set()

    thread = threading.Thread(target=writer)
    thread.start()
    told: list[str] = []
    words = ("--kernel-log", log, "--state-dir", tmp_path, "--json")
    while not done.is_set():
        with watching(*words) as running:
            time.sleep(chance.uniform(0, 0.4))
            running.stop(signal.SIGKILL)
        told += meanings(running)
    thread.join()
    with watching(*words) as running:
        if not any("marker 9" in line for line in told):
            running.wait_for(lambda line: "marker 9" in line)
        assert running.stop() == 0
    told += meanings(running)
    expected = uninterrupted(log, "marker 9")
    assert set(told) == set(expected)


def test_reading_the_same_lines_once_more_tells_nothing(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    whole = lines()
    log.write_text("".join([*whole, marker(0, whole[-1])]))
    words = ("--kernel-log", log, "--state-dir", tmp_path, "--json")
    with watching(*words) as running:
        running.wait_for(lambda line: "marker 0" in line)
        assert running.stop() == 0
    state = tmp_path / "watch.json"
    saved = json.loads(state.read_text())
    saved["saved"]["cursor"] = saved["saved"]["cursor"].rpartition("-")[0] + "-0"
    state.write_text(json.dumps(saved))
    with log.open("a") as file:
        file.write(marker(1, whole[-1]))
    with watching(*words) as again:
        again.wait_for(lambda line: "marker 1" in line)
        assert again.stop() == 0
    assert [json.loads(line)["evidence"][0]["text"].count("marker 1") for line in again.output] == [1]
