"""The pretend fleet itself: the same seed gives the same life, what was never ill has no case, and time is skipped."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpuward.model.case import CaseState
from gpuward.model.happening import Happening, What, as_object
from gpuward.sim.fleet.acts import ACT_SECONDS, HASTY, Played, play, small
from gpuward.sim.fleet.fleet import Fleet
from gpuward.sim.fleet.layout import Layout
from gpuward.sim.fleet.time import Nobody, PretendLoop, Time
from gpuward.sim.fleet.weather import DAY_SECONDS, Kind, Rates, Stroke, plan, without
from gpuward.sim.fleet.workloads import Workload

DIGEST = """
import hashlib, json
from gpuward.model.happening import as_object
from gpuward.sim.fleet.acts import play
print(hashlib.sha256(json.dumps([as_object(one) for one in play(5).journal]).encode()).hexdigest())
"""
STILL = Layout(
    nodes=3,
    gpus=2,
    standbys=1,
    workloads=(Workload("train", 2, 2, run_seconds=(100.0, 600.0)),),
    visit_seconds=(20.0, 90.0),
)


def lines(played: Played, what: What) -> list[Happening]:
    return [one for one in played.journal if one.what is what]


def ill(name: str, *, at: float = 30.0, node: int = 0, number: int = 1) -> Stroke:
    return Stroke(number, at, Kind.ILL, node, 0, name)


@pytest.mark.parametrize(
    "seed",
    [
        0,  # the API went away between two orders of a repair: the agent drained alone what was being repaired
        9,  # a GPU that failed again on probation was returned: that its lines went on was not told
        13,  # a GPU that was repaired, and whose node was cut off then, was drained alone for the old fault
        18,  # a card was replaced, and the case of the old one could never be released
        67,  # a failure on probation was held against another machine's clock
    ],
)
def test_lives_that_once_found_a_fault_go_well(seed: int) -> None:
    assert play(seed).complaints == []


def test_the_same_seed_gives_the_same_journal_also_in_another_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": number},
        ).stdout
        for number in ("1", "2")
    }
    told = json.dumps([as_object(one) for one in play(5).journal])
    assert digests == {hashlib.sha256(told.encode()).hexdigest() + "\n"}
    assert play(6).journal != play(5).journal


@pytest.mark.parametrize(
    ("name", "code", "state"),
    [
        ("double-bit", 48, CaseState.CLOSED),
        ("halted", 62, CaseState.CLOSED),
        ("bad-address", 31, CaseState.CLOSED),
    ],
)
def test_what_a_reset_cures_is_fenced_repaired_and_returned(name: str, code: int, state: CaseState) -> None:
    played = play(1, strokes=[ill(name)], layout=STILL)
    assert played.complaints == []
    (case,) = played.cases
    assert (case.code, case.state) == (code, state)
    assert not any(one.outcome == "people" for one in lines(played, What.TRUTH))


@pytest.mark.parametrize("name", ["off-the-bus", "worn-memory", "relapsing"])
def test_what_no_reset_cures_waits_for_a_person(name: str) -> None:
    played = play(1, strokes=[ill(name)], layout=STILL)
    assert played.complaints == []
    assert any(one.after == "parked" for one in lines(played, What.MOVED))
    assert any(one.outcome == "people" for one in lines(played, What.TRUTH))


def test_a_program_that_broke_a_rule_and_every_false_alarm_open_no_case() -> None:
    alarms = [
        Stroke(number, 30.0 * number, Kind.ALARM, 0, 0, name)
        for number, name in enumerate(("written-by-a-user", "quoted", "network-card"), 1)
    ]
    played = play(1, strokes=[*alarms, ill("bad-program", at=150.0, number=9)], layout=STILL)
    assert played.complaints == []
    assert played.cases == []
    assert len(lines(played, What.TRUTH)) == 4
    assert not lines(played, What.MOVED)


def test_taking_a_fault_out_takes_its_case_taint_and_lines_out() -> None:
    strokes = [ill("double-bit", node=0, number=1), ill("off-the-bus", at=200.0, node=1, number=2)]
    whole = play(1, strokes=strokes, layout=STILL)
    less = play(1, strokes=strokes, layout=STILL, less=[1])
    assert {case.node for case in whole.cases} == {"node-01", "node-02"}
    assert {case.node for case in less.cases} == {"node-02"}
    assert {one.node for one in whole.journal if one.node} == {"node-01", "node-02"}, "a pool has no node"
    assert {one.node for one in less.journal if one.node} == {"node-02"}


def test_a_stroke_that_is_left_out_changes_no_other() -> None:
    whole = plan(3, nodes=4, gpus=2, days=2.0, rates=Rates(ill_a_gpu=0.5))
    assert len(without(whole, [2])) == len(whole) - 1
    assert set(without(whole, [2])) < set(whole)
    assert [one.number for one in whole] == list(range(1, len(whole) + 1))
    assert all(0 <= one.at < 2 * DAY_SECONDS for one in whole)


def life(*, skips: bool) -> tuple[list[dict[str, object]], float]:
    """Return what is told of one life, but for times and words, and how long its loops ran."""
    told: list[Happening] = []
    time = Time()
    loop = PretendLoop(time)
    terms = replace(HASTY, probation_seconds=600.0)

    async def live() -> None:
        fleet = Fleet(STILL, seed=4, terms=terms, tell=told.append, time=time)
        fleet.skips = skips
        async with fleet.living():
            fleet.expect([ill("double-bit"), ill("halted", at=2000.0, node=1, number=2)])
            await fleet.live_until(4000.0)

    loop.run_until_complete(live())
    loop.close()
    return [{**as_object(one), "at": 0, "because": ""} for one in told], time.passed


def test_skipping_idle_time_changes_nothing_but_the_work() -> None:
    fast, short = life(skips=True)
    slow, long = life(skips=False)
    assert fast == slow
    assert long > 3900
    assert short < long / 4


def test_a_small_fleet_is_like_its_seed_says() -> None:
    layouts = {small(seed) for seed in range(40)}
    assert {one.nodes for one in layouts} == {2, 3, 4}
    assert {one.replicas for one in layouts} == {1, 2}
    assert ACT_SECONDS > 0


@pytest.fixture
def loop() -> Iterator[PretendLoop]:
    made = PretendLoop(Time())
    yield made
    made.close()


def test_when_nobody_waits_for_the_time_the_run_ends_with_an_error(loop: PretendLoop) -> None:
    with pytest.raises(Nobody):
        loop.run_until_complete(loop.create_future())
