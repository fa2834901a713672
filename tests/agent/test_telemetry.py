"""The loop of one server on what its readings show, over pretend ports and on a pretend machine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuward.agent.telemetry import SILENT
from gpuward.model.case import CaseState, Mode
from gpuward.model.happening import What
from gpuward.model.node import EccCounts, NvLink, Remap
from tests.agent.test_standalone import DOUBLE_BIT, DRAIN
from tests.kit.merging import GPU_A, GPU_B, GPU_C
from tests.kit.pretend import At
from tests.kit.pretend_driver import hung
from tests.kit.served import Server
from tests.kit.ward import Ward, until

S = CaseState
PENDING = Remap(pending=True, failed=False)
FAILED = Remap(pending=False, failed=True)
LINKS = tuple(NvLink(link=number, active=True, speed_gb_per_second=26.5) for number in range(4))


def change(server: Server, pci: str = GPU_A, **fields: Any) -> None:
    server.driver.gpus[pci] = replace(server.driver.gpus[pci], **fields)


def soon(server: Server, seconds: float = 1, pci: str = GPU_A, **fields: Any) -> At:
    return At(seconds, lambda: change(server, pci, **fields))


def vanish(server: Server) -> Callable[[], None]:
    def gone() -> None:
        del server.driver.gpus[GPU_A]

    return gone


def ecc(volatile: int | None) -> EccCounts:
    return EccCounts(volatile=volatile, aggregate=volatile)


def observed(server: Server) -> list[str]:
    return [one.rule.split()[0] for one in server.room.written if one.what is What.OBSERVED]


def cases(server: Server) -> dict[str, CaseState]:
    assert server.agent is not None
    assert len({case.gpu for case in server.agent.cases()}) == len(server.agent.cases()), "one case a GPU"
    return {case.gpu: case.state for case in server.agent.cases()}


def all_by(server: Server, road: str) -> None:
    """Let every reading come by this road from now on."""
    true_read = server.driver.read
    server.driver.read = (  # type: ignore[method-assign]  # this server's tools are not there
        lambda deadline_seconds: replace(true_read(deadline_seconds), road=road)
    )


def test_a_pending_remap_is_repaired_once_and_told_once() -> None:
    server = Server()
    server.live(soon(server, remap=PENDING), seconds=800)
    assert cases(server) == {GPU_A: S.CLOSED}
    assert observed(server) == ["other:row_remap_pending"]
    assert server.driver.calls.count("reset") == 1
    assert server.case().level.name == "P1"
    assert server.case().kind == "row_remap_pending"


def test_a_failed_remap_that_stood_before_the_agent_is_isolated_and_waits_for_a_person() -> None:
    server = Server()
    change(server, remap=FAILED)
    server.live(seconds=200)
    assert cases(server) == {GPU_A: S.PARKED}
    assert server.driver.calls[:3] == DRAIN


def test_growth_acts_and_an_old_count_does_not() -> None:
    old = Server()
    change(old, ecc=ecc(3))
    old.live(seconds=200)
    assert cases(old) == {}
    grown = Server()
    change(grown, ecc=ecc(3))
    grown.live(soon(grown, 40, ecc=ecc(None)), soon(grown, 80, ecc=ecc(4)), seconds=200)
    assert cases(grown) == {GPU_A: S.PROBATION}
    assert "from 3 to 4" in grown.room.written[0].because


def test_an_unknown_action_is_told_and_opens_no_case() -> None:
    server = Server()
    server.live(soon(server, recovery_action="Unknown (9)"), seconds=200)
    assert observed(server) == ["other:recovery_action"]
    assert cases(server) == {}


@pytest.mark.parametrize(("action", "state"), [("Reset", S.PROBATION), ("Reboot", S.PARKED), ("None", None)])
def test_what_the_driver_asks_for_is_done_or_said_to_be_due(action: str, state: CaseState | None) -> None:
    server = Server()
    server.live(soon(server, recovery_action=action), seconds=200)
    assert cases(server) == ({} if state is None else {GPU_A: state})


def test_a_missing_gpu_is_lost_after_two_readings() -> None:
    server = Server()
    server.live(At(1, vanish(server)), seconds=50)
    assert cases(server) == {}
    server = Server(mode=Mode.OBSERVE)
    server.live(At(1, vanish(server)), seconds=200)
    assert server.case().kind == "gpu_missing"
    lost = Server()
    lost.driver.troubles = {"persistence off": hung(), "drain": hung()}
    lost.live(At(1, vanish(lost)), seconds=200)
    assert cases(lost) == {GPU_A: S.PARKED}
    assert "reboot the node" in lost.case().due


def test_a_gpu_that_does_not_come_back_from_a_restart_is_missing_also_when_nothing_had_happened() -> None:
    server = Server(mode=Mode.OBSERVE)
    server.live(seconds=50)
    del server.driver.gpus[GPU_A]
    server.live(seconds=100)
    assert server.case().kind == "gpu_missing"


def test_a_gpu_that_we_drained_is_not_missing() -> None:
    server = Server(mode=Mode.ISOLATE)
    server.live(server.at(1, DOUBLE_BIT), seconds=400)
    assert server.driver.drained == {GPU_A}
    assert "other:gpu_missing" not in observed(server)


def test_all_gone_at_once_is_the_driver() -> None:
    server = Server()
    server.live(At(1, server.driver.gpus.clear), seconds=200)
    assert cases(server) == {}
    assert server.warnings[1:] == [SILENT], "the first says what is watched"


def test_the_bus_alone_proves_nothing_missing() -> None:
    server = Server()
    server.live(At(1, lambda: all_by(server, "sysfs")), At(2, vanish(server)), seconds=200)
    assert cases(server) == {}
    assert SILENT in server.warnings


def test_tools_that_fail_three_times_are_said_once_and_no_case() -> None:
    server = Server()

    def heal() -> None:
        del server.driver.troubles["read"]

    server.live(At(1, lambda: server.driver.troubles.update(read=hung())), seconds=70)
    assert server.agent is not None
    assert server.agent.board().driver_trouble == ""
    later(server).live(seconds=300)
    assert server.agent.board().driver_trouble == SILENT
    assert server.warnings.count(SILENT) == 1
    server.live(At(100, heal), seconds=200)
    assert server.agent.board().driver_trouble == ""
    assert cases(server) == {}
    said = [one.because for one in server.room.written if one.what is What.SAID]
    assert said == [SILENT, SILENT, "The driver's tools answer again."], "once a life of the agent"


def test_a_server_without_the_tools_has_none_that_hang() -> None:
    server = Server()
    for pci in server.driver.gpus:
        change(server, pci, uuid=None)
    all_by(server, "sysfs")
    server.live(seconds=300)
    assert server.warnings[1:] == [], "the first says what is watched"


def test_a_link_that_stays_down_is_a_fault_and_one_that_comes_back_is_none() -> None:
    down = (replace(LINKS[0], active=False), *LINKS[1:])
    server = Server(mode=Mode.OBSERVE)
    change(server, links=LINKS)
    server.live(soon(server, 1, links=down), soon(server, 40, links=LINKS), seconds=100)
    assert observed(server) == []
    later(server).live(soon(server, 50, links=()), soon(server, 100, links=down), seconds=300)
    assert observed(server) == ["other:nvlink_down"]
    assert "3 are active, 4 were learned" in server.room.written[0].because


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ISOLATE], ids=["shown", "drained"])
def test_the_links_of_the_peers_of_a_gpu_in_a_case_are_not_judged(mode: Mode) -> None:
    server = Server(mode=mode)
    for pci in server.driver.gpus:
        change(server, pci, links=LINKS)
    down = (replace(LINKS[0], active=False), *LINKS[1:])
    server.live(
        server.at(1, DOUBLE_BIT), soon(server, 5, GPU_B, links=down), soon(server, 5, GPU_C, links=down), seconds=120
    )
    assert set(cases(server)) == {GPU_A}
    assert "other:nvlink_down" not in observed(server)


def test_a_finding_of_the_kernels_case_opens_no_second_one() -> None:
    server = Server()
    server.live(
        server.at(1, DOUBLE_BIT), soon(server, 1, remap=PENDING, ecc=ecc(1), recovery_action="Reset"), seconds=900
    )
    assert cases(server) == {GPU_A: S.CLOSED}
    assert server.driver.calls.count("reset") == 1


def test_a_finding_on_probation_is_a_relapse() -> None:
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PROBATION
    server.live(soon(server, 40, ecc=ecc(1)), seconds=100)
    assert server.case().state is S.PARKED


def later(server: Server) -> Server:
    """Forget the script, so that its next life begins with nothing that happened before."""
    server.script.events.clear()
    return server


def test_a_released_finding_stays_released_over_a_restart_until_it_is_seen_again() -> None:
    server = Server(mode=Mode.ISOLATE)
    change(server, remap=FAILED)
    server.live(At(60, lambda: server.release(GPU_A)), seconds=200)
    assert cases(server) == {GPU_A: S.CLOSED}
    later(server).live(seconds=200)
    assert cases(server) == {GPU_A: S.CLOSED}
    later(server).live(soon(server, 40, remap=Remap(pending=False, failed=False)), seconds=100)
    change(server, remap=FAILED)
    later(server).live(seconds=200)
    assert server.agent is not None
    assert [case.state for case in server.agent.cases()] == [S.CLOSED, S.PARKED]


def test_what_the_driver_takes_back_before_anything_was_done_is_withdrawn() -> None:
    server = Server(mode=Mode.OBSERVE)
    server.live(soon(server, recovery_action="Drain P2P"), soon(server, 100, recovery_action="None"), seconds=200)
    assert cases(server) == {GPU_A: S.WITHDRAWN}
    assert "taken back" in server.case().because


def test_a_state_from_before_there_were_findings_is_used() -> None:
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    saved = dict(server.cases.load() or {})
    server.cases.save({name: saved[name] for name in ("cases", "memory", "history")})
    server.live(seconds=700)
    assert cases(server) == {GPU_A: S.CLOSED}


@pytest.mark.xdist_group("agent")
def test_a_pretend_machine_with_no_kernel_line_is_repaired_by_its_readings(ward: Ward) -> None:
    with ward.agent("repair"):
        until(lambda: ward.ask("status")[0] == 0, "the first reading is taken")
        ward.machine.change_gpu(1, remap_pending=True)
        until(lambda: "closed" in ward.moves(), "the GPU returns")
        until(lambda: ward.ask("status")[0] == 0, "nothing is open")
    assert ward.machine.state().gpus[1].resets == 1
    assert not ward.machine.state().gpus[1].remap_pending
    assert [one["rule"] for one in ward.journal() if one["what"] == "observed"] == [
        "other:row_remap_pending remap-pending"
    ]
