"""What a qualify works with: its ports over this machine, and what the state folder keeps. No try is made here."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.fabric import Fabric
from gpuward.adapters.holding import DeviceHolders
from gpuward.adapters.lock import FolderLock
from gpuward.adapters.nvml import Nvml
from gpuward.adapters.procfs import ProcFs
from gpuward.adapters.roads import Roads
from gpuward.adapters.smi import Smi
from gpuward.adapters.smi_probe import SmiProbe
from gpuward.adapters.store import JsonFile
from gpuward.adapters.sysfs import Sysfs
from gpuward.adapters.systemd import Systemd
from gpuward.agent.candidate import Server
from gpuward.agent.qualify import Probe
from gpuward.agent.unfinished import REMEDY, Undoing
from gpuward.isolation.packed import unpack_case
from gpuward.isolation.saved import SavedError
from gpuward.model.case import ENDED
from gpuward.ports import Holders, Refused, Store

QUALIFIED = "qualified.json"
QUALIFYING = "qualifying.json"


@dataclass(frozen=True, slots=True)
class QualifyGear:
    """The ports of a qualify, and what it knows of the server before it."""

    undoing: Undoing
    holders: Holders
    probe: Probe
    qualified: Store
    server: Server


@contextmanager
def qualify_gear(asked: argparse.Namespace) -> Iterator[QualifyGear]:
    """Return the gear of a qualify on this machine; the state folder is locked while the body runs, so no agent works.

    Raises Refused while an agent runs with this state folder, with what to do.
    """
    folder = Path(asked.state_dir)
    lock = _locked(asked.state_dir)
    proc = ProcFs(asked.proc_root)
    clock = SystemClock()
    nvml = Nvml(inventory=proc)
    fabric = Fabric(asked.sys_root, asked.proc_root)
    try:
        yield QualifyGear(
            undoing=Undoing(
                driver=Roads(nvml, Smi(), Sysfs(asked.sys_root), clock=clock),
                services=Systemd(),
                clock=clock,
                marks=marks_store(folder),
            ),
            holders=DeviceHolders(asked.proc_root, asked.dev_root),
            probe=SmiProbe(proc=asked.proc_root, dev=asked.dev_root),
            qualified=qualified_store(folder),
            server=Server(
                listed=proc.gpus(),
                cases=_open_cases(folder),
                switches=fabric.has_switches(),
                fabric_manager=fabric.has_manager(),
            ),
        )
    finally:
        nvml.close()
        lock.give_back()


def marks_store(folder: Path) -> Store:
    """Return where a qualify writes down what it changes."""
    return JsonFile(str(folder / QUALIFYING), remedy=REMEDY)


def qualified_store(folder: Path) -> Store:
    """Return where it is kept on which models and drivers a reset was proven."""
    return JsonFile(str(folder / QUALIFIED), remedy="delete it and qualify again")


def _locked(state_dir: str) -> FolderLock:
    lock = FolderLock(state_dir)
    try:
        lock.take()
    except Refused as error:
        if not isinstance(error.__cause__, BlockingIOError):
            raise
        whose = str(error).partition(";")[0]
        raise Refused(f"{whose}: stop it (`systemctl stop gpuward`), qualify, then start it again") from error
    return lock


def _open_cases(folder: Path) -> frozenset[str]:
    """Return the GPUs that an agent has an open case on, for it will go on with them."""
    saved = JsonFile(str(folder / "cases.json")).load()
    try:
        cases = [unpack_case(one) for one in (saved or {"cases": []})["cases"]]
    except (SavedError, KeyError, TypeError) as error:
        raise Refused(f"the agent's saved cases cannot be used ({error}); see what an agent says of them") from error
    return frozenset(case.gpu for case in cases if case.state not in ENDED)
