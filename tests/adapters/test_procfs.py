"""What ProcFs reads from trees like /proc, made of ordinary files, and from the real one for this very process."""

import os
import tempfile
from pathlib import Path

import pytest

from gpuward.adapters.procfs import ProcFs
from gpuward.model.gpu import Gpu
from gpuward.ports import Holder, Refused, Unreachable

ID_A = "a" * 63 + "1"
ID_B = "b" * 63 + "2"
UID = "3f0c2d1e-5a4b-4c6d-8e7f-0123456789ab"
UID_ = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"


def add_process(
    root: Path, pid: int, *, comm: str = "python3", cmdline: bytes = b"python3\0train.py\0", cgroup: str = "0::/\n"
) -> Path:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(comm + "\n")
    (folder / "cmdline").write_bytes(cmdline)
    (folder / "stat").write_text(f"{pid} ({comm}) S 1 {pid} 4711 34816 {pid} 4194560 1 0 0 0\n")
    (folder / "cgroup").write_text(cgroup)
    return folder


def add_gpu(root: Path, address: str, information: str | None) -> None:
    folder = root / "driver/nvidia/gpus" / address
    folder.mkdir(parents=True)
    if information is not None:
        (folder / "information").write_text(information)


def information(uuid: str, address: str, minor: int) -> str:
    return (
        "Model: \t\t NVIDIA H100 80GB HBM3\n"
        "IRQ:   \t\t 312\n"
        f"GPU UUID: \t {uuid}\n"
        "Video BIOS: \t 96.00.89.00.01\n"
        "Bus Type: \t PCIe\n"
        f"Bus Location: \t {address}\n"
        f"Device Minor: \t {minor}\n"
        "GPU Excluded:\t No\n"
    )


def test_a_holder_has_its_command_and_session(tmp_path: Path) -> None:
    add_process(tmp_path, 77)
    want = Holder(pid=77, command="python3 train.py", session=4711, container_id=None, pod_uid=None)
    assert ProcFs(str(tmp_path)).holder(77) == want


@pytest.mark.parametrize("comm", ["a) S 9 9 9 (b", "tmux: server", "(sd-pam)", ") "])
def test_brackets_in_a_name_do_not_move_the_session(tmp_path: Path, comm: str) -> None:
    add_process(tmp_path, 77, comm=comm)
    holder = ProcFs(str(tmp_path)).holder(77)
    assert holder is not None
    assert holder.session == 4711


def test_a_process_without_a_command_line_has_its_name(tmp_path: Path) -> None:
    add_process(tmp_path, 77, comm="nvidia-persiste", cmdline=b"")
    holder = ProcFs(str(tmp_path)).holder(77)
    assert holder is not None
    assert holder.command == "nvidia-persiste"


def test_a_command_is_cut_at_256_characters_and_holds_no_control_character(tmp_path: Path) -> None:
    add_process(tmp_path, 77, cmdline=b"\x1b[31mrun\nme\0" + b"x" * 1000 + b"\0")
    holder = ProcFs(str(tmp_path)).holder(77)
    assert holder is not None
    assert holder.command is not None
    assert len(holder.command) == 256
    assert holder.command.startswith("[31mrun me xxx")


def test_a_process_that_is_gone_is_none(tmp_path: Path) -> None:
    assert ProcFs(str(tmp_path)).holder(77) is None


@pytest.mark.parametrize("lost", ["comm", "cmdline", "stat", "cgroup"])
def test_a_process_that_goes_while_it_is_read_is_none(tmp_path: Path, lost: str) -> None:
    (add_process(tmp_path, 77) / lost).unlink()
    assert ProcFs(str(tmp_path)).holder(77) is None


@pytest.mark.parametrize(
    ("path", "container", "pod"),
    [
        (f"0::/kubepods/burstable/pod{UID}/{ID_A}", ID_A, UID),
        (f"0::/kubepods/pod{UID}/{ID_A}", ID_A, UID),
        (f"0::/kubepods/besteffort/pod{STATIC}/{ID_A}", ID_A, STATIC),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID_A}.scope",
            ID_A,
            UID,
        ),
        (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID_A}.scope", ID_A, UID),
        (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID_A}.scope/container", ID_A, UID),
        (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/docker-{ID_A}.scope", ID_A, UID),
        (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{ID_A}.scope", None, UID),
        (f"0::/system.slice/containerd.service/kubepods-pod{UID_}.slice:cri-containerd:{ID_A}", ID_A, UID),
        (f"0::/k3s.slice/kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID_A}.scope/init.scope", ID_A, UID),
        (f"0::/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID_A}.scope", ID_A, UID),
        (f"0::/docker/{ID_A}/kubelet/kubepods/burstable/pod{UID}/{ID_B}", ID_B, UID),
        (f"0::/kubepods/pod{UID}/{ID_A}/docker/{ID_B}", ID_A, UID),
        (f"0::/docker/{ID_A}", ID_A, None),
        (f"0::/system.slice/docker-{ID_A}.scope", ID_A, None),
        (f"0::/machine.slice/libpod-{ID_A}.scope/container", ID_A, None),
        (f"12:pids:/\n5:devices:/kubepods/burstable/pod{UID}/{ID_A}\n1:name=systemd:/kubepods/x\n0::/", ID_A, UID),
        ("0::/user.slice/user-1000.slice/session-3.scope", None, None),
        ("0::/system.slice/podman.service", None, None),
        ("", None, None),
    ],
)
def test_container_and_pod_are_found_in_every_layout(
    tmp_path: Path, path: str, container: str | None, pod: str | None
) -> None:
    add_process(tmp_path, 77, cgroup=path + "\n")
    holder = ProcFs(str(tmp_path)).holder(77)
    assert holder is not None
    assert (holder.container_id, holder.pod_uid) == (container, pod)


