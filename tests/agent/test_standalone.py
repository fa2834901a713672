"""The loop of one server over pretend ports: what the mission says happens, in order, and nothing is left behind."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.agent.board import board_object
from gpuward.model.case import CaseState, Mode
from gpuward.model.node import EccCounts, Pcie, Remap
from gpuward.ports import Refused
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend import (
    At,
)
from tests.kit.pretend_driver import a_holder, hung
from tests.kit.served import Server
from tests.kit.watching import xid_text

S = CaseState
SERVICE = "nvidia-dcgm.service"
LOST = xid_text(79, "GPU has fallen off the bus.", pci=GPU_A)
DOUBLE_BIT = xid_text(48, "An uncorrectable double bit error (DBE) has been detected", pci=GPU_A)
LONE = xid_text(45, "Ch 00000008", pci=GPU_A)
DRAIN = ["describe", "persistence off", "drain"]
REPAIR = ["describe", f"stop {SERVICE}", "undrain", "reset", f"start {SERVICE}", "persistence on"]


def test_a_lost_gpu_is_drained_and_parked_for_a_person() -> None:
    server = Server()
    server.live(server.at(1, LOST), seconds=30)
    case = server.case()
    assert case.state is S.PARKED
    assert "reboot the node" in case.due
    assert server.driver.calls == ["persistence off", "drain"], "a lost GPU is not described, nobody would answer"
    assert [name for _, name in server.room.kept] == ["01-holders.txt"]


def test_an_urgent_fault_goes_through_to_return() -> None:
    server = Server()
    server.driver.held[0] = [a_holder(10, "nv-hostengine", service=SERVICE)]
    server.driver.running = {SERVICE}
    server.live(server.at(1, DOUBLE_BIT), seconds=700)
    assert server.driver.calls == [*DRAIN, *REPAIR]
    assert server.case().state is S.CLOSED
    assert server.driver.gpus[GPU_A].persistence is True
    assert server.driver.running == {SERVICE}
    assert server.driver.drained == set()
    assert server.states() == [
        "fenced",
        "saving",
        "evacuating",
        "vacated",
        "repairing",
        "verifying",
        "probation",
        "closed",
    ]


def test_the_kernel_log_is_evidence_before_a_reset() -> None:
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), seconds=30)
    names = [name for _, name in server.room.kept]
    assert "03-kernel.log" in names
    assert "03-nvidia-smi-q.txt" in names


def test_work_runs_out_before_the_reset() -> None:
    server = Server()
    server.driver.held[0] = [a_holder()]
    server.live(server.at(1, DOUBLE_BIT), seconds=100)
    assert server.driver.calls == DRAIN
    assert "train (pid 4321)" in server.case().because
    server.driver.held.clear()
    server.live(seconds=10)
    assert server.case().state is S.PROBATION


def test_a_lone_45_waits_for_its_process_and_is_not_drained_meanwhile() -> None:
    server = Server()
    server.driver.held[0] = [a_holder()]
    server.live(server.at(1, LONE), seconds=100)
    assert server.case().state is S.FENCED
    assert "drain" not in server.driver.calls
    server.driver.held.clear()
    server.live(seconds=10)
    assert server.driver.calls[:3] == DRAIN
    assert server.case().state is S.PROBATION


@pytest.mark.parametrize(("mode", "calls"), [(Mode.OBSERVE, []), (Mode.ISOLATE, DRAIN)])
def test_a_lesser_mode_does_less(mode: Mode, calls: list[str]) -> None:
    server = Server(mode=mode)
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.driver.calls == calls
    assert server.case().state is (S.SUSPECT if mode is Mode.OBSERVE else S.PARKED)


def test_a_record_that_the_kernel_did_not_write_does_nothing() -> None:
    server = Server()
    server.live(server.at(1, LOST, facility="user"), seconds=60)
    assert server.agent is not None
    assert server.agent.cases() == ()
    accepted = Server(options=("accept_user_records",))
    accepted.live(accepted.at(1, LOST, facility="user"), seconds=60)
    assert accepted.driver.drained == {GPU_A}


def test_an_old_line_acts_only_when_it_is_confirmed() -> None:
    old = Server()
    old.live(old.at(-900, DOUBLE_BIT), seconds=60)
    assert old.case().state is S.WITHDRAWN
    assert "older than this agent" in old.case().because
    assert old.driver.calls == []
    confirmed = Server()
    gpu = confirmed.driver.gpus[GPU_A]
    confirmed.driver.gpus[GPU_A] = replace(gpu, recovery_action="Reset")
    confirmed.live(confirmed.at(-900, DOUBLE_BIT), seconds=60)
    assert confirmed.driver.calls[:3] == DRAIN


def test_an_old_79_of_a_gpu_that_is_gone_acts() -> None:
    server = Server()
    del server.driver.gpus[GPU_A]
    server.driver.troubles["persistence off"] = Refused("no such GPU")
    server.driver.troubles["drain"] = Refused("no such GPU")
    server.live(server.at(-900, LOST), seconds=60)
    assert server.case().state is S.PARKED


def test_a_drain_that_hangs_is_said_and_the_case_goes_on() -> None:
    server = Server()
    server.driver.troubles["drain"] = hung()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    failed = [one for one in server.room.written if one.outcome == "failed"]
    assert "did not answer" in failed[0].because
    assert server.case().state is S.PROBATION


def test_a_reset_that_fails_parks_the_gpu_drained_with_services_running() -> None:
    server = Server()
    server.driver.held[0] = [a_holder(10, "nv-hostengine", service=SERVICE)]
    server.driver.running = {SERVICE}
    server.driver.troubles["reset"] = hung()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PARKED
    assert "did not answer" in server.case().due
    assert server.driver.drained == {GPU_A}
    assert server.driver.running == {SERVICE}


def test_no_evidence_no_reset() -> None:
    server = Server()
    server.room.broken = True
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PARKED
    assert "disk is full" in server.case().because
    assert "reset" not in server.driver.calls


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"uuid": "GPU-other"}, "not back with its UUID"),
        ({"lost": True}, "not back with its UUID"),
        ({"ecc": EccCounts(volatile=1, aggregate=1)}, "uncorrectable errors"),
        ({"remap": Remap(pending=True, failed=False)}, "row remap"),
        ({"remap": Remap(pending=False, failed=True)}, "row remap"),
        ({"recovery_action": "Reset"}, "recovery action"),
        ({"pcie": Pcie(generation=5, generation_max=5, width=8, width_max=16)}, "narrower"),
    ],
)
def test_each_part_of_the_proof_can_fail(change: dict[str, Any], sentence: str) -> None:
    server = Server()
    true_reset = server.driver.reset

    def reset(pci: str, deadline_seconds: float, *, key: str) -> None:
        true_reset(pci, deadline_seconds, key=key)
        server.driver.gpus[pci] = replace(server.driver.gpus[pci], **change)

    server.driver.reset = reset  # type: ignore[method-assign]  # this server's card comes back ill
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PARKED
    assert sentence in server.case().due


def test_the_users_check_is_asked_after_the_reset_and_can_fail() -> None:
    server = Server()

    def check(pci: str, uuid: str | None) -> None:
        asked.append((pci, uuid, "reset" in server.driver.calls))
        raise Refused("the check command nccl-test ended with exit code 1 (slow)")

    asked: list[tuple[str, str | None, bool]] = []
    server.check = check
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert asked == [(GPU_A, server.driver.gpus[GPU_A].uuid, True)]
    assert server.case().state is S.PARKED
    assert "nccl-test ended with exit code 1" in server.case().due
    assert server.driver.drained == {GPU_A}


def test_a_display_is_left_alone() -> None:
    server = Server()
    server.driver.gpus[GPU_A] = replace(server.driver.gpus[GPU_A], display_active=True)
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PARKED
    assert server.driver.calls == []


def test_the_third_of_three_gpus_is_held_by_the_brake() -> None:
    server = Server(mode=Mode.ISOLATE)
    server.live(server.at(1, LOST), server.at(2, xid_text(79, "GPU has fallen off the bus.", pci=GPU_B)), seconds=60)
    assert server.driver.drained == {GPU_A}
    assert "Held by the brake" in server.case(GPU_B).because


def test_the_fourth_reset_of_a_gpu_within_a_day_is_a_persons() -> None:
    server = Server()
    for _ in range(4):
        server.live(server.at(1, DOUBLE_BIT), seconds=2000)
    assert server.driver.calls.count("reset") == 3
    assert server.agent is not None
    assert [case.state for case in server.agent.cases()] == [S.CLOSED] * 3 + [S.PARKED]
    assert "3 times within a day" in server.agent.cases()[-1].due


def test_a_release_undoes_everything() -> None:
    server = Server(mode=Mode.ISOLATE)
    server.live(server.at(1, DOUBLE_BIT), seconds=30)
    assert server.driver.drained == {GPU_A}
    server.live(At(1, lambda: server.release(GPU_A)), seconds=10)
    assert server.case().state is S.CLOSED
    assert server.driver.drained == set()
    assert server.driver.gpus[GPU_A].persistence is True


def test_nothing_is_done_that_cannot_be_saved() -> None:
    server = Server()
    server.live(At(0, lambda: setattr(server.cases, "broken", True)), server.at(1, DOUBLE_BIT), seconds=30)
    assert server.driver.calls == []
    assert any("cannot be saved" in warning for warning in server.warnings)
    server.cases.broken = False
    server.live(seconds=30)
    assert server.case().state is S.PROBATION


def test_a_restart_at_any_moment_ends_the_same_with_nothing_left_behind() -> None:
    def whole() -> Server:
        server = Server()
        server.driver.held[0] = [a_holder(10, "nv-hostengine", service=SERVICE)]
        server.driver.running = {SERVICE}
        return server

    reference = whole()
    reference.live(reference.at(1, DOUBLE_BIT), seconds=700)
    moments = [(call, after) for call in [*DRAIN, *REPAIR] for after in (False, True)]
    for call, after in moments[:-1]:  # nothing follows the last call
        server = whole()
        _kill_at(server, call, after=after)
        with pytest.raises(_Killed):
            server.live(server.at(1, DOUBLE_BIT), seconds=700)
        server.live(seconds=700)
        assert server.case().state is S.CLOSED, (call, after)
        assert server.driver.drained == set()
        assert server.driver.running == {SERVICE}
        assert server.driver.gpus[GPU_A].persistence is True


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ISOLATE])
def test_an_agent_killed_before_a_reset_does_not_reset_in_a_lesser_mode(mode: Mode) -> None:
    server = Server()
    _kill_at(server, "reset", after=False)
    with pytest.raises(_Killed):
        server.live(server.at(1, DOUBLE_BIT), seconds=60)
    server.mode = mode
    server.live(seconds=60)
    assert "reset" not in server.driver.calls
    assert server.case().state is S.PARKED
    assert f"mode {mode} does not allow it" in server.case().because
    assert server.driver.drained == ({GPU_A} if mode is Mode.ISOLATE else set())


def test_a_drain_that_is_refused_leaves_persistence_mode_as_it_was() -> None:
    server = Server(mode=Mode.ISOLATE)
    server.driver.troubles["drain"] = Refused("in use by another client")
    server.driver.held[0] = [a_holder()]
    server.live(server.at(1, DOUBLE_BIT), seconds=30)
    assert server.driver.gpus[GPU_A].persistence is True
    assert server.agent is not None
    board = board_object(server.agent.board())
    assert [gpu["state"] for gpu in board["gpus"]] == ["undrained", "active", "active"]
    server.live(At(1, lambda: server.release(GPU_A)), seconds=10)
    assert server.case().state is S.CLOSED
    assert server.driver.gpus[GPU_A].persistence is True


def test_the_same_xid_again_on_probation_parks_the_gpu() -> None:
    server = Server()
    timeout = xid_text(119, "Timeout after 6s of waiting for RPC response from GPU0 GSP!", pci=GPU_A)
    server.live(server.at(1, timeout), server.at(60, timeout), seconds=120)
    assert server.case().state is S.PARKED
    assert "failed again" in server.case().because


class _Killed(BaseException):
    """The agent ended at once."""


def _kill_at(server: Server, moment: str, *, after: bool) -> None:
    """End the agent once, right before or after a call of the driver."""
    true_note = server.driver._note  # noqa: SLF001  the place where every call passes
    killed: list[str] = []

    def note(call: str) -> None:
        if call == moment and not killed and not after:
            killed.append(call)
            raise _Killed
        true_note(call)
        if moment in server.driver.calls[:-1] and not killed and after:
            killed.append(call)
            raise _Killed

    server.driver._note = note  # type: ignore[method-assign]  # noqa: SLF001  as above
