"""The services of a pretend machine: real processes under a stub systemctl, seen as the kernel shows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuward.adapters.holding import DeviceHolders
from gpuward.adapters.systemd import Systemd
from gpuward.model.node import HolderKind
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import Machine
from tests.machines.server import Server

UNIT = "nvidia-dcgm.service"
SOON = 20.0


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    built = machines.build(tmp_path / "machine", count=2)
    built.change(root=True)
    built.service(UNIT, "nv-hostengine")
    yield built
    built.end_services()


def holders(machine: Machine) -> DeviceHolders:
    return DeviceHolders(str(machine.proc), str(machine.dev))


def test_a_service_holds_every_gpu_in_its_unit(machine: Machine) -> None:
    for minor in (0, 1):
        (held,) = holders(machine).of(minor)
        assert (held.kind, held.service, held.name) == (HolderKind.SERVICE, UNIT, "nv-hostengine")


def test_systemctl_stops_and_starts_it(machine: Machine) -> None:
    systemd = Systemd(str(machine.folder / "bin/systemctl"))
    assert systemd.is_running(UNIT)
    systemd.stop(UNIT, SOON)
    assert not systemd.is_running(UNIT)
    assert holders(machine).of(0) == ()
    systemd.stop(UNIT, SOON)
    systemd.start(UNIT, SOON)
    systemd.start(UNIT, SOON)
    assert len(holders(machine).of(0)) == 1
    assert not systemd.is_running("nothing.service")


def test_a_gpu_is_not_reset_while_it_runs(machine: Machine) -> None:
    machine.change_gpu(0, persistence=False)
    server = Server(machine)
    assert server.smi("--gpu-reset", "-i", "0").code == 255
    machine.end_services()
    assert not machine.runs(UNIT)
    assert server.smi("--gpu-reset", "-i", "0").code == 0
