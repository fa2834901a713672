"""The real nvidia-ml-py reads the stub library: what it is told agrees with the state and with nvidia-smi."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuward.ports import Refused
from gpuward.sim.machines import nvml
from tests.machines.server import Build, Server

FIRST = ("nvmlDeviceGetHandleByIndex", 0)
Given = Callable[[Server], Server]


def error(number: int) -> dict[str, int]:
    """Return how a NVML error comes back."""
    return {"error": number}


@pytest.fixture
def seen(server: Server, with_nvml: Given) -> Server:
    """Return a server of two H100 that has its NVML."""
    return with_nvml(server)


def test_the_machine_tells_its_versions_and_count(seen: Server) -> None:
    asked = ("nvmlSystemGetDriverVersion",), ("nvmlSystemGetCudaDriverVersion_v2",), ("nvmlDeviceGetCount",)
    assert seen.ask(*asked) == ["590.48.01", 13010, 2]


def test_a_gpu_is_found_by_index_uuid_and_address(seen: Server) -> None:
    gpu = seen.machine.state().gpus[1]
    for how in (
        ("nvmlDeviceGetHandleByIndex", 1),
        ("nvmlDeviceGetHandleByUUID", gpu.uuid),
        ("nvmlDeviceGetHandleByPciBusId", gpu.address),
        ("nvmlDeviceGetHandleByPciBusId", f"{gpu.pci}.0"),
    ):
        assert seen.ask(how, ("nvmlDeviceGetUUID", "HANDLE")) == ["handle", gpu.uuid]


def test_a_gpu_tells_what_it_is(seen: Server) -> None:
    words = ("Name", "MinorNumber", "Serial", "PersistenceMode", "DisplayActive", "MigMode", "PciInfo_v3")
    answers = seen.ask(FIRST, *((f"nvmlDeviceGet{word}", "HANDLE") for word in words))[1:]
    pci = [0, 0x0A, 0, "00000000:0A:00.0", 0x233010DE]
    assert answers == ["NVIDIA H100 80GB HBM3", 0, "1329000000100", 1, 0, [0, 0], pci]


def test_the_pcie_link_is_told_now_and_at_most(seen: Server) -> None:
    seen.machine.change_gpu(0, pcie_generation=1, pcie_width=8)
    words = ("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkWidth")
    assert seen.ask(FIRST, *((f"nvmlDeviceGet{word}", "HANDLE") for word in words))[1:] == [1, 5, 8, 16]


def test_a_memory_fault_shows_in_counts_rows_and_action(seen: Server) -> None:
    seen.machine.inject(0, 48)
    answers = seen.ask(
        FIRST,
        ("nvmlDeviceGetTotalEccErrors", "HANDLE", 1, 0),
        ("nvmlDeviceGetTotalEccErrors", "HANDLE", 1, 1),
        ("nvmlDeviceGetTotalEccErrors", "HANDLE", 0, 0),
        ("nvmlDeviceGetRemappedRows", "HANDLE"),
        ("nvmlDeviceGetFieldValues", "HANDLE", [230, 4, 144]),
    )
    assert answers[1:] == [1, 1, 0, [0, 0, 1, 0], [[0, 1], [0, 1], [0, 1]]]


def test_a_link_that_is_down_is_inactive_and_has_no_speed(seen: Server) -> None:
    seen.machine.inject(0, 74)
    answers = seen.ask(
        FIRST,
        ("nvmlDeviceGetNvLinkState", "HANDLE", 3),
        ("nvmlDeviceGetNvLinkState", "HANDLE", 4),
        ("nvmlDeviceGetNvLinkState", "HANDLE", 18),
        ("nvmlDeviceGetFieldValues", "HANDLE", [[164, 3], [164, 4], [165, 3], [91, 0], [90, 0]]),
    )
    assert answers[1:] == [0, 1, error(2), [[0, 0], [0, 26562], [0, 0], [0, 18], [0, 26562]]]


def test_what_a_model_has_not_is_not_supported(build: Build, with_nvml: Given) -> None:
    server = with_nvml(build("T4"))
    asked = ("MigMode",), ("RemappedRows",), ("NvLinkState", 0)
    answers = server.ask(FIRST, *((f"nvmlDeviceGet{name}", "HANDLE", *rest) for name, *rest in asked))
    assert answers[1:] == [error(3), error(3), error(3)]
    assert server.ask(FIRST, ("nvmlDeviceGetFieldValues", "HANDLE", [[164, 0], 999]))[1][0][0] == 3


def test_mig_is_told_and_hides_row_remapping(build: Build, with_nvml: Given) -> None:
    server = with_nvml(build("A100", mig=True))
    answers = server.ask(FIRST, ("nvmlDeviceGetMigMode", "HANDLE"), ("nvmlDeviceGetRemappedRows", "HANDLE"))
    assert answers[1:] == [[1, 1], error(3)]


def test_a_drained_gpu_is_hidden_from_a_process_started_later(seen: Server) -> None:
    drained, left = seen.machine.state().gpus
    seen.drain(0)
    asked = ("nvmlDeviceGetCount",), ("nvmlDeviceGetHandleByUUID", drained.uuid), FIRST, ("nvmlDeviceGetUUID", "HANDLE")
    assert seen.ask(*asked) == [1, error(6), "handle", left.uuid]


def test_a_process_that_ran_before_the_drain_goes_on_seeing_the_gpu(seen: Server) -> None:
    program = (
        "import pynvml as n, sys; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); print(n.nvmlDeviceGetCount(),"
        " flush=True); sys.stdin.readline(); print(n.nvmlDeviceGetCount(), n.nvmlDeviceGetMinorNumber(h))"
    )
    command = [sys.executable, "-c", program]
    env = seen.machine.environment()
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "2\n"
        seen.drain(0)
        assert running.communicate("\n")[0] == "2 0\n"


def test_a_drained_gpu_is_seen_where_the_belief_is_falsified(seen: Server) -> None:
    seen.machine.set("drain-hides", False)  # noqa: FBT003  read as set(belief, False)
    seen.drain(0)
    assert seen.ask(("nvmlDeviceGetCount",)) == [2]


def test_a_lost_gpu_is_counted_and_gives_no_handle(seen: Server) -> None:
    seen.machine.inject(0, 79)
    assert seen.ask(("nvmlDeviceGetCount",), FIRST, ("nvmlDeviceGetHandleByIndex", 1)) == [2, error(15), "handle"]


def test_a_lost_gpu_answers_nothing_where_it_does_give_a_handle(seen: Server) -> None:
    seen.machine.set("lost-no-handle", False)  # noqa: FBT003  read as set(belief, False)
    seen.machine.inject(0, 79)
    assert seen.ask(FIRST, ("nvmlDeviceGetName", "HANDLE")) == ["handle", error(15)]


def test_without_a_driver_nothing_starts(seen: Server) -> None:
    seen.machine.change(loaded=False)
    assert seen.ask() == [error(9)]


def test_before_init_and_after_shutdown_the_library_refuses(seen: Server) -> None:
    assert seen.ask(("nvmlShutdown",), ("nvmlDeviceGetCount",))[1] == error(1)


def test_the_library_can_be_made_to_hang(seen: Server) -> None:
    seen.machine.hang("nvml")
    command = [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, env=seen.machine.environment(), timeout=1.5, check=False)
    seen.machine.hang("nvml", on=False)
    assert seen.ask(("nvmlDeviceGetCount",)) == [2]


def test_both_roads_say_the_same(seen: Server) -> None:
    seen.machine.inject(0, 48)
    seen.machine.inject(1, 154, recovery=4)
    names = "index,uuid,minor_number".replace(",minor_number", "")
    by_tool = seen.smi(f"--query-gpu={names},gpu_recovery_action", "--format=csv,noheader").text.splitlines()
    for index, action in ((0, 1), (1, 4)):
        handle = ("nvmlDeviceGetHandleByIndex", index)
        _, uuid, fields = seen.ask(
            handle, ("nvmlDeviceGetUUID", "HANDLE"), ("nvmlDeviceGetFieldValues", "HANDLE", [230])
        )
        label = {1: "Reset", 4: "Drain and Reset"}[action]
        assert by_tool[index] == f"{index}, {uuid}, {label}"
        assert fields == [[0, action]]


def test_without_a_compiler_the_library_is_refused_in_one_line(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match=r"needs a C compiler: install gcc") as refused:
        server.machine.nvml()
    assert "\n" not in str(refused.value)
    assert not (server.machine.folder / "lib" / nvml.NAME).exists()
