"""Readings through the NVML library, asked by one child that may be killed. What is done to a GPU is not here.

The library can hang for ever in the driver; then the child is killed with its group, and the next reading starts
another. Never more than one is alive.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from gpuward.adapters.child import LONGEST_BYTES, Deadline, Hung, Kill, Slot, pipes, within
from gpuward.model.gpu import Gpu, read_pci
from gpuward.model.node import EccCounts, GpuReading, NodeReading, NvLink, Pcie, Remap
from gpuward.ports import EdgeError, Inventory, Refused, Unreachable

ROAD = "nvml"
_CHILD = (sys.executable, "-P", "-m", "gpuward.adapters.nvml_child")
"""-P: the working directory is no place to import from."""
_READ_BYTES = 64 * 1024
_MB_PER_GB = 1000
RECOVERY = {
    0: "None",
    1: "Reset",
    2: "Reboot",
    3: "Drain P2P",
    4: "Drain and Reset",
    5: "Recover IMEX Domain",
    6: "Bus Reset",
    7: "System Reboot",
}
"""nvmlDeviceGpuRecoveryAction_t (nvml.h) in the words of nvidia-smi."""


class Nvml:
    """Reads all GPUs by NVML within a deadline.

    A GPU that is lost has no address in NVML; it gets the one that `inventory` lists and no other GPU has, where there
    is no doubt about it. Where there is, it is left out.
    """

    def __init__(
        self,
        command: Sequence[str] = _CHILD,
        environment: Mapping[str, str] | None = None,
        *,
        inventory: Inventory | None = None,
        kill: Kill = os.killpg,
    ) -> None:
        self._slot = Slot(command, environment, kill=kill)
        self._inventory = inventory
        self._turn = threading.Lock()

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return all GPUs that NVML shows.

        Raises Hung when it does not answer in time, Refused without the package or the library, Unreachable without
        the driver.
        """
        deadline = within(deadline_seconds)
        if not self._turn.acquire(timeout=deadline.rest()):
            raise Hung(f"another reading by NVML has been going on for {deadline_seconds:g} s; try again later")
        try:
            answer = self._ask(deadline)
        finally:
            self._turn.release()
        return self._reading(answer)

    def close(self) -> None:
        """End the child; a later reading starts another."""
        with self._turn:
            self._slot.end()

    def _ask(self, deadline: Deadline) -> Mapping[str, Any]:
        try:
            child = self._slot.child or self._slot.start()
            with contextlib.suppress(BrokenPipeError):  # it has ended, and _line finds that out
                os.write(pipes(child)[0], b"read\n")
            line = _line(child, deadline)
        except BaseException:
            self._slot.end()
            raise
        try:
            answer = json.loads(line)
        except ValueError as error:
            self._slot.end()
            raise Unreachable(
                "the child that asks NVML ended or said what is no answer; it is started again"
            ) from error
        if refused := answer.get("refused"):
            raise Refused(refused)
        if unreachable := answer.get("unreachable"):
            raise Unreachable(unreachable)
        return dict(answer)

    def _reading(self, answer: Mapping[str, Any]) -> NodeReading:
        told = answer["gpus"]
        places = [_place(gpu) for gpu in told]
        if None in places:
            places = self._completed(places)
        return NodeReading(
            road=ROAD,
            driver_version=answer["driver"],
            cuda_version=answer["cuda"],
            gpus=tuple(_gpu(gpu, pci) for gpu, pci in zip(told, places, strict=True) if pci),
        )

    def _completed(self, places: Sequence[str | None]) -> list[str | None]:
        """Give the nameless ones the listed addresses that are left over, in PCI order, when the numbers agree.

        A drained GPU is listed too and not in NVML; then the numbers differ.
        """
        listed: Sequence[Gpu] = ()
        if self._inventory:
            with contextlib.suppress(EdgeError):
                listed = self._inventory.gpus()
        left = [gpu.pci for gpu in listed if gpu.pci not in places]
        if len(left) != sum(place is None for place in places):
            return list(places)
        rest = iter(left)
        return [place or next(rest) for place in places]


def _line(child: subprocess.Popen[bytes], deadline: Deadline) -> bytes:
    """Return the child's one line; what it had said when it ended instead."""
    _, answers, complaints = pipes(child)
    waiting = select.poll()
    for pipe in (answers, complaints):
        waiting.register(pipe, select.POLLIN)
    heard = b""
    while not heard.endswith(b"\n"):
        ready = {pipe for pipe, _ in waiting.poll(deadline.rest() * 1000)}
        if not ready:
            raise Hung(f"NVML did not answer within {deadline.seconds:g} s and was killed; try again later")
        if complaints in ready and not os.read(complaints, _READ_BYTES):
            waiting.unregister(complaints)
        if answers in ready:
            chunk = os.read(answers, _READ_BYTES)
            heard += chunk
            if not chunk:
                break
        if len(heard) > LONGEST_BYTES:
            raise Refused(f"the child that asks NVML said more than {LONGEST_BYTES >> 20} MiB; it is started again")
    return heard


def _place(gpu: Mapping[str, Any]) -> str | None:
    address = read_pci(gpu.get("pci") or "")
    return address.pci if address else None


def _gpu(told: Mapping[str, Any], pci: str) -> GpuReading:
    get = told.get
    recovery = get("recovery")
    return GpuReading(
        index=get("index"),
        pci=pci,
        uuid=get("uuid"),
        minor=get("minor"),
        model=get("model"),
        persistence=get("persistence"),
        display_active=get("display"),
        mig=get("mig"),
        ecc=EccCounts(volatile=get("volatile"), aggregate=get("aggregate")),
        remap=Remap(pending=get("pending"), failed=get("failed")),
        recovery_action=None if recovery is None else RECOVERY.get(recovery, f"Unknown ({recovery})"),
        links=tuple(
            NvLink(link=link, active=active, speed_gb_per_second=None if speed is None else speed / _MB_PER_GB)
            for link, active, speed in get("links", ())
        ),
        pcie=Pcie(
            generation=get("generation"),
            generation_max=get("generation_max"),
            width=get("width"),
            width_max=get("width_max"),
        ),
        lost=bool(told["lost"]),
        mig_uuids=None if get("mig_uuids") is None else tuple(filter(None, told["mig_uuids"])),
    )
