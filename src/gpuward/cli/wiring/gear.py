"""What an agent works with: its ports over this machine, and its state folder. The loop is in agent.standalone."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuward.adapters.check import CheckCommand
from gpuward.adapters.chronicle import JsonLines
from gpuward.adapters.doorway import Doorway
from gpuward.adapters.evidence import EvidenceFolder
from gpuward.adapters.holding import DeviceHolders
from gpuward.adapters.lock import FolderLock
from gpuward.adapters.nvml import Nvml
from gpuward.adapters.ring import kernel_log_text
from gpuward.adapters.roads import Roads
from gpuward.adapters.smi import Smi
from gpuward.adapters.store import JsonFile
from gpuward.adapters.sysfs import Sysfs
from gpuward.adapters.systemd import Systemd
from gpuward.agent.bench import Tools
from gpuward.agent.pauses import REMEDY as PAUSES_REMEDY
from gpuward.agent.standalone import CASES_REMEDY, Keeping
from gpuward.agent.watch import Outside
from gpuward.cli import wiring


@dataclass(frozen=True, slots=True)
class Gear:
    """What an agent reaches its machine through, and where it keeps what it knows."""

    outside: Outside
    tools: Tools
    keeping: Keeping
    happenings: Callable[[], list[dict[str, Any]]]
    socket: str

    @contextmanager
    def door(self, answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Iterator[None]:
        """Answer people at the socket while the body runs."""
        doorway = Doorway(self.socket, answer)
        doorway.open()
        try:
            yield
        finally:
            doorway.close()


@contextmanager
def gear_of(asked: argparse.Namespace, warn: Callable[[str], None]) -> Iterator[Gear]:
    """Return the gear of an agent on this machine; its state folder is locked while the body runs.

    `warn` gets what a person should know before.
    """
    folder = Path(asked.state_dir)
    name = asked.kernel_log or wiring.default_log()
    lock = FolderLock(asked.state_dir)
    lock.take()
    ports = wiring.live(name, state_dir=asked.state_dir, proc_root=asked.proc_root)
    for note in ports.notes:
        warn(note)
    outside = ports.outside
    nvml = Nvml(inventory=outside.inventory)
    roads = Roads(nvml, Smi(), Sysfs(asked.sys_root), clock=outside.clock)
    chronicle = JsonLines(str(folder / "journal.jsonl"))
    try:
        yield Gear(
            outside=outside,
            tools=Tools(
                driver=roads,
                holders=DeviceHolders(asked.proc_root, asked.dev_root),
                services=Systemd(),
                evidence=EvidenceFolder(str(folder / "evidence")),
                clock=outside.clock,
                check=CheckCommand(asked.check_command, deadline_seconds=asked.check_seconds).run
                if asked.check_command
                else None,
                kernel_log=lambda: kernel_log_text(name),
            ),
            keeping=Keeping(
                cases=JsonFile(str(folder / "cases.json"), remedy=CASES_REMEDY),
                pauses=JsonFile(str(folder / "pauses.json"), remedy=PAUSES_REMEDY),
                chronicle=chronicle,
            ),
            happenings=chronicle.happenings,
            socket=str(folder / wiring.SOCKET),
        )
    finally:
        nvml.close()
        lock.give_back()
