"""One suite for every Driver and its neighbours, on the pretend machine: its stateful nvidia-smi and its NVML."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.clock import SystemClock
from gpuward.adapters.holding import DeviceHolders
from gpuward.adapters.nvml import Nvml
from gpuward.adapters.procfs import ProcFs
from gpuward.adapters.roads import Roads
from gpuward.adapters.smi import Smi
from gpuward.adapters.sysfs import Sysfs
from gpuward.model.node import GpuReading, HolderKind
from gpuward.ports import Driver, Refused
from tests.kit.merging import GPU_A
from tests.kit.pretend_driver import PretendDriver, a_holder

if TYPE_CHECKING:
    from gpuward.sim.machines.machine import Machine

machines = pytest.importorskip("gpuward.sim.machines.machine", reason="the pretend machine is not there")

SOON = 60.0


@pytest.fixture
def machine(tmp_path: Path) -> "Machine":
    built: Machine = machines.build(tmp_path / "machine", "H100", count=2)
    return built


def nvml_of(machine: "Machine") -> Nvml:
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py is not installed")
    try:
        machine.nvml()
    except Refused as refusal:
        pytest.skip(str(refusal))
    return Nvml(environment=machine.environment(), inventory=ProcFs(str(machine.proc)))


@pytest.fixture
def nvml(machine: "Machine") -> Iterator[Nvml]:
    child = nvml_of(machine)
    yield child
    child.close()


@pytest.fixture(params=["smi", "roads"])
def driver(request: pytest.FixtureRequest, machine: "Machine", tmp_path: Path) -> Iterator[Driver]:
    smi = Smi(environment=machine.environment(), receipts=str(tmp_path / "receipts"))
    if request.param == "smi":
        yield smi
        return
    nvml = nvml_of(machine)
    yield Roads(nvml, smi, Sysfs(str(tmp_path)), clock=SystemClock())
    nvml.close()


def first(machine: "Machine") -> str:
    return machine.state().gpus[0].pci


def of(driver: Driver, pci: str) -> GpuReading | None:
    return next((gpu for gpu in driver.read(SOON).gpus if gpu.pci == pci), None)


def test_what_is_read_is_the_state(driver: Driver, machine: "Machine") -> None:
    gpus = driver.read(SOON).gpus
    state = machine.state()
    assert [(gpu.pci, gpu.uuid, gpu.minor) for gpu in gpus] == [(gpu.pci, gpu.uuid, gpu.minor) for gpu in state.gpus]
    assert [(gpu.index, gpu.lost, gpu.mig, gpu.recovery_action) for gpu in gpus] == [
        (0, False, False, "None"),
        (1, False, False, "None"),
    ]
    assert driver.read(SOON).driver_version == state.driver


def test_both_roads_read_the_same(machine: "Machine", nvml: Nvml) -> None:
    machine.inject(0, 48)
    by_smi, by_nvml = Smi(environment=machine.environment()).read(SOON), nvml.read(SOON)
    assert (by_smi.driver_version, by_smi.cuda_version) == (by_nvml.driver_version, by_nvml.cuda_version)
    for smi, direct in zip(by_smi.gpus, by_nvml.gpus, strict=True):
        for name in ("index", "pci", "uuid", "minor", "model", "persistence", "display_active", "mig", "ecc", "remap"):
            assert (name, getattr(smi, name)) == (name, getattr(direct, name))
        assert (smi.recovery_action, smi.pcie, smi.lost) == (direct.recovery_action, direct.pcie, direct.lost)
    assert by_smi.gpus[0].ecc.volatile == 1
    assert by_smi.gpus[0].remap.pending


def test_nvml_reads_the_links(nvml: Nvml) -> None:
    links = nvml.read(SOON).gpus[0].links
    assert links
    assert all(link.active and link.speed_gb_per_second for link in links)


def test_a_drained_gpu_is_hidden_and_comes_back(driver: Driver, machine: "Machine") -> None:
    pci = first(machine)
    driver.set_persistence(pci, on=False, deadline_seconds=SOON)
    driver.set_drained(pci, on=True, deadline_seconds=SOON)
    driver.set_drained(pci, on=True, deadline_seconds=SOON)
    assert driver.is_drained(pci, SOON)
    assert of(driver, pci) is None
    driver.set_drained(pci, on=False, deadline_seconds=SOON)
    assert not driver.is_drained(pci, SOON)
    assert of(driver, pci) is not None


def test_a_drain_with_persistence_mode_on_is_refused(driver: Driver, machine: "Machine") -> None:
    pci = first(machine)
    driver.set_persistence(pci, on=True, deadline_seconds=SOON)
    with pytest.raises(Refused, match=r"(?i)in use"):
        driver.set_drained(pci, on=True, deadline_seconds=SOON)
    assert not driver.is_drained(pci, SOON)


def test_persistence_mode_is_as_it_was_set(driver: Driver, machine: "Machine") -> None:
    pci = first(machine)
    for on in (True, False):
        driver.set_persistence(pci, on=on, deadline_seconds=SOON)
        gpu = of(driver, pci)
        assert gpu is not None
        assert gpu.persistence is on


def test_a_reset_heals_what_a_reset_heals(driver: Driver, machine: "Machine") -> None:
    pci = first(machine)
    machine.inject(0, 48)
    driver.set_persistence(pci, on=False, deadline_seconds=SOON)
    driver.reset(pci, SOON, key="c-1")
    gpu = of(driver, pci)
    assert gpu is not None
    assert (gpu.ecc.volatile, gpu.remap.pending, gpu.recovery_action) == (0, False, "None")


def test_a_held_gpu_is_not_reset_and_its_holder_is_seen(driver: Driver, machine: "Machine") -> None:
    pci, minor = first(machine), machine.state().gpus[0].minor
    holders = DeviceHolders(dev=str(machine.dev), skip_unseen=True)
    driver.set_persistence(pci, on=False, deadline_seconds=SOON)
    driver.read(SOON)
    with machine.hold(0) as hold:
        with pytest.raises(Refused):
            driver.reset(pci, SOON, key="c-1")
        assert [(holder.pid, holder.kind) for holder in holders.of(minor)] == [(hold.pid, HolderKind.OURS)]
    assert holders.of(minor) == ()
    driver.reset(pci, SOON, key="c-2")


def test_a_drained_gpu_is_not_reset(driver: Driver, machine: "Machine") -> None:
    pci = first(machine)
    driver.set_persistence(pci, on=False, deadline_seconds=SOON)
    driver.set_drained(pci, on=True, deadline_seconds=SOON)
    with pytest.raises(Refused):
        driver.reset(pci, SOON, key="c-1")


@dataclass(frozen=True, slots=True)
class Twin:
    """A Driver over a machine, real or pretend: how often its GPU was reset, and how work comes onto it."""

    driver: Driver
    pci: str
    resets: Callable[[], int]
    held: Callable[[], AbstractContextManager[object]]


@pytest.fixture(params=["smi", "roads", "pretend"])
def twin(request: pytest.FixtureRequest) -> Twin:
    if request.param == "pretend":
        pretend = PretendDriver()
        return Twin(pretend, GPU_A, lambda: pretend.done_resets, lambda: held_in(pretend))
    machine: Machine = request.getfixturevalue("machine")
    smi = Smi(environment=machine.environment(), receipts=str(machine.folder / "receipts"))
    driver: Driver = smi
    if request.param == "roads":
        sysfs = Sysfs(str(machine.folder))
        driver = Roads(request.getfixturevalue("nvml"), smi, sysfs, clock=SystemClock())
    return Twin(driver, first(machine), lambda: machine.state().gpus[0].resets, lambda: machine.hold(0))


@contextmanager
def held_in(pretend: PretendDriver) -> Iterator[None]:
    pretend.held[0] = [a_holder()]
    yield
    pretend.held.clear()


def test_with_the_same_key_a_reset_is_not_done_again(twin: Twin) -> None:
    twin.driver.set_persistence(twin.pci, on=False, deadline_seconds=SOON)
    assert not twin.driver.has_reset(twin.pci, key="c-1")
    twin.driver.reset(twin.pci, SOON, key="c-1")
    assert twin.driver.has_reset(twin.pci, key="c-1")
    with twin.held():
        twin.driver.reset(twin.pci, SOON, key="c-1")
    assert twin.resets() == 1


def test_with_another_key_a_reset_is_done_again(twin: Twin) -> None:
    twin.driver.set_persistence(twin.pci, on=False, deadline_seconds=SOON)
    for key in ("c-1", "c-2", "c-1"):
        twin.driver.reset(twin.pci, SOON, key=key)
    assert twin.resets() == 2
    assert not twin.driver.has_reset(twin.pci, key="c-3")


def test_a_reset_that_was_refused_is_refused_again_with_the_same_key_also_when_its_reason_is_gone(twin: Twin) -> None:
    twin.driver.set_persistence(twin.pci, on=False, deadline_seconds=SOON)
    with twin.held(), pytest.raises(Refused) as first_time:
        twin.driver.reset(twin.pci, SOON, key="c-1")
    with pytest.raises(Refused) as again:
        twin.driver.reset(twin.pci, SOON, key="c-1")
    assert (str(again.value), twin.resets()) == (str(first_time.value), 0)
    twin.driver.reset(twin.pci, SOON, key="c-2")
    assert twin.resets() == 1


def test_a_gpu_that_is_hidden_after_its_reset_is_refused_and_not_reset_again(twin: Twin) -> None:
    twin.driver.set_persistence(twin.pci, on=False, deadline_seconds=SOON)
    twin.driver.reset(twin.pci, SOON, key="c-1")
    twin.driver.set_persistence(twin.pci, on=False, deadline_seconds=SOON)
    twin.driver.set_drained(twin.pci, on=True, deadline_seconds=SOON)
    with pytest.raises(Refused, match="does not show"):
        twin.driver.reset(twin.pci, SOON, key="c-1")
    assert twin.resets() == 1


def test_describe_has_the_gpu(driver: Driver, machine: "Machine") -> None:
    assert machine.state().gpus[0].uuid in driver.describe(first(machine), SOON)


def test_nvml_names_a_lost_gpu(nvml: Nvml, machine: "Machine") -> None:
    machine.inject(0, 79)
    gpus = {gpu.pci: gpu.lost for gpu in nvml.read(SOON).gpus}
    assert gpus == {first(machine): True, machine.state().gpus[1].pci: False}


def test_a_reset_of_a_lost_gpu_is_refused(driver: Driver, machine: "Machine") -> None:
    machine.inject(0, 79)
    with pytest.raises(Refused, match=r"(?i)lost"):
        driver.reset(first(machine), SOON, key="c-1")


CALLS: dict[str, Callable[[Driver, str], object]] = {
    "query": lambda driver, pci: driver.describe(pci, 1.0),
    "drain": lambda driver, pci: driver.is_drained(pci, 1.0),
    "persistence": lambda driver, pci: driver.set_persistence(pci, on=False, deadline_seconds=1.0),
    "reset": lambda driver, pci: driver.reset(pci, 1.0, key="c-1"),
}


@pytest.mark.parametrize("command", CALLS)
def test_a_command_that_hangs_ends_by_its_deadline(machine: "Machine", command: str) -> None:
    machine.hang(command)
    smi = Smi(environment=machine.environment())
    with pytest.raises(Hung):
        CALLS[command](smi, first(machine))
    machine.hang(command, on=False)
    assert len(smi.read(SOON).gpus) == 2


def test_when_nvml_hangs_nvidia_smi_is_read(machine: "Machine", nvml: Nvml, tmp_path: Path) -> None:
    roads = Roads(nvml, Smi(environment=machine.environment()), Sysfs(str(tmp_path)), clock=SystemClock())
    assert roads.read(SOON).road == "nvml"
    machine.hang("nvml")
    assert roads.read(4.0).road == "nvidia-smi"
    machine.hang("nvml", on=False)
    assert roads.read(SOON).road == "nvidia-smi"
    assert [gpu.lost for gpu in nvml.read(SOON).gpus] == [False, False]
