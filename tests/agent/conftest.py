"""A pretend machine for agents that run as real processes."""

import shutil
from pathlib import Path

import pytest

from gpuward.sim.machines import machine as machines
from tests.kit.ward import Ward


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    machine = machines.build(tmp_path / "machine", count=4)
    if shutil.which("cc"):
        machine.nvml()
    return Ward(machine, tmp_path / "state")
