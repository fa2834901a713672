"""`gpuward qualify` as a real process on a pretend machine: what it finds, what it refuses, and that nothing stays."""

import json
import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuward.adapters.lock import FolderLock
from gpuward.adapters.smi import Smi
from gpuward.adapters.store import JsonFile
from gpuward.adapters.systemd import Systemd
from gpuward.agent.unfinished import Undoing, undo_unfinished
from gpuward.isolation.packed import pack_case
from gpuward.model.qualified import BELIEFS, BY_ID, read_qualified
from gpuward.sim.machines import machine as machines
from tests.kit.lives import a_case
from tests.kit.qualifying import UNIT, Server

pytestmark = pytest.mark.long

CHANGES = 11
"""How many calls of a tool change something, or ask for it, in a whole qualify."""


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return how to build a server: two H100 unless told, and a known service on them."""
    built: list[Server] = []

    def make(model: str = "H100", *, mig: bool = False) -> Server:
        machine = machines.build(tmp_path / "machine", model, count=2, mig=mig)
        machine.change(root=True)
        machine.service(UNIT, "nv-hostengine")
        built.append(Server(machine, tmp_path / "state"))
        return built[-1]

    yield make
    for server in built:
        server.machine.end_services()


@pytest.fixture
def server(build: Callable[..., Server]) -> Server:
    return build()


def test_an_idle_gpu_is_tried_and_left_as_it_was(server: Server) -> None:
    before = server.gpus()
    done = server.run("1", "--yes")
    assert done.returncode == 0, done.stderr
    for belief in BELIEFS:
        assert f"true      {'needed' if belief.needed else '':<8}{belief.id}" in done.stdout
    assert "qualified: on NVIDIA H100 80GB HBM3 with driver 590.48.01" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert server.gpus() == before
    assert [gpu.resets for gpu in server.machine.state().gpus] == [0, 1]
    assert server.machine.runs(UNIT)
    assert f"started again: {UNIT}" in done.stderr
    assert server.kept("qualifying.json") == {}
    saved = server.kept("qualified.json")
    assert read_qualified(saved).knows("NVIDIA H100 80GB HBM3", "590.48.01")
    assert saved["qualifications"][0]["uuid"] == before[1].uuid


def test_a_mode_that_was_off_stays_off_and_is_no_obstacle(server: Server) -> None:
    server.machine.change_gpu(1, persistence=False)
    before = server.gpus()
    found = server.found("1")
    assert found.pop("drain-persistence") is None
    assert set(found.values()) == {True}
    assert server.gpus() == before


@pytest.mark.parametrize("belief", sorted(set(BY_ID) - {"drain-lifts", "persistence-returns", "reset-links"}))
def test_each_belief_can_be_found_false(server: Server, belief: str) -> None:
    server.machine.set(belief, False)  # noqa: FBT003  read as set(belief, False)
    if belief == "reset-takes":
        server.machine.change_gpu(1, ecc_volatile=1)
    before = server.gpus()
    done = server.run("1", "--yes", "--json")
    answer = json.loads(done.stdout)
    found = {one["id"]: one["holds"] for one in answer["beliefs"]}
    assert set(found) == set(BY_ID)
    # A drained GPU that the tool shows, it also resets.
    follows = ["reset-not-drained"] if belief == "drain-hides" else []
    assert [name for name, holds in found.items() if holds is False] == [belief, *follows]
    assert done.returncode == (1 if BY_ID[belief].needed else 0)
    assert answer["qualified"] is (done.returncode == 0)
    assert server.machine.runs(UNIT)
    assert server.gpus() == before


def test_a_persistence_mode_that_does_not_come_back_is_told_and_tried_again(server: Server) -> None:
    before = server.gpus()
    server.machine.set("persistence-returns", False)  # noqa: FBT003  read as set(belief, False)
    done = server.run("1", "--yes")
    assert done.returncode == 1
    assert "not qualified" in done.stdout
    assert "persistence-returns" in done.stdout.splitlines()[-1]
    server.machine.set("persistence-returns", True)  # noqa: FBT003  as above
    again = server.run("0", "--yes")
    assert again.returncode == 0
    assert "persistence mode of GPU 0000:18:00 is on again" in again.stderr
    assert server.gpus() == before


def test_a_drain_that_cannot_be_lifted_is_said_and_kept_until_it_is(server: Server) -> None:
    before = server.gpus()
    server.machine.set("drain-lifts", False)  # noqa: FBT003  read as set(belief, False)
    done = server.run("1", "--yes")
    assert done.returncode == 3
    assert "the drain of GPU 0000:18:00 could not be lifted" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (server.state / "qualified.json").exists()
    refused = server.run("0", "--yes")
    assert refused.returncode == 3
    assert "cannot be undone" in refused.stderr
    server.machine.set("drain-lifts", True)  # noqa: FBT003  as above
    assert server.run("0", "--yes").returncode == 0
    assert server.gpus() == before


def _lose(server: Server) -> None:
    if shutil.which("cc"):
        server.machine.nvml()
    server.machine.inject(1, 79)


def _drain(server: Server) -> None:
    server.machine.change_gpu(1, persistence=False, drained=True)


def _case(server: Server) -> None:
    store = JsonFile(str(server.state / "cases.json"))
    store.save({"cases": [pack_case(a_case(gpu="0000:18:00"))], "history": []})


REFUSALS: dict[str, tuple[Callable[[Server], object], str]] = {
    "lost": (_lose, "answer"),
    "display": (lambda server: server.machine.change_gpu(1, display=True), "drives a display"),
    "drained": (_drain, "is drained already"),
    "recovery": (lambda server: server.machine.change_gpu(1, recovery=1), "asks for a recovery"),
    "remap": (lambda server: server.machine.change_gpu(1, remap_pending=True), "row remap is pending"),
    "not root": (lambda server: server.machine.change(root=False), "run as root"),
    "case": (_case, "open case"),
    "driver": (lambda server: server.machine.change(loaded=False), "load"),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_a_gpu_that_must_be_left_alone_is(server: Server, why: str) -> None:
    makes, words = REFUSALS[why]
    makes(server)
    before = server.machine.state()
    done = server.run("1", "--yes")
    assert done.returncode == 3
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert server.machine.state() == before
    assert server.machine.runs(UNIT)
    assert not (server.state / "qualifying.json").exists()


def test_a_gpu_that_works_is_left_alone(server: Server) -> None:
    with server.machine.hold(1, "train") as held:
        before = server.machine.state()
        done = server.run("1", "--yes")
        assert done.returncode == 3
        assert f"held by train (pid {held.pid})" in done.stderr
        assert server.machine.state() == before


@pytest.mark.parametrize(
    ("model", "mig", "switch", "words"),
    [
        ("H100", True, False, "MIG is on"),
        ("A100", False, True, "only while Fabric Manager runs"),
    ],
)
def test_a_gpu_that_the_rows_hold_back_is_left_alone(
    build: Callable[..., Server],
    model: str,
    mig: bool,  # noqa: FBT001  a value of the case
    switch: bool,  # noqa: FBT001  as above
    words: str,
) -> None:
    server = build(model, mig=mig)
    if switch:
        device = server.sys / "bus/pci/devices/0000:05:00.0"
        device.mkdir()
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x068000\n")
    before = server.machine.state()
    done = server.run("1", "--yes")
    assert (done.returncode, words in done.stderr) == (3, True)
    assert server.machine.state() == before


@pytest.mark.parametrize("name", ["7", "0000:77:00", "GPU-nothing", "", "-1"])
def test_a_name_that_no_gpu_has_is_refused(server: Server, name: str) -> None:
    done = server.run("--yes", "--", name)
    assert done.returncode == 3
    assert "there are 0 0000:0a:00, 1 0000:18:00" in done.stderr


@pytest.mark.parametrize("name", ["1", "0000:18:00", "00000000:18:00.0", "UUID"])
def test_a_gpu_may_be_named_in_every_way(server: Server, name: str) -> None:
    server.machine.change_gpu(1, display=True)
    uuid = server.machine.state().gpus[1].uuid
    done = server.run(uuid.upper() if name == "UUID" else name, "--yes")
    assert "GPU 0000:18:00 cannot be tried" in done.stderr


def test_a_number_counts_the_drained_ones_too(server: Server) -> None:
    server.machine.change_gpu(0, persistence=False, drained=True)
    server.machine.change_gpu(1, display=True)
    assert "GPU 0000:0a:00 is drained already" in server.run("0", "--yes").stderr
    assert "GPU 0000:18:00 cannot be tried" in server.run("1", "--yes").stderr


def test_an_agent_at_work_is_left_alone_and_what_to_do_is_said(server: Server) -> None:
    lock = FolderLock(str(server.state))
    lock.take()
    before = server.machine.state()
    done = server.run("1", "--yes")
    lock.give_back()
    assert done.returncode == 3
    assert f"(pid {os.getpid()})" in done.stderr
    assert "stop it (`systemctl stop gpuward`), qualify, then start it again" in done.stderr
    assert server.machine.state() == before


def test_with_nobody_to_ask_it_wants_a_yes(server: Server) -> None:
    before = server.machine.state()
    done = server.run("1")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert server.machine.state() == before


@pytest.mark.parametrize(("answer", "code", "resets"), [("y\n", 0, 1), ("n\n", 3, 0), ("\n", 3, 0), ("\x04", 3, 0)])
def test_a_person_at_the_terminal_is_asked(server: Server, answer: str, code: int, resets: int) -> None:
    person, terminal = pty.openpty()
    os.write(person, answer.encode())
    done = server.run("1", stdin=terminal)
    os.close(terminal)
    os.close(person)
    assert done.returncode == code
    assert f"This drains and resets GPU 0000:18:00 (NVIDIA H100 80GB HBM3, {server.gpus()[1].uuid}" in done.stderr
    assert f"Stopped meanwhile: {UNIT}." in done.stderr
    assert server.machine.state().gpus[1].resets == resets


# --- ended in the middle ------------------------------------------------------------------------------------------


def ports(server: Server, monkeypatch: pytest.MonkeyPatch) -> Undoing:
    """Return what an agent undoes with when it starts."""
    for name, value in server.machine.environment().items():
        monkeypatch.setenv(name, value)
    marks = JsonFile(str(server.state / "qualifying.json"))
    return Undoing(driver=Smi(), services=Systemd(), clock=_Impatient(), marks=marks)


class _Impatient:
    """A clock that waits for less than is asked."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.5))