def test_this_very_process_is_found_in_the_real_tree() -> None:
    holder = ProcFs().holder(os.getpid())
    assert holder is not None
    assert holder.session == os.getsid(0)
    assert holder.command is not None
    assert "python" in holder.command or "pytest" in holder.command


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, only root can become one")
def test_what_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)
    (add_process(tmp_path, 77) / "cgroup").chmod(0)
    os.seteuid(65534)
    try:
        holder = ProcFs(str(tmp_path)).holder(77)
    finally:
        os.seteuid(0)
    assert holder == Holder(pid=77, command="python3 train.py", session=4711, container_id=None, pod_uid=None)


def test_gpus_are_counted_in_pci_order(tmp_path: Path) -> None:
    for minor, address in ((1, "0000:5e:00.0"), (0, "0000:0a:00.0"), (2, "10000:01:00.0"), (3, "0002:00:1f.0")):
        add_gpu(tmp_path, address, information(f"GPU-0000000{minor}-1111-2222-3333-444444444444", address, minor))
    gpus = ProcFs(str(tmp_path)).gpus()
    assert [(gpu.index, gpu.pci, gpu.minor) for gpu in gpus] == [
        (0, "0000:0a:00", 0),
        (1, "0000:5e:00", 1),
        (2, "0002:00:1f", 3),
        (3, "10000:01:00", 2),
    ]
    assert gpus[0] == Gpu(
        index=0,
        pci="0000:0a:00",
        uuid="GPU-00000000-1111-2222-3333-444444444444",
        model="NVIDIA H100 80GB HBM3",
        minor=0,
    )


@pytest.mark.parametrize(
    "said", [None, "", "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"]
)
def test_a_gpu_that_the_driver_says_little_of_keeps_its_place(tmp_path: Path, said: str | None) -> None:
    add_gpu(tmp_path, "0000:0a:00.0", said)
    add_gpu(tmp_path, "0000:5e:00.0", information("GPU-1", "0000:5e:00.0", 1))
    lost, good = ProcFs(str(tmp_path)).gpus()
    assert (lost.index, lost.pci, lost.uuid, lost.minor) == (0, "0000:0a:00", None, None)
    assert (good.index, good.uuid) == (1, "GPU-1")


@pytest.mark.parametrize("word", ["GPU Excluded", "Blacklisted"])
def test_a_gpu_that_the_driver_leaves_alone_is_none_of_ours_and_is_not_counted(tmp_path: Path, word: str) -> None:
    for minor, (address, excluded) in enumerate(
        [("0000:3b:00.0", "No"), ("0000:5e:00.0", "Yes"), ("0000:86:00.0", "No")]
    ):
        told = information(f"GPU-{minor}", address, minor)
        add_gpu(tmp_path, address, f"{told}{word}:\t {excluded}\n")
    assert [(gpu.index, gpu.pci) for gpu in ProcFs(str(tmp_path)).gpus()] == [(0, "0000:3b:00"), (1, "0000:86:00")]


def test_without_a_driver_there_are_no_gpus_and_no_version(tmp_path: Path) -> None:
    assert ProcFs(str(tmp_path)).gpus() == ()
    assert ProcFs(str(tmp_path)).driver_version() is None


def test_something_else_in_place_of_the_list_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/gpus").touch()
    with pytest.raises(Unreachable, match=r"cannot be read .Not a directory.; try again when the driver answers"):
        ProcFs(str(tmp_path)).gpus()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, only root can become one")
def test_a_list_or_version_without_permission_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)
    add_gpu(tmp_path, "0000:0a:00.0", "")
    version = tmp_path / "driver/nvidia/version"
    version.touch()
    version.chmod(0)
    (tmp_path / "driver/nvidia/gpus").chmod(0)
    os.seteuid(65534)
    try:
        with pytest.raises(Refused, match="gpus may not be read by this user; run as root"):
            ProcFs(str(tmp_path)).gpus()
        with pytest.raises(Refused, match="version may not be read by this user; run as root"):
            ProcFs(str(tmp_path)).driver_version()
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Fri Jan  2 03:04:05 UTC 2026", "470.57.02"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.51.02  Release Build  (someone@)", "575.51.02"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  610.3  Release Build", "610.3"),
        ("something else", None),
    ],
)
def test_the_driver_version_is_found_in_both_wordings(tmp_path: Path, line: str, version: str | None) -> None:
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(f"{line}\nGCC version:  gcc version 13.2.0\n")
    assert ProcFs(str(tmp_path)).driver_version() == version
