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
from gpuward.adapters.fabric import Fabric
from gpuward.adapters.holding import DeviceHolders
from gpuward.adapters.lock import FolderLock
from gpuward.adapters.nvml import Nvml
from gpuward.adapters.podresources import KubeletPods
from gpuward.adapters.processes import ProcessTable
from gpuward.adapters.ring import kernel_log_text
from gpuward.adapters.roads import Roads
from gpuward.adapters.smi import Smi
from gpuward.adapters.store import JsonFile
from gpuward.adapters.sysfs import Sysfs
from gpuward.adapters.systemd import Systemd
from gpuward.agent.bench import Tools
from gpuward.agent.member import Chest
from gpuward.agent.order_book import REMEDY as ORDERS_REMEDY
from gpuward.agent.outbox import REMEDY as OUTBOX_REMEDY
from gpuward.agent.outfit import Keeping, Senses
from gpuward.agent.pauses import REMEDY as PAUSES_REMEDY
from gpuward.agent.portraits import REMEDY as PORTRAITS_REMEDY
from gpuward.agent.standalone import CASES_REMEDY
from gpuward.agent.survey import Known
from gpuward.agent.unfinished import Undoing, undo_unfinished
from gpuward.agent.watch import Outside
from gpuward.cli import wiring
from gpuward.cli.wiring.qualifying import marks_store, qualified_store
from gpuward.model.qualified import read_qualified
from gpuward.ports import Exporter
from gpuward.settings import AgentSettings

HAPPENINGS_READ = 10_000
"""Lines of the journal that a story is looked for in."""


@dataclass(frozen=True, slots=True)
class Gear:
    """What an agent reaches its machine through, and where it keeps what it knows."""

    outside: Outside
    tools: Tools
    senses: Senses
    keeping: Keeping
    chest: Chest
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
def gear_of(asked: argparse.Namespace, settings: AgentSettings, warn: Callable[[str], None]) -> Iterator[Gear]:
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
    roads = Roads(nvml, Smi(receipts=str(folder / "receipts")), Sysfs(asked.sys_root), clock=outside.clock)
    chronicle = JsonLines(str(folder / "journal.jsonl"))
    services, table = Systemd(), ProcessTable(asked.proc_root)
    pauses = JsonFile(str(folder / "pauses.json"), remedy=PAUSES_REMEDY)
    try:
        undoing = Undoing(driver=roads, services=services, clock=outside.clock, marks=marks_store(folder))
        undone = undo_unfinished(undoing)
        for sentence in (*undone.done, *undone.trouble):
            warn(sentence)
        yield Gear(
            outside=outside,
            tools=Tools(
                driver=roads,
                holders=DeviceHolders(asked.proc_root, asked.dev_root),
                services=services,
                evidence=EvidenceFolder(str(folder / "evidence")),
                clock=outside.clock,
                check=CheckCommand(settings.check_command, deadline_seconds=settings.check_seconds).run
                if settings.check_command
                else None,
                kernel_log=lambda: kernel_log_text(name),
                processes=table.text,
                lineage=table.lineage,
            ),
            senses=Senses(
                exporter=_exporter(settings.dcgm_url),
                painter=Smi(),
                portraits=JsonFile(str(folder / "portraits.json"), remedy=PORTRAITS_REMEDY),
                known=Known(
                    qualified=read_qualified(qualified_store(folder).load()),
                    reset_unqualified=settings.reset_unqualified,
                    display_told=settings.work_on_displays,
                    fabric=Fabric(asked.sys_root, asked.proc_root),
                ),
                kubelet=None if asked.standalone else KubeletPods(asked.kubelet_socket),
            ),
            keeping=Keeping(
                cases=JsonFile(str(folder / "cases.json"), remedy=CASES_REMEDY),
                pauses=pauses,
                chronicle=chronicle,
            ),
            chest=Chest(
                orders=JsonFile(str(folder / "orders.json"), remedy=ORDERS_REMEDY),
                outbox=JsonFile(str(folder / "outbox.json"), remedy=OUTBOX_REMEDY),
                pauses=pauses,
                chronicle=chronicle,
            ),
            happenings=lambda: chronicle.newest(HAPPENINGS_READ),
            socket=str(folder / wiring.SOCKET),
        )
    finally:
        nvml.close()
        lock.give_back()


def _exporter(url: str | None) -> Exporter | None:
    if url is None:
        return None
    from gpuward.adapters.dcgm import DcgmExporter  # noqa: PLC0415  a third of an agent's memory that few need

    return DcgmExporter(url)
