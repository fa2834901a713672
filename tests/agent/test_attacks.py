"""What an attacker tried on the agent of a server, and what must come of it: no harm, no lie, no end of the agent."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpuward.agent.board import state_of
from gpuward.agent.sight import Seen, remember
from gpuward.agent.whose import hosts_of
from gpuward.model.case import CaseState, Effect, EffectKind, Mode, Outcome
from gpuward.model.happening import What
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend import At
from tests.kit.pretend_driver import a_holder, a_reading, hung
from tests.kit.served import Server
from tests.kit.ward import Ward, until
from tests.kit.watching import xid_text

S, E, Out = CaseState, EffectKind, Outcome
DOUBLE_BIT = xid_text(48, "An uncorrectable double bit error (DBE) has been detected", pci=GPU_A)
agents = pytest.mark.xdist_group("agent")


# --- what status says ---------------------------------------------------------------------------------------------


def seen(*, shown: bool, work: bool = True) -> Seen:
    reading = a_reading(GPU_A, 0)
    return Seen(
        was=remember(reading),
        reading=reading if shown else None,
        read=True,
        holders=(a_holder(),) if work else (),
        drained=True,
        lost=False,
        display=False,
    )


@pytest.mark.parametrize(
    ("outcomes", "shown", "work", "state"),
    [
        ([(E.DRAIN, Out.ASKED)], True, True, "undrained"),
        ([(E.DRAIN, Out.FAILED)], True, True, "undrained"),
        ([(E.DRAIN, Out.FAILED)], False, True, "draining"),
        ([(E.DRAIN, Out.REFUSED)], True, False, "undrained"),
        ([(E.DRAIN, Out.DONE)], False, True, "draining"),
        ([(E.DRAIN, Out.DONE)], False, False, "idle"),
        ([(E.DRAIN, Out.DONE), (E.UNDRAIN, Out.DONE)], True, False, "undrained"),
        ([(E.DRAIN, Out.DONE), (E.UNDRAIN, Out.FAILED)], False, False, "idle"),
    ],
)
def test_draining_and_idle_are_said_only_of_a_gpu_that_is_drained(
    *, outcomes: list[tuple[EffectKind, Outcome]], shown: bool, work: bool, state: str
) -> None:
    effects = tuple(Effect(number, kind, 0.0, outcome) for number, (kind, outcome) in enumerate(outcomes, 1))
    case = a_case(state=S.EVACUATING, effects=effects)
    assert state_of(case, seen(shown=shown, work=work)) == state


@agents
def test_a_drain_that_hangs_is_never_called_done(ward: Ward) -> None:
    ward.machine.hang("drain")
    with ward.agent("isolate"), ward.machine.hold(1, "train"):
        ward.machine.inject(1, 48)
        until(lambda: ward.ask("status")[1]["gpus"][1]["case"], "a case is open")
        gpu = ward.ask("status")[1]["gpus"][1]
        assert gpu["state"] == "undrained"
        assert "is drained" not in gpu["because"]


@agents
def test_once_shows_what_a_reading_shows_and_exits_with_1(ward: Ward) -> None:
    ward.machine.change_gpu(1, remap_failed=True)
    done = ward.ended("observe", "--once", "--json")
    gpu = json.loads(done.stdout)["gpus"][1]
    assert (done.returncode, gpu["state"]) == (1, "faulty")
    assert [(one["kind"], one["level"]) for one in gpu["findings"]] == [("row_remap_failure", "P0")]
    words = ward.ended("observe", "--once").stdout
    assert "reading P0" in words


@agents
def test_a_gpu_that_somebody_drained_before_the_first_agent_came_is_shown_as_drained(ward: Ward) -> None:
    ward.machine.change_gpu(1, drained=True, persistence=False)
    done = ward.ended("observe", "--once", "--json")
    assert [one["state"] for one in json.loads(done.stdout)["gpus"]] == ["active", "drained", "active", "active"]
    assert done.returncode == 1
    with ward.agent("repair"):
        until(lambda: ward.ask("status")[1]["gpus"][1]["state"] == "drained", "it is drained by somebody else")
        time.sleep(3)
        assert ward.moves() == [], "and that is no fault"


@agents
def test_a_gpu_that_the_tools_never_showed_is_unknown_and_not_missed(ward: Ward) -> None:
    listed = ward.machine.proc / "driver/nvidia/gpus/0000:f1:00.0"
    listed.mkdir()
    listed.joinpath("information").write_text("GPU UUID: \t GPU-11111111-2222\nDevice Minor: \t 9\n", "utf-8")
    with ward.agent("repair"):
        until(lambda: len(ward.ask("status")[1]["gpus"]) == 5, "it is listed")
        time.sleep(3)
        assert ward.ask("status")[1]["gpus"][4]["state"] == "unknown"
    assert ward.moves() == []


# --- whose lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "shown", "node", "elsewhere"),
    [
        (["gpu-1"], ["gpu-1"], "gpu-1", False),
        (["gpu-1"], ["gpu-1.example.com"], "gpu-1.example.com", False),
        (["gpu-1"], ["gpu-1", "gpu-2"], "gpu-2", True),
        (["gpu-1"], ["gpu-1", "gpu-2"], "GPU-1", False),
        (["k8s-name"], ["gpu-1"], "gpu-1", False),
        (["k8s-name"], ["gpu-1", "gpu-2"], "gpu-1", True),
        (["gpu-1"], ["gpu-1"], None, False),
        ([None, ""], ["gpu-1", "gpu-2"], "gpu-2", True),
    ],
)
def test_whose_a_line_is(*, ours: list[str | None], shown: list[str], node: str | None, elsewhere: bool) -> None:
    assert hosts_of(ours, shown).is_elsewhere(node) is elsewhere


@agents
def test_a_line_of_another_machine_never_acts_here(ward: Ward) -> None:
    with ward.agent("repair") as agent:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        text = f"NVRM: Xid (PCI:{ward.machine.state().gpus[1].pci}): 48, pid=1, name=x, DBE"
        with ward.machine.log.open("a", encoding="utf-8") as log:
            log.write(f"{stamp} gpu-pretend-1 kernel: something of this machine\n")
            log.write(f"{stamp} other-host kernel: {text}\n")
        assert agent.stderr is not None
        assert any("lines of other-host" in agent.stderr.readline() for _ in range(20))
        time.sleep(1)
        assert [one for one in ward.journal() if "case" in one] == []
        ward.machine.inject(1, 48)
        until(lambda: "closed" in ward.moves(), "this machine's own fault acts")
    assert ward.machine.state().gpus[1].resets == 1


def test_a_drill_is_told_apart_in_the_journal_and_in_no_other_story() -> None:
    server = Server(mode=Mode.OBSERVE)

    def drill() -> None:
        assert server.agent is not None
        server.agent.drill(79, GPU_A, Mode.ISOLATE)

    server.live(At(1, drill), seconds=10)
    written = [one for one in server.room.written if one.what is not What.SAID or one.case]
    assert written
    for one in written:
        assert ".drill." in one.case
        assert one.because.startswith(("Drill: ", "drill: ")) or not one.because


# --- lines that lie about time and place ----------------------------------------------------------------------------


def test_a_line_from_the_future_is_no_relapse_after_the_repair() -> None:
    server = Server()
    server.clock.step(-7200)  # the log is two hours ahead of this clock
    line = server.at(1, DOUBLE_BIT)
    server.clock.step(0)
    server.live(line, seconds=700)
    assert server.case().state is S.CLOSED
    assert server.driver.calls.count("reset") == 1


def test_addresses_that_the_server_lacks_use_up_neither_brake_nor_numbers() -> None:
    server = Server(mode=Mode.ISOLATE)
    ghosts = [
        server.at(1 + number / 10, xid_text(79, "GPU has fallen off the bus.", pci=f"0000:{number:02x}:00"))
        for number in range(1, 25)
    ]
    server.live(*ghosts, server.at(6, DOUBLE_BIT), seconds=30)
    assert GPU_A in server.driver.drained
    assert server.agent is not None
    cases = server.agent.cases()
    assert sum(case.gpu not in server.driver.gpus for case in cases) <= 8
    board = server.agent.board()
    assert [one.was.pci for one in board.gpus][: len(server.driver.gpus)] == sorted(server.driver.gpus)
    assert board.gpu_named("0") == min(server.driver.gpus)
    assert board.gpu_named(f"0000{GPU_B}.0".upper()) == GPU_B
    assert board.gpu_named(f"{GPU_B}.0") == GPU_B


def test_persistence_mode_that_cannot_be_turned_off_is_what_is_told() -> None:
    server = Server()
    server.driver.troubles["persistence off"] = hung()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PARKED
    assert "reset" not in server.driver.calls, "it would be in vain"
    assert "did not answer" in server.case().due


# --- outputs and files ------------------------------------------------------------------------------------------------


@agents
@pytest.mark.parametrize("gone", ["closed", "full"])
def test_an_agent_whose_output_nobody_reads_works_on(ward: Ward, gone: str) -> None:
    out: Any = subprocess.PIPE if gone == "closed" else Path("/dev/full").open("w")  # noqa: SIM115  closed below
    with subprocess.Popen(
        ward.words("isolate"), env=ward.machine.environment(), stdout=out, stderr=subprocess.PIPE, text=True
    ) as agent:
        try:
            assert agent.stderr is not None
            assert " in mode " in agent.stderr.readline()
            if agent.stdout is not None:
                agent.stdout.close()
            ward.machine.inject(1, 48)
            until(lambda: "parked" in ward.moves(), "the GPU is dealt with")
            assert ward.machine.state().gpus[1].drained
            assert agent.poll() is None
        finally:
            agent.kill()
    if gone == "full":
        out.close()


@agents
@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_a_journal_that_is_no_file_is_told_and_hangs_nobody(ward: Ward, kind: str, tmp_path: Path) -> None:
    ward.state.mkdir()
    journal = ward.state / "journal.jsonl"
    victim = tmp_path / "victim"
    victim.write_text("mine\n", "utf-8")
    if kind == "fifo":
        os.mkfifo(journal)
    else:
        journal.symlink_to(victim)
    with ward.agent("isolate"):
        ward.machine.inject(1, 48)
        until(lambda: ward.machine.state().gpus[1].drained, "the GPU is dealt with")
    assert victim.read_text("utf-8") == "mine\n"


@pytest.mark.parametrize("answer", [b"null\n", b"{}\n", b'{"gpus": 5}\n', b"[" * 20000 + b"\n", b"", b"\xff\xfe\n"])
def test_an_answer_that_nobody_understands_is_said_so(ward: Ward, answer: bytes) -> None:
    ward.state.mkdir()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(ward.state / "agent.sock"))
        door.listen(8)

        def serve() -> None:
            for _ in range(2):
                caller, _ = door.accept()
                with caller:
                    caller.recv(65536)
                    caller.sendall(answer)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        for words in (["status"], ["why", "0"]):
            done = subprocess.run(
                [sys.executable, "-m", "gpuward", *words, "--state-dir", str(ward.state)],
                env=ward.machine.environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 3, done.stderr
            assert "Traceback" not in done.stderr
            assert "understood" in done.stderr
