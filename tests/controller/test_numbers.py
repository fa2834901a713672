"""The numbers of a controller, and whether it lives and is ready: on the pretend fleet, and of a real process."""

import asyncio
import signal
import socket
import sys
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuward.cli.wiring.numbers import exposition
from gpuward.controller.loop import Controller
from gpuward.controller.numbers import STUCK_SECONDS, Numbers
from gpuward.controller.pace import Pace
from gpuward.controller.perform import OLDEST_SECONDS
from gpuward.isolation.brake import Brake
from gpuward.isolation.fleet import FleetBrakes
from gpuward.model.case import CaseState, Mode
from gpuward.model.metric import METRICS
from gpuward.model.resource import EVENTS
from gpuward.sim.cluster.users import Asked
from gpuward.sim.cluster.weather import FAIR, Spell, Trouble
from tests.adapters.test_prometheus import series
from tests.controller.fleet import REPAIRING, Fleet
from tests.kit.merging import GPU_A
from tests.kit.promtool import lint
from tests.kit.ward import until

if TYPE_CHECKING:
    from gpuward.adapters.prometheus import Exposition

STANDBY = ({"key": "gpuward.io/standby", "effect": "NoSchedule"},)


class Metered:
    """A controller of a pretend fleet with its numbers."""

    def __init__(self, fleet: Fleet, **terms: Any) -> None:
        self.fleet = fleet
        self.counted: Exposition = exposition()
        self.leads = True
        self.terms = replace(fleet.terms, **terms)
        self.pace = Pace(fleet.time, fleet.time.doze, lambda: 0.5)
        self.controller = Controller(
            fleet.cluster,
            pace=self.pace,
            terms=self.terms,
            tell=fleet.told.hear,
            leads=lambda: self.leads,
            meter=self.counted,
        )
        self.numbers = Numbers(self.controller, pace=self.pace, terms=self.terms, leads=lambda: self.leads)
        self.counted.look_at(self.numbers.samples)

    @property
    def shown(self) -> dict[str, dict[tuple[str, ...], float]]:
        """What a scrape shows now."""
        return series(self.counted)


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    return fleet


async def test_a_case_is_counted_from_its_opening_to_its_end() -> None:
    fleet = a_fleet()
    metered = Metered(fleet)
    async with metered.controller.following():
        await fleet.time.pass_by(0.1)
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(metered.controller, rounds=2)
        assert list(metered.shown["gpuward_cases_open"].values()) == [1.0]
        ((state, level, whose),) = metered.shown["gpuward_cases_open"]
        assert (state, level, whose) == (str(fleet.case_state(fault)), "P0", "hardware")
        assert metered.shown["gpuward_nodes"] == {("True",): 1.0}
        await fleet.settled(metered.controller, fault, CaseState.CLOSED)
    shown = metered.shown
    assert "gpuward_cases_open" not in shown
    assert shown["gpuward_cases_ended_total"] == {("returned",): 1.0}
    effects = shown["gpuward_effects_total"]
    assert effects["reset", "done"] == 1.0
    assert effects["taint", "done"] == 1.0
    assert effects["promote", "refused"] == 1.0
    assert shown["gpuward_fault_to_taint_seconds_count"] == {(): 1.0}
    assert 0.0 <= shown["gpuward_fault_to_taint_seconds_sum"][()] < 5.0
    assert shown["gpuward_nodes"] == {("False",): 1.0}
    assert shown["gpuward_round_seconds_count"][()] >= 5.0
    assert shown["gpuward_events_written_total"][()] == len(fleet.events())
    assert shown["gpuward_api_calls_total"]["patch", "done"] >= 5.0
    assert lint(metered.counted.page().body) == ""


async def test_every_row_is_counted_or_looked_at() -> None:
    fleet = a_fleet()
    metered = Metered(fleet)
    assert {row.name for row in METRICS if not row.is_counted} == set(metered.numbers.samples())


async def test_a_case_that_is_held_is_shown_by_what_holds_it_and_its_pool() -> None:
    for terms, by in (
        ({"brake": Brake(share=0.01), "brakes": FleetBrakes()}, "brake"),
        ({"approval": True}, "approval"),
        ({"mode": Mode.OBSERVE}, "observe"),
    ):
        fleet = a_fleet()
        metered = Metered(fleet, **terms)
        async with metered.controller.following():
            await fleet.time.pass_by(0.1)
            fleet.fault(48)
            if by == "brake":
                fleet.fault(48, pci="0000:86:00")
            await fleet.time.pass_by(0.1)
            await fleet.go(metered.controller, rounds=3)
            assert metered.shown["gpuward_cases_held"] == {(by, "default"): 1.0}