@pytest.mark.parametrize(
    ("number", "when"),
    [
        *((number, "during") for number in range(1, CHANGES + 1)),
        *((number, "after") for number in range(1, CHANGES + 1)),
        *((number, "before") for number in (2, 3, 4, 6)),
    ],
)
def test_killed_at_any_call_it_leaves_nothing_once_the_next_has_started(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int, when: str
) -> None:
    before = server.gpus()
    server.end_at(number, when)
    done = server.run("1", "--yes")
    assert done.returncode == -signal.SIGKILL
    server.end_at(0, "never")
    undone = undo_unfinished(ports(server, monkeypatch))
    assert undone.trouble == ()
    assert server.gpus() == before
    assert server.machine.runs(UNIT)
    assert server.kept("qualifying.json") == {} if (server.state / "qualifying.json").exists() else number == 1


def test_there_are_so_many_calls_and_no_more(server: Server) -> None:
    server.end_at(0, "never")
    assert server.run("1", "--yes").returncode == 0
    assert len(server.calls.read_text().splitlines()) == CHANGES


def test_the_next_qualify_undoes_what_a_killed_one_left_on_another_gpu(server: Server) -> None:
    before = server.gpus()
    server.end_at(7, "after")
    assert server.run("1", "--yes").returncode == -signal.SIGKILL
    assert server.gpus() != before
    server.end_at(0, "never")
    done = server.run("0", "--yes")
    assert done.returncode == 0
    assert "the drain of GPU 0000:18:00 is lifted" in done.stderr
    assert server.gpus() == before
    assert server.machine.runs(UNIT)


