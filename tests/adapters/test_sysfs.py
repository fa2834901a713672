"""Sysfs on a tree like /sys."""

from pathlib import Path

import pytest

from gpuward.adapters.sysfs import Sysfs
from gpuward.model.node import Pcie
from gpuward.ports import Refused


def add(root: Path, address: str, **attributes: str | bytes) -> None:
    """Add a device; by default a 3D controller of NVIDIA with its full link."""
    folder = root / "bus/pci/devices" / address
    folder.mkdir(parents=True)
    usual: dict[str, str | bytes] = {
        "vendor": "0x10de",
        "class": "0x030200",
        "config": b"\xde\x10\x30\x23" + b"\0" * 60,
        "current_link_speed": "16.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "8",
        "max_link_width": "16",
    }
    for name, value in {**usual, **attributes}.items():
        (folder / name).write_bytes(value if isinstance(value, bytes) else value.encode() + b"\n")


def test_gpus_are_read_in_pci_order_with_their_links(tmp_path: Path) -> None:
    add(tmp_path, "0000:bd:00.0")
    add(tmp_path, "0000:3f:00.0", current_link_speed="2.5 GT/s PCIe", **{"class": "0x030000"})
    reading = Sysfs(str(tmp_path)).read(1.0)
    assert reading.road == "sysfs"
    assert [(gpu.pci, gpu.pcie) for gpu in reading.gpus] == [
        ("0000:3f:00", Pcie(generation=1, generation_max=5, width=8, width_max=16)),
        ("0000:bd:00", Pcie(generation=4, generation_max=5, width=8, width_max=16)),
    ]
    assert not any(gpu.lost for gpu in reading.gpus)


@pytest.mark.parametrize(
    "attributes",
    [{"vendor": "0x8086"}, {"class": "0x068000"}, {"class": "0x040300"}, {"vendor": "0x15b3", "class": "0x020700"}],
    ids=["another vendor", "NVSwitch", "audio", "InfiniBand"],
)
def test_what_is_no_nvidia_gpu_is_passed_over(tmp_path: Path, attributes: dict[str, str]) -> None:
    add(tmp_path, "0000:3f:00.0", **attributes)
    assert Sysfs(str(tmp_path)).read(1.0).gpus == ()


def test_a_card_that_reads_all_ones_is_lost(tmp_path: Path) -> None:
    add(tmp_path, "0000:3f:00.0", config=b"\xff" * 64, current_link_speed="Unknown", current_link_width="63")
    (gpu,) = Sysfs(str(tmp_path)).read(1.0).gpus
    assert gpu.lost
    assert gpu.pcie == Pcie(generation=None, generation_max=5, width=None, width_max=16)


def test_attributes_that_are_missing_are_unknown(tmp_path: Path) -> None:
    add(tmp_path, "0000:3f:00.0")
    for name in ("config", "current_link_speed", "max_link_speed", "current_link_width", "max_link_width"):
        (tmp_path / "bus/pci/devices/0000:3f:00.0" / name).unlink()
    (gpu,) = Sysfs(str(tmp_path)).read(1.0).gpus
    assert gpu.pcie == Pcie(generation=None, generation_max=None, width=None, width_max=None)
    assert not gpu.lost


def test_the_version_of_the_loaded_module_is_the_drivers(tmp_path: Path) -> None:
    add(tmp_path, "0000:3f:00.0")
    assert Sysfs(str(tmp_path)).read(1.0).driver_version is None
    (tmp_path / "module/nvidia").mkdir(parents=True)
    (tmp_path / "module/nvidia/version").write_text("580.65.06\n")
    assert Sysfs(str(tmp_path)).read(1.0).driver_version == "580.65.06"


def test_without_a_bus_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is mounted"):
        Sysfs(str(tmp_path)).read(1.0)
