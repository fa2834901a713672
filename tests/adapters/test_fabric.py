"""NVSwitches and Fabric Manager, looked for on trees like /sys and /proc."""

from pathlib import Path

import pytest

from gpuward.adapters.fabric import Fabric


def device(root: Path, address: str, *, vendor: str = "0x10de", kind: str = "0x068000") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")


def process(root: Path, pid: int, *, name: str = "nv-fabricmanage", uid: str = "0\t0\t0\t0") -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\nGid:\t0\t0\t0\t0\n")


def fabric(root: Path) -> Fabric:
    return Fabric(str(root / "sys"), str(root / "proc"))


def test_a_switch_on_the_bus_is_seen(tmp_path: Path) -> None:
    device(tmp_path, "0000:3f:00.0", kind="0x030200")
    assert fabric(tmp_path).has_switches() is False
    device(tmp_path, "0000:05:00.0")
    assert fabric(tmp_path).has_switches() is True


@pytest.mark.parametrize(("vendor", "kind"), [("0x8086", "0x068000"), ("0x10de", "0x060400"), ("0x10de", "0x030000")])
def test_another_bridge_is_no_switch(tmp_path: Path, vendor: str, kind: str) -> None:
    device(tmp_path, "0000:05:00.0", vendor=vendor, kind=kind)
    assert fabric(tmp_path).has_switches() is False


def test_a_switch_that_its_driver_knows_is_seen(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia-nvswitch/devices/0000:05:00.0").mkdir(parents=True)
    assert fabric(tmp_path).has_switches() is True


def test_nothing_to_look_at_is_unknown_and_not_absent(tmp_path: Path) -> None:
    assert fabric(tmp_path).has_switches() is None
    assert fabric(tmp_path).has_manager() is None


def test_fabric_manager_is_a_process_of_roots_in_a_unit_or_a_container(tmp_path: Path) -> None:
    process(tmp_path, 7, name="systemd")
    assert fabric(tmp_path).has_manager() is False
    process(tmp_path, 900)
    assert fabric(tmp_path).has_manager() is True


@pytest.mark.parametrize("uid", ["1000\t1000\t1000\t1000", "1000\t0\t0\t0", ""])
def test_who_only_takes_its_name_is_not_fabric_manager(tmp_path: Path, uid: str) -> None:
    process(tmp_path, 900, uid=uid)
    assert fabric(tmp_path).has_manager() is False
