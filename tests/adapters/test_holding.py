"""DeviceHolders on real processes that hold ordinary files in a folder like /dev, and on trees like /proc."""

import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpuward.adapters.holding import KNOWN_SERVICES, DeviceHolders
from gpuward.model.node import GpuHolder, HolderKind
from gpuward.ports import Refused, Unreachable

SOON = 20.0
OPEN = "import sys, time; file = open(sys.argv[1]); print('ready', flush=True); time.sleep(600)"
MAP = """
import mmap, os, sys, time
number = os.open(sys.argv[1], os.O_RDWR)
kept = mmap.mmap(number, 4096)
os.close(number)
print('ready', flush=True)
time.sleep(600)
"""
FIRST_THREAD_ENDS = """
import ctypes, platform, sys, threading, time
file = open(sys.argv[1])
threading.Thread(target=time.sleep, args=(600,)).start()
print('ready', flush=True)
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)
"""
UID = "3f0c2d1e-5a4b-4c6d-8e7f-0123456789ab"
ID = "c" * 64


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    for minor in range(12):
        (folder / f"nvidia{minor}").write_bytes(b"\0" * 4096)
    return folder


@contextlib.contextmanager
def holding(code: str, file: Path) -> Iterator[int]:
    """Run a process of this code that holds `file`, and give its pid."""
    with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def proc_of(tmp_path: Path, *pids: int) -> str:
    """Return a folder like /proc that has these processes only, as any user may see them."""
    folder = tmp_path / "proc"
    folder.mkdir()
    for pid in pids:
        (folder / str(pid)).symlink_to(f"/proc/{pid}")
    return str(folder)


def pids(holders: Sequence[GpuHolder]) -> list[int]:
    return [holder.pid for holder in holders]


@pytest.mark.parametrize("code", [OPEN, MAP], ids=["open", "mapped"])
def test_a_process_that_has_the_device_open_or_mapped_holds_it(tmp_path: Path, dev: Path, code: str) -> None:
    with holding(code, dev / "nvidia1") as pid:
        holders = DeviceHolders(proc_of(tmp_path, pid), str(dev))
        assert pids(holders.of(1)) == [pid]


def test_another_device_is_another_device(tmp_path: Path, dev: Path) -> None:
    with holding(OPEN, dev / "nvidia11") as pid:
        holders = DeviceHolders(proc_of(tmp_path, pid), str(dev))
        assert holders.of(1) == ()
        assert pids(holders.of(11)) == [pid]


def test_a_device_file_that_is_gone_is_still_held(tmp_path: Path, dev: Path) -> None:
    with holding(OPEN, dev / "nvidia0") as pid:
        (dev / "nvidia0").unlink()
        assert pids(DeviceHolders(proc_of(tmp_path, pid), str(dev)).of(0)) == [pid]


def test_a_process_that_ends_no_longer_holds(tmp_path: Path, dev: Path) -> None:
    with holding(OPEN, dev / "nvidia0") as pid:
        holders = DeviceHolders(proc_of(tmp_path, pid), str(dev))
    assert holders.of(0) == ()


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="the number of exit is known for these")
def test_a_thread_that_outlives_the_first_one_still_holds(tmp_path: Path, dev: Path) -> None:
    with holding(FIRST_THREAD_ENDS, dev / "nvidia0") as pid:
        holders = DeviceHolders(proc_of(tmp_path, pid), str(dev))
        end = time.monotonic() + SOON
        while ") Z " not in Path(f"/proc/{pid}/stat").read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert pids(holders.of(0)) == [pid]


def test_our_own_process_tree_is_ours(tmp_path: Path, dev: Path) -> None:
    with holding(OPEN, dev / "nvidia0") as pid, (dev / "nvidia0").open():
        holders = DeviceHolders(proc_of(tmp_path, os.getpid(), pid), str(dev)).of(0)
        assert {holder.pid: holder.kind for holder in holders} == dict.fromkeys((os.getpid(), pid), HolderKind.OURS)


class Tree:
    """A folder like /proc of processes that are not ours, with open files."""

    def __init__(self, root: Path, dev: Path) -> None:
        self.root = root
        self.dev = dev

    def add(self, pid: int, *, comm: str, cgroup: str = "0::/\n", state: str = "S", minor: int = 0) -> Path:
        """Add a process that has a device open."""
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "fd/7").symlink_to(self.dev / f"nvidia{minor}")
        (folder / "stat").write_text(f"{pid} ({comm}) {state} 1 {pid} {pid} 0 -1 4194560 1 0 0 0\n")
        (folder / "comm").write_text(comm + "\n")
        (folder / "cmdline").write_bytes(f"/usr/bin/{comm}\0--go\0".encode())
        (folder / "cgroup").write_text(cgroup)
        (folder / "maps").write_text("")
        return folder

    def holders(self) -> tuple[GpuHolder, ...]:
        """Return who holds GPU 0."""
        return DeviceHolders(str(self.root), str(self.dev)).of(0)


@pytest.fixture
def tree(tmp_path: Path, dev: Path) -> Tree:
    return Tree(tmp_path / "tree", dev)


