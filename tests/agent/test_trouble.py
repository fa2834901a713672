"""The agent in trouble: a full disk, a state folder that may only be read, clocks that are set, a machine that slept.

It is said, and nothing is lost.
"""

import shutil
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from gpuward.agent.steady import Steady
from gpuward.model.case import CaseState, EffectKind, Mode
from gpuward.model.happening import Happening, What
from gpuward.ports import Refused
from tests.kit.merging import GPU_A
from tests.kit.pretend import START, At, PretendClock
from tests.kit.served import Server
from tests.kit.ward import Ward, until
from tests.kit.watching import xid_text

S = CaseState
DOUBLE_BIT = xid_text(48, "An uncorrectable double bit error (DBE) has been detected", pci=GPU_A)
HOUR = 3600.0


def said(server: Server) -> list[str]:
    return [one.because for one in server.room.written if one.what is What.SAID]


# --- disks ------------------------------------------------------------------------------------------------------------


def test_while_the_disk_is_full_nothing_is_done_and_afterwards_all_is() -> None:
    server = Server(mode=Mode.ISOLATE)

    def full() -> None:
        server.cases.broken = server.place.broken = True

    def roomy() -> None:
        server.cases.broken = server.place.broken = False

    def still_untouched() -> None:
        assert "drain" not in server.driver.calls, "what cannot be saved is not done"

    server.live(At(0.5, full), server.at(1, DOUBLE_BIT), At(10, still_untouched), At(10.5, roomy), seconds=30)
    assert server.case().state is S.PARKED
    assert server.driver.calls.count("drain") == 1
    warned = [words for words in server.warnings if "nothing is done" in words]
    assert len(warned) == 1, "it is said once, not every round"
    assert any("double bit" in one.because for one in server.room.written), "the line was told meanwhile"
    assert next(one.after for one in server.room.written if one.what is What.MOVED) == "fenced"


def test_a_journal_that_cannot_be_written_is_said_and_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(mode=Mode.ISOLATE)

    def refuse(_happening: Happening) -> None:
        raise Refused("the journal cannot be written (No space left on device); make room for it")

    monkeypatch.setattr(server.room, "write", refuse)
    server.live(server.at(1, DOUBLE_BIT), seconds=30)
    assert server.case().state is S.PARKED
    assert any("make room" in words for words in server.warnings)


@pytest.mark.real
def test_a_real_disk_that_fills_up_keeps_the_agent_from_acting_and_not_from_telling(ward: Ward, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        ward.state = small / "state"
        with ward.agent("isolate") as agent:
            filler = small / "filler"
            with filler.open("wb", buffering=0) as out, suppress(OSError):
                while True:
                    out.write(bytes(1024))
            ward.machine.inject(1, 48)
            assert agent.stderr is not None
            assert any("nothing is done" in agent.stderr.readline() for _ in range(20))
            assert not ward.machine.state().gpus[1].drained
            filler.unlink()
            until(lambda: ward.machine.state().gpus[1].drained, "with room again it acts")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)
        shutil.rmtree(small, ignore_errors=True)


def test_a_state_folder_that_cannot_be_written_is_refused_in_a_sentence(ward: Ward) -> None:
    for folder in ("/proc/gpuward", str(ward.machine.log)):
        ward.state = Path(folder)
        done = ward.ended("observe")
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        assert folder in done.stderr


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [5 * HOUR, -5 * HOUR], ids=["ahead", "back"])
def test_a_clock_that_is_set_neither_ends_nor_prolongs_a_probation(step: float) -> None:
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PROBATION
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), At(100, lambda: server.clock.step(step)), seconds=500)
    assert server.case().state is S.PROBATION, "it is on probation for 600 s, whatever the clock says"
    del server.script.events[1:]  # the step is over
    server.live(seconds=200)
    assert server.case().state is S.CLOSED
    (words,) = [one for one in said(server) if one.startswith("The clock")]
    assert "18000 s" in words
    assert ("set back" in words) is (step < 0)


def test_a_machine_that_slept_goes_on_where_it_was() -> None:
    server = Server()

    def sleep() -> None:
        # The time since boot does not count what was slept through.
        server.clock.step(8 * HOUR)

    server.live(server.at(1, DOUBLE_BIT), At(30, sleep), seconds=700)
    assert server.case().state is S.CLOSED
    assert server.driver.calls.count("reset") == 1
    assert any("slept" in one for one in said(server))


def test_a_clock_that_is_set_in_the_middle_of_a_repair_breaks_no_law() -> None:
    for step in (HOUR, -HOUR):
        server = Server()
        server.driver.held[0] = []
        steps = [At(second + 0.3, partial(server.clock.step, step)) for second in range(1, 12)]
        server.live(*steps, server.at(12.5, DOUBLE_BIT), seconds=700)
        assert server.case().state is S.CLOSED
        assert not [one for one in server.room.written if one.what is What.LAW]
        kinds = [effect.kind for effect in server.case().effects]
        assert kinds.count(EffectKind.RESET) == 1


def test_a_release_is_heard_however_far_the_clock_was_set_back() -> None:
    server = Server(mode=Mode.ISOLATE)
    server.live(server.at(1, DOUBLE_BIT), At(20, lambda: server.clock.step(-400 * 24 * HOUR)), seconds=30)
    assert server.case().state is S.PARKED
    del server.script.events[1:]  # the step is over
    server.live(At(1, lambda: server.release(GPU_A)), seconds=10)
    assert server.case().state is S.CLOSED
    assert server.driver.drained == set()


def test_a_clock_that_was_set_while_no_agent_ran_is_noticed_by_the_next() -> None:
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), seconds=60)
    assert server.case().state is S.PROBATION
    server.clock.wait(5)
    server.clock.step(-30 * 24 * HOUR)
    server.live(seconds=300)
    assert server.case().state is S.PROBATION
    assert any("set back by 2592000 s" in one for one in said(server))
    server.live(seconds=400)
    assert server.case().state is S.CLOSED


@pytest.mark.parametrize(
    ("wall", "since_boot", "jump"),
    [(1.0, 1.0, 0.0), (3.5, 2.0, 0.0), (3601.0, 1.0, 3600.0), (-3599.0, 1.0, -3600.0), (60.0, 60.0, 0.0)],
)
def test_a_jump_is_what_the_two_clocks_disagree_by(wall: float, since_boot: float, jump: float) -> None:
    clock = PretendClock(now=START)
    steady = Steady(clock)
    assert steady.jump_seconds() == 0.0
    clock.wait(since_boot)
    clock.step(wall - since_boot)
    assert steady.jump_seconds() == pytest.approx(jump)
    assert steady.jump_seconds() == 0.0, "each jump is told once"
