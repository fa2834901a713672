"""A pretend GPU server in a folder: built, harmed, held and healed from outside, as tests and demonstrations do.

What its own programs see and do is in smi and stub.c.
"""

import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gpuward
from gpuward.ports import Refused
from gpuward.sim.machines import act, faults, holders, layout, nvml, store, units
from gpuward.sim.machines.beliefs import beliefs
from gpuward.sim.machines.hold import Hold, start
from gpuward.sim.machines.state import GpuState, MachineState

HOST = "gpu-pretend-1"
DRIVER = "590.48.01"
CUDA = "13.1"
COMMANDS = frozenset(
    {"drain", "persistence", "reset", "query", "query-gpu", "list", "topo", "nvlink", "version", "nvml"}
)
"""What can be made to hang."""

_BUSES = (0x0A, 0x18, 0x3B, 0x44, 0x87, 0xAB, 0xB8, 0xC4)
_SLICES = 7
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine by its folder; all that it is stands in there, so that two of these may speak of the same one."""

    folder: Path

    @property
    def log(self) -> Path:
        """Return the kernel log, a file that lines are appended to."""
        return self.folder / "kern.log"

    @property
    def dev(self) -> Path:
        """Return the folder of the device files, which are ordinary files."""
        return self.folder / "dev"

    @property
    def proc(self) -> Path:
        """Return a /proc that holds what the driver tells there, and no process."""
        return self.folder / "proc"

    @property
    def smi(self) -> Path:
        """Return the stub nvidia-smi."""
        return self.folder / "bin" / "nvidia-smi"

    def nvml(self) -> Path:
        """Return the stub NVML, built when it is not there yet. Raises Refused without a C compiler."""
        library = self.folder / "lib" / nvml.NAME
        if not library.exists():
            nvml.install(library.parent)
        return library

    def environment(self) -> dict[str, str]:
        """Return our environment with the stubs first on PATH and LD_LIBRARY_PATH."""
        first = {"PATH": str(self.smi.parent), "LD_LIBRARY_PATH": str(self.folder / "lib")}
        old = os.environ
        return {**old, **{key: os.pathsep.join(filter(None, (path, old.get(key)))) for key, path in first.items()}}

    def state(self) -> MachineState:
        """Return what the machine is now."""
        return store.read(str(self.folder))

    def change(self, **fields: Any) -> MachineState:
        """Replace fields of the machine, such as fabric_manager, guest, root or loaded."""
        return store.change(str(self.folder), lambda now: replace(now, **fields))

    def change_gpu(self, gpu: int, **fields: Any) -> MachineState:
        """Replace fields of the GPU at that place, counted with the hidden ones."""
        return store.change(str(self.folder), lambda now: now.with_gpu(replace(now.gpus[gpu], **fields)))

    def set(self, belief: str, holds: bool) -> None:  # noqa: FBT001  read as machine.set("drain-hides", False)
        """Make the machine behave as a belief says, or not. Raises Refused for a belief that is not in the table."""
        if belief not in beliefs():
            raise Refused(f"No belief is called {belief}: choose one of {', '.join(beliefs())}.")
        self._turn("doubted", belief, on=not holds)

    def hang(self, command: str, *, on: bool = True) -> None:
        """Let a command of nvidia-smi, or all of NVML, never answer. Raises Refused for an unknown one."""
        if command not in COMMANDS:
            raise Refused(f"Nothing is called {command}: choose one of {', '.join(sorted(COMMANDS))}.")
        self._turn("hanging", command, on=on)

    def inject(self, gpu: int, code: int, *, recovery: int | None = None, now: float | None = None) -> tuple[str, ...]:
        """Let a GPU suffer a fault and log it; return the lines. `recovery` is the action that a 154 changes to.

        Raises Refused for a code that has no row.
        """
        if code not in faults.codes():
            raise Refused(f"No fault has the code {code}: choose one of {', '.join(map(str, faults.codes()))}.")
        said: list[str] = []

        def suffer(machine: MachineState) -> MachineState:
            before = machine.gpus[gpu]
            after = faults.suffer(machine, before, code, recovery=recovery)
            said.extend(faults.lines(machine, before, after, code=code, who=self._who(before)))
            return machine.with_gpu(after)

        store.change(str(self.folder), suffer)
        self._append(said, time.time() if now is None else now)  # noqa: TID251  a pretend server has a clock of its own
        return tuple(said)

    def heal(self, gpu: int) -> None:
        """Make a GPU as good as new, as a power cycle and a mended cable do: also a lost one, and its broken rows."""

        def mend(machine: MachineState) -> MachineState:
            well = replace(act.after_reset(machine, machine.gpus[gpu]), remap_failed=False, recovery=0)
            resets = machine.gpus[gpu].resets
            generation = int(machine.model["gen"])
            return machine.with_gpu(
                replace(well, pcie_generation=generation, pcie_width=16, drained=False, resets=resets)
            )

        store.change(str(self.folder), mend)

    def hold(self, gpu: int, name: str = "python3", *, mapped_only: bool = False) -> Hold:
        """Start a process that has the GPU open and mapped, and return it when it has; a context manager stops it.

        Raises Refused for a drained GPU: the driver lets no new client on.
        """
        machine = self.state()
        held = machine.gpus[gpu]
        if held.drained and machine.holds("drain-refuses-new"):
            raise Refused(f"GPU {held.pci} is drained and takes no new process: let it on first.")
        hold = start(self.dev / f"nvidia{held.minor}", name=name, mapped_only=mapped_only)
        # The machine's own /proc shows its own processes only; the link hangs in the air when they are gone.
        (self.proc / str(hold.pid)).unlink(missing_ok=True)
        (self.proc / str(hold.pid)).symlink_to(f"/proc/{hold.pid}")
        return hold

    def service(self, unit: str, process: str) -> None:
        """Add a systemd unit that runs a process of this name, which has every GPU open; `end_services` ends it."""
        units.add(self.folder, unit, process=process)

    def runs(self, unit: str) -> bool:
        """Return whether a service runs."""
        return units.is_running(self.folder, unit)

    def end_services(self) -> None:
        """End the processes of every service; they would outlive us."""
        units.stop_all(self.folder)

    def _turn(self, field: str, word: str, *, on: bool) -> None:
        def turned(machine: MachineState) -> MachineState:
            rest = tuple(each for each in getattr(machine, field) if each != word)
            change: dict[str, Any] = {field: (*rest, word) if on else rest}
            return replace(machine, **change)

        store.change(str(self.folder), turned)

    def _who(self, gpu: GpuState) -> str:
        """Return the process that the driver would name: the first that holds the GPU."""
        pids = holders.of(str(self.dev)).get(gpu.minor, ())
        if not pids:
            return faults.NOBODY
        return f"pid={pids[0]}, name={Path(f'/proc/{pids[0]}/comm').read_text('utf-8').strip()}"

    def _append(self, lines: list[str], now: float) -> None:
        stamp = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
        with self.log.open("a", encoding="utf-8") as log:
            log.write("".join(f"{stamp} {HOST} kernel: {line}\n" for line in lines))


def build(
    folder: Path | str, model: str = "H100", *, count: int = 8, mig: bool = False, driver: str = DRIVER
) -> Machine:
    """Lay out a healthy machine in a folder, made when it is not there. Raises Refused for an unknown model."""
    models = {row["key"]: row for row in layout.table("models.csv")}
    if model not in models:
        raise Refused(f"No pretend GPU is called {model}: choose one of {', '.join(models)}.")
    machine = Machine(Path(folder).resolve())
    for name in ("bin", "lib", "dev", "proc/driver/nvidia/gpus"):
        (machine.folder / name).mkdir(parents=True, exist_ok=True)
    row = models[model]
    gpus = tuple(_gpu(row, index, mig=mig and row["mig"] == "yes") for index in range(count))
    store.write(str(machine.folder), MachineState(model=row, driver=driver, cuda=CUDA, gpus=gpus))
    machine.log.touch()
    _write_program(machine)
    _write_devices(machine)
    return machine


def open(folder: Path | str) -> Machine:  # noqa: A001  read as machine.open(folder)
    """Return the machine that was built in a folder. Raises Refused where there is none."""
    if not (Path(folder) / "state.json").is_file():
        raise Refused(f"No pretend machine is in {folder}: build one there first.")
    return Machine(Path(folder).resolve())


def _gpu(model: Mapping[str, str], index: int, *, mig: bool) -> GpuState:
    bus = _BUSES[index % len(_BUSES)] + index // len(_BUSES)
    return GpuState(
        pci=f"0000:{bus:02x}:00",
        uuid=f"GPU-{0x5EED0000 + index:08x}-7a1e-4c3d-9b2f-{0xC0FFEE00 + index:012x}",
        serial=f"{1329000000100 + index}",
        minor=index,
        mig=mig,
        mig_instances=_SLICES if mig else 0,
        pcie_generation=int(model["gen"]),
    )


def _write_program(machine: Machine) -> None:
    """Write the stub nvidia-smi: Python without its site folder, which alone would be a third of the start."""
    source = Path(gpuward.__file__).parents[1]
    words = (sys.executable, "-S", "-m", "gpuward.sim.machines.smi", "--machine", str(machine.folder))
    machine.smi.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(source))} exec {shlex.join(words)} "$@"\n', encoding="utf-8"
    )
    machine.smi.chmod(0o755)


def _write_devices(machine: Machine) -> None:
    """Write the device files, a page each so that they can be mapped, and what the driver tells in /proc."""
    state = machine.state()
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{gpu.minor}" for gpu in state.gpus)):
        (machine.dev / name).write_bytes(bytes(_PAGE))
    told = machine.proc / "driver" / "nvidia"
    told.joinpath("version").write_text(
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {state.driver}  Release Build\n", encoding="utf-8"
    )
    for gpu in state.gpus:
        folder = told / "gpus" / f"{gpu.pci}.0"
        folder.mkdir(exist_ok=True)
        folder.joinpath("information").write_text(
            f"Model: \t\t {state.model['product_name']}\nGPU UUID: \t {gpu.uuid}\nBus Type: \t PCIe\n"
            f"Bus Location: \t {gpu.pci}.0\nDevice Minor: \t {gpu.minor}\n",
            encoding="utf-8",
        )
