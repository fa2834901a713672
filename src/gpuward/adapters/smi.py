"""The driver's own command line tool, nvidia-smi, as a Driver. What its XML says is read in `smixml`.

The agent's repair steps call this. Every success is looked at: the tool is asked again what it has done.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuward.adapters.child import Deadline, Kill, Program, Said, within
from gpuward.adapters.receipts import Receipts
from gpuward.adapters.smixml import LOST, ROAD, read_smi_xml
from gpuward.model.node import GpuReading, NodeReading
from gpuward.ports import Conflict, EdgeError, Refused, Unreachable

_LONGEST_WORDS = 300
_NOT_PRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")
_NO_DEVICES = "no devices were found"
_LISTED = re.compile(r"(?P<mig>\s+MIG )?.*\(UUID: (?P<uuid>(?:GPU|MIG)-[0-9A-Za-z/-]+)\)\s*")
"""A line of `-L`: a GPU, or below it one of its MIG devices. The document of `-q -x` has these without a UUID."""
_DRAIN_STATE = re.compile(r"\bis:?\s+(not\s+)?draining\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExitCode:
    """One exit code of nvidia-smi: what the tool's manual says it means, and what helps."""

    code: int
    error: type[EdgeError]
    meaning: str
    remedy: str


_LOST = ExitCode(
    15, Refused, "the GPU is lost, it fell off the bus", "reboot, and power the machine off if it stays so"
)
EXIT_CODES = (
    ExitCode(2, Refused, "it does not know this request", "see whether this driver is too old for it"),
    ExitCode(3, Refused, "it is not available on this GPU", "leave it as it is"),
    ExitCode(4, Refused, "no permission", "run as root"),
    ExitCode(6, Refused, "it does not find the GPU", "see whether the GPU is drained or gone from the bus"),
    ExitCode(8, Refused, "a power cable of the GPU is not attached", "attach it"),
    ExitCode(9, Unreachable, "the driver is not loaded", "load it and try again"),
    ExitCode(10, Refused, "the kernel saw trouble with an interrupt of the GPU", "read the kernel log"),
    ExitCode(12, Refused, "the NVML library is missing", "install the libraries of this driver's version"),
    ExitCode(13, Refused, "the NVML library is too old for it", "install the libraries of this driver's version"),
    ExitCode(14, Refused, "the InfoROM of the GPU is corrupt", "have the board replaced"),
    _LOST,
    ExitCode(18, Refused, "library and kernel module are of different versions", "reboot, or reload the kernel module"),
    ExitCode(255, Refused, "it failed", "do as its words say"),
)
"""The nvidia-smi manual, section RETURN VALUE, and nvml.h for 18. A GPU in use is 255: only the words say it."""
_BY_CODE = {row.code: row for row in EXIT_CODES}