async def test_pools_show_what_stands_by_and_what_they_lack() -> None:
    fleet = a_fleet()
    fleet.node("spare-1", taints=STANDBY)
    fleet.pool(size=3)
    metered = Metered(fleet)
    async with metered.controller.following():
        await fleet.time.pass_by(0.1)
        await fleet.go(metered.controller, rounds=3)
    assert metered.shown["gpuward_standby_ready"] == {("h100",): 1.0}
    assert metered.shown["gpuward_standby_short"] == {("h100",): 2.0}


class Refusing:
    """Implements Weather: conflicts for every event, and nothing else."""

    def spell(self, user: str, asked: Asked) -> Spell:  # noqa: ARG002  all are alike
        """Return a conflict for an event."""
        return Spell(trouble=Trouble.LOST) if asked.resource == EVENTS else FAIR


async def test_calls_that_fail_are_counted_by_how_they_failed() -> None:
    fleet = Fleet(weather=Refusing())
    fleet.node("gpu-1")
    metered = Metered(fleet)
    async with metered.controller.following():
        await fleet.time.pass_by(0.1)
        fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(metered.controller, rounds=2)
    assert metered.shown["gpuward_api_calls_total"]["create", "unreachable"] >= 1.0


async def test_no_node_gpu_or_case_is_named_however_many_there_are() -> None:
    fleet = Fleet(terms=REPAIRING)
    metered = Metered(fleet)
    async with metered.controller.following():
        for node in range(16):
            fleet.node(f"gpu-{node}")
            fleet.fault(79, f"gpu-{node}")
        await fleet.time.pass_by(0.1)
        await fleet.go(metered.controller, rounds=12)
        shown, page = metered.shown, metered.counted.page().body.decode()
    assert len(fleet.gpu_cases()) == 16
    assert sum(shown["gpuward_cases_open"].values()) == 16
    assert not [word for word in ("gpu-1", GPU_A, "c-gpu", "train") if word in page]
    assert sum(map(len, shown.values())) < 100


async def test_it_is_ready_when_it_has_seen_the_whole_cluster_and_hears_of_it() -> None:
    fleet = a_fleet()
    metered = Metered(fleet)
    before = metered.numbers.readiness()
    assert (before.good, "not seen yet: nodes" in before.says) == (False, True)
    async with metered.controller.following():
        await fleet.time.pass_by(0.1)
        assert (metered.numbers.readiness().good, metered.numbers.readiness().says) == (True, "leading")
        metered.leads = False
        assert (metered.numbers.readiness().good, metered.numbers.readiness().says) == (True, "following")
    fleet.time.passed += OLDEST_SECONDS
    late = metered.numbers.readiness()
    assert (late.good, "nothing heard for long" in late.says) == (False, True)


async def test_a_leader_whose_rounds_do_not_end_is_not_healthy_and_a_follower_is() -> None:
    fleet = a_fleet()
    metered = Metered(fleet)
    fleet.time.passed = 10 * STUCK_SECONDS
    assert metered.numbers.health().good, "it has just begun to lead"
    async with metered.controller.following():
        await fleet.time.pass_by(0.1)
        await fleet.go(metered.controller)
    fleet.time.passed += STUCK_SECONDS - 10.0
    assert metered.numbers.health().good
    fleet.time.passed += 10.0
    assert not metered.numbers.health().good
    metered.leads = False
    assert metered.numbers.health().good
    metered.leads = True
    assert metered.numbers.health().good, "what it did not do while another led is no fault of its own"


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: it, user: {token: x}}]
"""


def fetched(port: int, path: str) -> tuple[int, str]:
    """Return the status and the text of a page; 0 while nobody serves it."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.long
async def test_a_controller_without_a_cluster_serves_its_numbers_lives_and_is_not_ready(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = ("-m", "gpuward", "controller", "--kubeconfig", str(config), "--metrics-port", str(port))
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=asyncio.subprocess.PIPE)
    try:
        await asyncio.to_thread(until, lambda: fetched(port, "/healthz")[0] == 200, "it serves")
        code, says = fetched(port, "/readyz")
        assert (code, says.startswith("not seen yet: nodes, ")) == (503, True)
        code, page = fetched(port, "/metrics")
        assert code == 200
        assert "gpuward_leader 0.0\n" in page
        assert "process_resident_memory_bytes" in page
        assert lint(page.encode()) == ""
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
