"""A pretend GPU server: its kernel log, written live with invented lines, and the part of /proc that a watch looks at.

The shapes follow the NVIDIA open driver 595.45.04; every host, process, UUID and address is made up.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HOST = "gpu-17"
ADDRESSES = ("0a:00", "18:00", "3b:00", "44:00", "87:00", "ab:00", "b8:00", "c4:00")
"""Bus and device of its eight GPUs, in PCI order: index 5 is 0000:ab:00."""
_CONTAINER = "9f2c" * 16


@dataclass(frozen=True, slots=True)
class Process:
    """A pretend process that holds a GPU."""

    pid: int
    name: str
    command: str
    session: int
    pod: str


TRAIN = Process(
    pid=41237,
    name="python3",
    command="python3 train.py --nodes 4",
    session=41237,
    pod="0d6ac9f2-6a34-4c59-9a7e-5b1f3c2d8e71",
)
SERVE = Process(
    pid=52004, name="serve", command="serve --model small", session=52004, pod="71b0e5d4-02c8-4e0a-b3f6-8c9d1a2e4f60"
)
NOTEBOOK = Process(
    pid=60991, name="jupyter-lab", command="jupyter-lab", session=60990, pod="c4a8f713-9e55-4b7d-8f21-6d0e3b5a9c17"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A log line at `seconds` of record time; `says` tells a reader what happens, before the first line of a scene."""

    seconds: float
    text: str
    says: str | None = None


def uuid_of(index: int) -> str:
    """Return the invented UUID of a GPU."""
    return f"GPU-{index:08x}-1111-4222-8333-{index:012x}"


def _nvrm(seconds: float, index: int, text: str, *, says: str | None = None) -> Line:
    return Line(seconds, f"kernel: NVRM: Xid (PCI:0000:{ADDRESSES[index]}): {text}", says)


def _of(process: Process) -> str:
    return f"pid={process.pid}, name={process.name}"


def story() -> Iterator[Line]:
    """Yield what the server's log says, in the order of its record times."""
    yield Line(0, "kernel: NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build")
    for index in range(len(ADDRESSES)):
        yield Line(0.01, f"kernel: NVRM: GPU at PCI:0000:{ADDRESSES[index]}: {uuid_of(index)}")
    yield from _lost()
    yield from _bad_program()
    yield from _alone()
    yield from _false_friends()
    for seconds in (150, 165, 180, 195):
        yield Line(seconds, "systemd[1]: Started a housekeeping job.")


def _lost() -> Iterator[Line]:
    lost = "0000:ab:00"
    yield _nvrm(
        10,
        5,
        f"79, {_of(TRAIN)}, GPU has fallen off the bus.",
        says="GPU 5 falls off the bus, and others follow from it",
    )
    yield Line(10.001, f"kernel: NVRM: GPU {lost}.0: GPU has fallen off the bus.")
    yield _nvrm(10.2, 5, "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    yield _nvrm(10.3, 5, f"45, {_of(TRAIN)}, Ch 00000008")
    yield _nvrm(10.4, 5, f"45, {_of(TRAIN)}, Ch 00000009")


def _bad_program() -> Iterator[Line]:
    fault = "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_3 faulted @ 0x7f12_34560000."
    kind = " Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    yield _nvrm(40, 2, f"31, {_of(NOTEBOOK)}, {fault}{kind}", says="a program on GPU 2 reads where it may not")
    for channel in range(16, 40):
        yield _nvrm(40.1 + channel / 100, 2, f"45, {_of(NOTEBOOK)}, Ch {channel:08x}")


def _alone() -> Iterator[Line]:
    yield _nvrm(75, 1, f"45, {_of(SERVE)}, Ch 00000003", says="a lone Xid 45 on GPU 1: it waits 60 s for a cause")
    yield Line(100, "systemd[1]: Started a housekeeping job.")
    yield Line(120, "systemd[1]: Started a housekeeping job.")


def _false_friends() -> Iterator[Line]:
    yield Line(
        140,
        f"node-check[2211]: found in the log: NVRM: Xid (PCI:0000:{ADDRESSES[0]}): 79, GPU has fallen off the bus.",
        says="false friends: a health check that quotes an Xid, and a network card with an XID of its own",
    )
    yield Line(141, "kernel: r8169 0000:05:00.0 eth0: RTL8168, XID 641, IRQ 44")


def write_log(path: Path, *, speed: float, tell: Callable[[Line], None]) -> None:
    """Write the story to `path` as it happens, `speed` times as fast as its record times; `tell` hears each line."""
    started = time.time()  # noqa: TID251  a pretend server has a clock of its own
    began = time.monotonic()
    with path.open("a", encoding="utf-8") as log:
        for line in story():
            time.sleep(max(0.0, line.seconds / speed - (time.monotonic() - began)))
            tell(line)
            stamp = datetime.fromtimestamp(started + line.seconds, UTC).isoformat(timespec="microseconds")
            log.write(f"{stamp} {HOST} {line.text}\n")
            log.flush()


def build_proc(root: Path) -> None:
    """Lay out the part of /proc that tells GPUs and processes of this server."""
    gpus = root / "driver" / "nvidia" / "gpus"
    for index, address in enumerate(ADDRESSES):
        folder = gpus / f"0000:{address}.0"
        folder.mkdir(parents=True)
        folder.joinpath("information").write_text(
            f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t {100 + index}\nGPU UUID: \t {uuid_of(index)}\n"
            f"Bus Type: \t PCIe\nBus Location: \t 0000:{address}.0\nDevice Minor: \t {index}\n",
            encoding="utf-8",
        )
    for process in (TRAIN, SERVE, NOTEBOOK):
        folder = root / str(process.pid)
        folder.mkdir()
        folder.joinpath("comm").write_text(f"{process.name}\n", encoding="utf-8")
        folder.joinpath("cmdline").write_text(process.command.replace(" ", "\0") + "\0", encoding="utf-8")
        folder.joinpath("stat").write_text(
            f"{process.pid} ({process.name}) S 1 {process.pid} {process.session} 0 -1 4194304\n", encoding="utf-8"
        )
        folder.joinpath("cgroup").write_text(
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{process.pod.replace('-', '_')}.slice/"
            f"cri-containerd-{_CONTAINER}.scope\n",
            encoding="utf-8",
        )