class Smi:
    """Implements Driver with the program `nvidia-smi` alone. Never more than one of it is alive.

    `receipts` is the folder that tells which resets were done; without it every reset is done, whatever its key.
    """

    def __init__(
        self,
        program: str = "nvidia-smi",
        environment: Mapping[str, str] | None = None,
        *,
        receipts: str | None = None,
        kill: Kill = os.killpg,
    ) -> None:
        self._program = Program(program, environment, kill=kill)
        self._receipts = None if receipts is None else Receipts(receipts, kill=kill)

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return all GPUs that the tool shows; a drained GPU is not among them.

        When one GPU is lost some drivers print one error line instead of everything: that is Refused.
        """
        deadline = within(deadline_seconds)
        reading = self._read(deadline)
        if not any(gpu.mig for gpu in reading.gpus):
            return reading
        try:
            listed = _mig_uuids(self._run("-L", deadline=deadline).out)
        except EdgeError:
            return reading  # what the document told is worth more than what it lacks
        return replace(
            reading,
            gpus=tuple(replace(gpu, mig_uuids=listed.get(gpu.uuid)) if gpu.mig else gpu for gpu in reading.gpus),
        )

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Return `nvidia-smi -q` of one GPU as it is printed, at most 4 MiB."""
        said = self._run("-q", "-i", _spelled(pci), deadline=within(deadline_seconds))
        return said.out

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Turn persistence mode on or off, and read it back; not with `look` off, when what follows will show it."""
        deadline = within(deadline_seconds)
        refusal = self._attempt("-i", _spelled(pci), "-pm", "1" if on else "0", deadline=deadline)
        if not look and refusal is None:
            return
        if self._one(pci, deadline).persistence is not on:
            raise refusal or Refused(
                f"{self._program.name} says that it turned persistence mode {'on' if on else 'off'} for GPU {pci}, "
                "and it is not so; see whether nvidia-persistenced holds it"
            )

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Drain the GPU or let it on again, and ask whether it is so: it may have been so already.

        The driver refuses to drain while persistence mode is on.
        """
        deadline = within(deadline_seconds)
        refusal = self._attempt("drain", "-p", _spelled(pci), "-m", "1" if on else "0", deadline=deadline)
        if self._is_drained(pci, deadline) is not on:
            raise refusal or Refused(
                f"{self._program.name} says that it {'drained' if on else 'undrained'} GPU {pci}, and it is not so; "
                "see whether its address is right"
            )

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether the GPU is drained, by `drain -q`."""
        return self._is_drained(pci, within(deadline_seconds))

    def reset(self, pci: str, deadline_seconds: float, *, key: str) -> None:
        """Reset the GPU once for each key, and see that the same GPU is there again and answers.

        That is looked at also when the reset itself was done before. Raises Conflict when another GPU answers at its
        address, and Refused without a receipt: what nobody could tell afterwards is not done.
        """
        deadline = within(deadline_seconds)
        request = ("--gpu-reset", "-i", _spelled(pci))
        if self._receipts is None:
            before, said = self._uuid(pci, deadline), self._program.run(*request, deadline=deadline)
        else:
            before, said = self._receipts.once(
                self._program,
                request,
                key=_receipt_key(pci, key),
                note=lambda: self._uuid(pci, deadline),
                deadline=deadline,
            )
        if said.code:
            raise self._refusal(said, " ".join(request))
        self._look_after(pci, before, deadline)

    def has_reset(self, pci: str, *, key: str) -> bool:
        """Return whether a receipt tells that the reset was done or is under way. Raises Refused for a broken one."""
        return self._receipts is not None and self._receipts.tells(_receipt_key(pci, key))

    def _look_after(self, pci: str, before: str | None, deadline: Deadline) -> None:
        after = self._one(pci, deadline)
        if after.lost:
            raise Refused(f"GPU {pci} does not answer after its reset; reboot")
        if before is not None and after.uuid != before:
            raise Conflict(f"GPU {pci} was {before} and is {after.uuid} after its reset; read all GPUs again")

    def _uuid(self, pci: str, deadline: Deadline) -> str | None:
        """Return the UUID; a GPU whose state cannot be read may still be reset."""
        try:
            return self._one(pci, deadline).uuid
        except Refused:
            return None

    def _is_drained(self, pci: str, deadline: Deadline) -> bool:
        said = self._run("drain", "-p", _spelled(pci), "-q", deadline=deadline)
        state = _DRAIN_STATE.search(said.out)
        if state is None:
            raise Refused(f"{self._program.name} does not tell whether GPU {pci} is drained ({_words(said)}); ask it")
        return state[1] is None

    def _one(self, pci: str, deadline: Deadline) -> GpuReading:
        for gpu in self._read(deadline, "-i", _spelled(pci)).gpus:
            if gpu.pci == pci:
                return gpu
        raise Refused(f"{self._program.name} does not show GPU {pci}; see whether it is drained or gone from the bus")

    def _read(self, deadline: Deadline, *selection: str) -> NodeReading:
        said = self._program.run("-q", "-x", *selection, deadline=deadline)
        if _NO_DEVICES in said.out.lower():
            return NodeReading(road=ROAD, driver_version=None, cuda_version=None, gpus=())
        try:
            # A warning in the exit code, such as a corrupt InfoROM, leaves the document whole.
            return read_smi_xml(said.out)
        except Unreachable as error:
            if said.code or "<" not in said.out:
                raise self._refusal(said, "-q -x") from error
            raise

    def _attempt(self, *arguments: str, deadline: Deadline) -> Refused | None:
        """Run it, and return the tool's refusal, for it may be so already."""
        try:
            self._run(*arguments, deadline=deadline)
        except Refused as refusal:
            return refusal
        return None

    def _run(self, *arguments: str, deadline: Deadline) -> Said:
        said = self._program.run(*arguments, deadline=deadline)
        if said.code:
            raise self._refusal(said, " ".join(arguments))
        return said

    def _refusal(self, said: Said, what: str) -> EdgeError:
        words = _words(said)
        name = self._program.name
        if said.code < 0:
            return Unreachable(f"{name} {what} was ended by signal {-said.code} ({words}); try again")
        row = _LOST if LOST in words.lower() else _BY_CODE.get(said.code)
        if row is None:
            return Refused(f"{name} {what} ended with exit code {said.code} ({words}); do as its words say")
        return row.error(f"{name} {what}: {row.meaning} ({words}); {row.remedy}")


def _mig_uuids(listing: str) -> dict[str | None, tuple[str, ...]]:
    """Return the UUIDs of the MIG devices of each GPU, by its own UUID, from the text of `-L`."""
    found: dict[str | None, tuple[str, ...]] = {}
    gpu = None
    for line in filter(None, map(_LISTED.fullmatch, listing.splitlines())):
        if line["mig"] is None:
            gpu = line["uuid"]
            found[gpu] = ()
        elif gpu is not None:
            found[gpu] = (*found[gpu], line["uuid"])
    return found


def _receipt_key(pci: str, key: str) -> str:
    return f"{key}-{pci.replace(':', '.')}"


def _spelled(pci: str) -> str:
    """Spell a canonical address as the tool takes it everywhere: `0000:3F:00.0`."""
    return f"{pci.upper()}.0"


def _words(said: Said) -> str:
    """Return what the tool said on one line, fit for a sentence."""
    text = _NOT_PRINTABLE.sub(" ", f"{said.out} {said.err}").strip()
    return text[:_LONGEST_WORDS].rstrip(". ") or f"it said nothing, exit code {said.code}"
