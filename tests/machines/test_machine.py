"""A pretend machine as a whole: faults, holders, hangs, exit codes, and many hands at once."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuward.adapters.procfs import ProcFs
from gpuward.model.record import RecordKind
from gpuward.ports import Refused
from gpuward.sim.machines import faults
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import COMMANDS
from gpuward.sim.machines.state import from_json, to_json
from tests.kit.lines import read_all
from tests.machines.server import Build, Server

CALLS = {
    "drain": ("drain", "-p", "0000:0a:00.0", "-q"),
    "persistence": ("-pm", "1"),
    "reset": ("--gpu-reset", "-i", "0"),
    "query": ("-q",),
    "query-gpu": ("--query-gpu=index", "--format=csv"),
    "list": ("-L",),
    "topo": ("topo", "-m"),
    "nvlink": ("nvlink", "-s"),
    "version": ("--version",),
}
EFFECTS = {
    79: {"lost": True, "recovery": 1},
    48: {"ecc_volatile": 1, "ecc_aggregate": 1, "remap_pending": True, "recovery": 1},
    62: {"recovery": 1},
    31: {},
    45: {},
    74: {"links_down": (3,), "recovery": 1},
    119: {"gsp_timeouts": 1},
    154: {"recovery": 1},
}
CODES = {79: [79, 154], 48: [48, 63, 94, 154], 62: [62, 154], 31: [31], 45: [45], 74: [74, 154], 119: [119], 154: [154]}


@pytest.mark.parametrize("code", faults.codes())
def test_a_fault_changes_only_what_it_touches(server: Server, code: int) -> None:
    before = server.machine.state()
    server.machine.inject(0, code)
    after = server.machine.state()
    changed = {
        name for name in before.gpus[0].__slots__ if getattr(before.gpus[0], name) != getattr(after.gpus[0], name)
    }
    assert {name: getattr(after.gpus[0], name) for name in changed} == EFFECTS[code]
    assert after.gpus[1] == before.gpus[1]


@pytest.mark.parametrize("code", faults.codes())
def test_the_log_of_a_fault_is_read_as_its_codes_of_that_gpu(server: Server, code: int) -> None:
    server.machine.inject(1, code)
    records = read_all(server.machine.log.read_text("utf-8").splitlines())
    xids = [record for record in records if record and record.kind is RecordKind.XID]
    assert [record.code for record in xids] == CODES[code]
    assert {record.pci for record in xids} == {"0000:18:00"}


def test_a_fault_names_the_process_that_holds_the_gpu(server: Server) -> None:
    with server.machine.hold(0, "trainer") as held:
        assert f"pid={held.pid}, name=trainer, " in server.machine.inject(0, 45)[0]
    assert "pid='<unknown>'" in server.machine.inject(0, 45)[0]


def test_an_unknown_fault_or_model_or_folder_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="79"):
        server.machine.inject(0, 1)
    with pytest.raises(Refused, match="H100"):
        machines.build(tmp_path / "x", "H999")
    with pytest.raises(Refused, match="build one"):
        machines.open(tmp_path / "nothing")
    with pytest.raises(Refused, match="drain"):
        server.machine.hang("no-such")


def test_a_healed_gpu_is_as_good_as_new_and_its_life_is_not_forgotten(server: Server) -> None:
    server.machine.inject(0, 48)
    server.machine.inject(0, 79)
    server.machine.change_gpu(0, pcie_width=4, remap_failed=True)
    server.machine.heal(0)
    gpu = server.machine.state().gpus[0]
    assert (gpu.lost, gpu.recovery, gpu.ecc_volatile, gpu.pcie_width, gpu.remap_failed) == (False, 0, 0, 16, False)
    assert (gpu.ecc_aggregate, gpu.remapped, gpu.resets) == (1, 1, 0)


def test_a_machine_opened_again_is_the_same_one(server: Server) -> None:
    server.machine.inject(0, 62)
    assert machines.open(server.machine.folder).state() == server.machine.state()


def test_the_written_state_is_read_as_it_was(server: Server) -> None:
    server.machine.inject(0, 74)
    server.machine.hang("drain")
    state = server.machine.state()
    assert from_json(to_json(state)) == state


def test_its_proc_is_read_by_the_product(server: Server) -> None:
    proc = ProcFs(str(server.machine.proc))
    state = server.machine.state()
    assert proc.driver_version() == state.driver
    assert [(gpu.pci, gpu.uuid) for gpu in proc.gpus()] == [(gpu.pci, gpu.uuid) for gpu in state.gpus]


@pytest.mark.parametrize("mapped_only", [False, True])
def test_a_holder_is_a_real_process_with_the_file(server: Server, *, mapped_only: bool) -> None:
    device = str(server.machine.dev / "nvidia1")
    with server.machine.hold(1, "train.py", mapped_only=mapped_only) as held:
        folder = Path(f"/proc/{held.pid}")
        assert folder.joinpath("comm").read_text() == "train.py\n"
        opened = [str(link.readlink()) for link in folder.joinpath("fd").iterdir()]
        assert (device in opened) is not mapped_only
        assert device in folder.joinpath("maps").read_text()
        assert server.smi("--query-gpu=index", "--format=csv,noheader").code == 0
    assert not folder.exists()


def test_a_mapped_file_alone_stands_in_the_way_of_a_reset(server: Server) -> None:
    server.smi("-pm", "0")
    with server.machine.hold(0, mapped_only=True):
        assert server.smi("-r", "-i", "0").code == 255
    assert server.smi("-r", "-i", "0").code == 0


def test_the_switches_of_the_test_cover_every_command() -> None:
    assert CALLS.keys() | {"nvml"} == COMMANDS


@pytest.mark.parametrize("command", CALLS)
def test_a_command_that_hangs_never_answers_and_the_others_do(server: Server, command: str) -> None:
    server.machine.hang(command)
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([server.machine.smi, *CALLS[command]], capture_output=True, timeout=0.7, check=False)
    assert time.monotonic() - began < 5
    other = "list" if command != "list" else "version"
    assert server.smi(*CALLS[other]).code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("-L",), 0),
        (("-q", "-i", "7"), 6),
        (("-L", "-i", "GPU-no-such"), 6),
        (("drain", "-p", "0000:99:00.0", "-q"), 6),
        (("--no-such",), 2),
        ((), 2),
        (("-i",), 2),
        (("drain", "-p", "0000:0a:00.0"), 2),
        (("drain", "-p", "0000:0a:00.0", "-m", "2"), 2),
        (("-pm", "2"), 2),
        (("--query-gpu=no.such", "--format=csv"), 2),
        (("--query-gpu=index",), 2),
    ],
)
def test_exit_codes_are_those_of_the_manual(server: Server, words: tuple[str, ...], code: int) -> None:
    assert server.smi(*words).code == code


def test_without_a_driver_every_command_exits_9(server: Server) -> None:
    server.machine.change(loaded=False)
    assert {server.smi(*words).code for words in CALLS.values()} == {9}


def test_with_every_gpu_hidden_no_devices_were_found(build: Build) -> None:
    server = build(count=1)
    server.drain(0)
    said = server.smi("-L")
    assert (said.text, said.code) == ("No devices were found\n", 6)


def test_one_is_chosen_by_index_uuid_serial_or_address(server: Server) -> None:
    gpu = server.machine.state().gpus[1]
    for word in ("1", gpu.uuid, gpu.serial, gpu.address, f"{gpu.pci}.0", f"{gpu.pci[5:]}.0"):
        assert gpu.uuid in server.smi("-L", "-i", word).text
    assert server.smi("-L", "--id=0,1").text.count("GPU-") == 2


def test_letting_on_a_gpu_that_is_not_drained_is_no_error(server: Server) -> None:
    assert server.smi("drain", "-p", "0000:0a:00.0", "-m", "0").code == 0


def test_after_a_drain_the_indices_behind_move_up(server: Server) -> None:
    second = server.machine.state().gpus[1]
    server.drain(0)
    assert server.smi("-L").text == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {second.uuid})\n"


def test_many_hands_at_once_leave_a_sound_state(build: Build) -> None:
    server = build(count=10)
    server.smi("-pm", "0")
    gpus = server.machine.state().gpus

    def turn(number: int) -> int:
        """Drain every GPU once, and let every second one on again, retried until it is drained."""
        address = f"{gpus[number % 10].pci}.0"
        if number < 10:
            return server.smi("drain", "-p", address, "-m", "1").code
        patience = time.monotonic() + 20
        while "is: draining" not in server.smi("drain", "-p", address, "-q").text:
            assert time.monotonic() < patience, f"the drain of {address} was lost"
            time.sleep(0.01)
        return server.smi("drain", "-p", address, "-m", "0").code if number % 2 else 0

    with ThreadPoolExecutor(20) as hands:
        assert set(hands.map(turn, range(20))) == {0}
    after = server.machine.state().gpus
    assert [gpu.drained for gpu in after] == [number % 2 == 0 for number in range(10)]
    assert server.smi("-L").text.count("GPU-") == 5
    told = (server.machine.folder / "state.txt").read_text("utf-8")
    assert told.count("hidden 1\n") == 5


def test_of_many_drains_of_one_gpu_exactly_one_succeeds(server: Server) -> None:
    server.smi("-pm", "0")
    with ThreadPoolExecutor(8) as hands:
        codes = list(hands.map(lambda _: server.smi("drain", "-p", "0000:0a:00.0", "-m", "1").code, range(8)))
    assert sorted(codes) == [0, *[255] * 7]