@pytest.mark.parametrize(
    ("name", "number"), [*(("TERM", number) for number in (2, 4, 6, 7, 9)), ("INT", 6), ("HUP", 7)]
)
def test_a_signal_ends_it_with_everything_put_back(server: Server, name: str, number: int) -> None:
    before = server.gpus()
    server.end_at(number, "during", name)
    done = server.run("1", "--yes")
    assert done.returncode in ({0} if number == 9 else {3})
    assert number == 9 or "stopped by a signal" in done.stderr
    assert server.gpus() == before
    assert server.machine.runs(UNIT)
    assert server.kept("qualifying.json") == {}
    assert (server.state / "qualified.json").exists() is (number == 9)


def test_a_reader_that_goes_away_leaves_nothing_behind(server: Server) -> None:
    before = server.gpus()
    process = subprocess.Popen(
        server.words("1", "--yes"),
        env=server.machine.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert server.gpus() == before
    assert server.machine.runs(UNIT)
    assert not (server.state / "qualified.json").exists()


def test_work_that_comes_meanwhile_is_not_reset_under(server: Server) -> None:
    server.machine.set("drain-refuses-new", False)  # noqa: FBT003  read as set(belief, False)
    before = server.gpus()
    process = subprocess.Popen(
        server.words("1", "--yes"),
        env=server.machine.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any("looking for it while it is drained" in line for line in process.stderr)
    with server.machine.hold(1, "train") as held:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 3
        assert f"work has come to GPU 0000:18:00 meanwhile: train (pid {held.pid})" in said
    assert server.gpus() == before
    assert [gpu.resets for gpu in server.machine.state().gpus] == [0, 0]
    assert server.machine.runs(UNIT)