def test_work_has_its_pod_and_container_and_comes_in_order_of_pid(tree: Tree) -> None:
    tree.add(900, comm="python3", cgroup=f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/{ID}\n")
    tree.add(30, comm="a) Z 1 (b")
    assert tree.holders() == (
        GpuHolder(30, "a) Z 1 (b", "/usr/bin/a) Z 1 (b --go", HolderKind.WORK, None, None, None),
        GpuHolder(900, "python3", "/usr/bin/python3 --go", HolderKind.WORK, None, UID, ID),
    )


def rows(*, stoppable: bool) -> list[tuple[str, str]]:
    return [(row.process, unit) for row in KNOWN_SERVICES if row.stoppable is stoppable for unit in sorted(row.units)]


@pytest.mark.parametrize(
    "line", ["0::/system.slice/{}", "0::/../../system.slice/{}", "1:name=systemd:/system.slice/{}"]
)
@pytest.mark.parametrize(("process", "unit"), rows(stoppable=True))
def test_a_known_service_in_its_unit_may_be_stopped(tree: Tree, process: str, unit: str, line: str) -> None:
    tree.add(77, comm=process[:15], cgroup=f"12:cpu:/\n{line.format(unit)}\n")
    (holder,) = tree.holders()
    assert (holder.kind, holder.service) == (HolderKind.SERVICE, unit)


@pytest.mark.parametrize(("process", "unit"), rows(stoppable=False))
def test_a_service_that_must_not_be_stopped_is_work(tree: Tree, process: str, unit: str) -> None:
    tree.add(77, comm=process[:15], cgroup=f"0::/system.slice/{unit}\n")
    (holder,) = tree.holders()
    assert (holder.kind, holder.service) == (HolderKind.WORK, None)


def test_a_fabric_manager_is_never_stopped() -> None:
    assert not any(row.stoppable for row in KNOWN_SERVICES if "fabricmanager" in row.process)


@pytest.mark.parametrize(
    ("comm", "cgroup"),
    [
        pytest.param("nv-hostengine", "0::/user.slice/user-1000.slice/session-3.scope\n", id="in a session"),
        pytest.param(
            "nv-hostengine",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nvidia-dcgm.service\n",
            id="in a user's own unit",
        ),
        pytest.param("nv-hostengine", f"0::/kubepods.slice/kubepods-pod{UID}.slice/{ID}\n", id="in a pod"),
        pytest.param("nv-hostengine", "0::/user.slice/nvidia-dcgm.service\n", id="in another slice"),
        pytest.param("nv-hostengine", "0::/system.slice/other.service\n", id="in another unit"),
        pytest.param("python3", "0::/system.slice/nvidia-dcgm.service\n", id="another program"),
    ],
)
def test_the_name_alone_or_the_unit_alone_makes_no_service(tree: Tree, comm: str, cgroup: str) -> None:
    tree.add(77, comm=comm, cgroup=cgroup)
    (holder,) = tree.holders()
    assert (holder.kind, holder.service) == (HolderKind.WORK, None)


def test_nothing_is_read_of_the_memory_of_a_process_asleep_in_the_kernel(tree: Tree) -> None:
    for pid, minor in ((77, 0), (78, 1)):
        asleep = tree.add(pid, comm="python3", state="D", minor=minor)
        for name in ("maps", "cmdline"):
            (asleep / name).unlink()
            os.mkfifo(asleep / name)  # to read it would wait for ever
    (holder,) = tree.holders()
    assert (holder.pid, holder.command) == (77, "python3")


def test_a_process_that_goes_while_it_is_looked_at_is_left_out(tree: Tree) -> None:
    tree.add(77, comm="python3")
    for gone in ("fd", "maps", "stat", "comm", "cgroup", "cmdline"):
        folder = tree.add(78, comm="python3", minor=1)
        if gone == "fd":
            (folder / "fd/7").unlink()
            (folder / "fd").rmdir()
        else:
            (folder / gone).unlink()
        assert pids(tree.holders()) == [77]
        for file in sorted(folder.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        folder.rmdir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may see everything")
def test_files_that_may_not_be_seen_are_no_proof_that_the_gpu_is_free(tree: Tree) -> None:
    folder = tree.add(77, comm="python3")
    (folder / "fd").chmod(0)
    with pytest.raises(Refused, match="process 77 may not be seen"):
        tree.holders()
    (folder / "fd").chmod(0o700)


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="cannot be read"):
        DeviceHolders(str(tmp_path / "nothing")).of(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")
def test_a_real_device_node_is_known_under_another_name_and_not_by_its_name_alone(tmp_path: Path) -> None:
    dev, other = tmp_path / "dev", tmp_path / "container"
    numbers = {dev / "nvidia0": 3, other / "nvidia5": 3, other / "nvidia0": 5}
    for file, minor in numbers.items():
        file.parent.mkdir(exist_ok=True)
        try:
            os.mknod(file, 0o20600, os.makedev(1, minor))  # /dev/null and /dev/zero
            file.open().close()
        except OSError:
            pytest.skip("device nodes cannot be used here")
    with holding(OPEN, other / "nvidia5") as same, holding(OPEN, other / "nvidia0") as different:
        holders = DeviceHolders(proc_of(tmp_path, same, different), str(dev))
        assert pids(holders.of(0)) == [same]
