"""The bench: what a case asks for is done to the machine here, one effect at a time, and looked at. Nothing is decided.

Every effect may be done twice: after a crash it is asked for again, and what is so already is success.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpuward.model.case import Case, Effect, EffectKind, Outcome
from gpuward.model.node import GpuHolder, GpuReading, HolderKind
from gpuward.ports import Clock, Driver, EdgeError, EvidenceRoom, Holders, Refused, Services

LOOK_SECONDS = 2.0
"""The bounded look before a drain: a drained GPU is invisible to programs started later (nvidia-smi manual)."""
DRAIN_SECONDS = 10.0
RESET_SECONDS = 120.0
SERVICE_SECONDS = 60.0
READ_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Remembered:
    """What of a GPU was noted before it was touched: a drained GPU cannot be asked any more."""

    pci: str
    uuid: str | None
    minor: int | None
    persistence: bool | None
    links_active: int
    pcie_width: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an effect."""

    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class Tools:
    """The ports that the bench works with."""

    driver: Driver
    holders: Holders
    services: Services
    evidence: EvidenceRoom
    clock: Clock
    kernel_log: Callable[[], bytes]
    """The kernel log since boot, as evidence."""
    check: Callable[[str, str | None], None] | None = None
    """The user's own proof of a GPU by address and UUID; raises EdgeError when it fails. None: there is none."""
    forget: Callable[[], None] = lambda: None
    """Called when all of them run again."""
    intend: Callable[[tuple[str, ...]], None] = lambda _units: None
    """Takes the units that are about to be stopped, before the first is: they must be started again whatever comes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One effect of a case, with what is remembered of its GPU and what was paused for it."""

    case: Case
    effect: Effect
    gpu: Remembered
    paused: tuple[str, ...]
    lost: bool


def perform(job: Job, tools: Tools) -> Result:
    """Do the effect and return what became of it; no edge error escapes, a refusal is told apart from a failure."""
    try:
        return _DOERS[job.effect.kind](job, tools)
    except Refused as error:
        return Result(Outcome.REFUSED, str(error))
    except EdgeError as error:
        return Result(Outcome.FAILED, str(error))


def work_of(holders: Iterable[GpuHolder]) -> tuple[str, ...]:
    """Return the work among the holders, in words; known services and ourselves are none."""
    return tuple(f"{one.name} (pid {one.pid})" for one in holders if one.kind is HolderKind.WORK)


def _evidence(job: Job, tools: Tools) -> Result:
    """Keep what the tool tells of the GPU, its holders and, before a repair, the kernel log with the faulty line."""
    kept: list[str] = []
    before_repair = job.effect.number > 1
    name = f"{job.effect.number:02d}"
    if not job.lost:
        kept += _described(job, tools, f"{name}-nvidia-smi-q.txt", before_repair=before_repair)
    if job.gpu.minor is not None:
        kept.append(tools.evidence.keep(job.case.id, f"{name}-holders.txt", _holders_text(job.gpu.minor, tools)))
    if before_repair:
        kept.append(tools.evidence.keep(job.case.id, f"{name}-kernel.log", tools.kernel_log()))
    return Result(Outcome.DONE, f"{len(kept)} files")


def _holders_text(minor: int, tools: Tools) -> bytes:
    """Return who holds the GPU, a line each; that nobody may look is evidence too."""
    try:
        holders = tools.holders.of(minor)
    except EdgeError as error:
        return f"not seen: {error}\n".encode()
    lines = [f"{one.pid} {one.kind} {one.name} {one.command} {one.pod_uid} {one.container_id}" for one in holders]
    return "\n".join(lines).encode()


def _described(job: Job, tools: Tools, name: str, *, before_repair: bool) -> list[str]:
    """Return the hash of what the tool tells. Before a drain a tool that is silent is noted and not waited for."""
    try:
        text = tools.driver.describe(job.gpu.pci, READ_SECONDS if before_repair else LOOK_SECONDS)
    except EdgeError as error:
        text = f"not told: {error}\n"
    return [tools.evidence.keep(job.case.id, name, text.encode())]


def _drain(job: Job, tools: Tools) -> Result:
    """Turn persistence mode off, which a drain needs, and drain. A GPU that is drained already cannot be asked."""
    try:
        _drain_now(job, tools)
    except EdgeError as error:
        if tools.driver.is_drained(job.gpu.pci, DRAIN_SECONDS):
            return Result(Outcome.DONE)
        if isinstance(error, Refused) and job.gpu.persistence:
            # A refusal leaves no mark, so persistence mode must be as it was.
            with contextlib.suppress(*((EdgeError,) if job.lost else ())):
                tools.driver.set_persistence(job.gpu.pci, on=True, deadline_seconds=DRAIN_SECONDS)
        raise
    return Result(Outcome.DONE)


def _drain_now(job: Job, tools: Tools) -> None:
    if job.gpu.persistence is not False:
        # A lost GPU may not answer for its persistence mode, and may be drained all the same.
        with contextlib.suppress(*((EdgeError,) if job.lost else ())):
            # Not looked at: with persistence mode on the drain is refused.
            tools.driver.set_persistence(job.gpu.pci, on=False, deadline_seconds=DRAIN_SECONDS, look=False)
    tools.driver.set_drained(job.gpu.pci, on=True, deadline_seconds=DRAIN_SECONDS)


def _undrain(job: Job, tools: Tools) -> Result:
    tools.driver.set_drained(job.gpu.pci, on=False, deadline_seconds=DRAIN_SECONDS)
    return Result(Outcome.DONE)


def _pause(job: Job, tools: Tools) -> Result:
    """Stop the known services that hold the GPU; which they are is saved before the first is stopped."""
    if job.gpu.minor is None:
        return Result(Outcome.REFUSED, "the GPU's device number is not known, so its holders cannot be found")
    units = sorted(
        {one.service for one in tools.holders.of(job.gpu.minor) if one.kind is HolderKind.SERVICE and one.service}
    )
    tools.intend(tuple(units))
    for unit in units:
        try:
            tools.services.stop(unit, SERVICE_SECONDS)
        except EdgeError as error:
            return Result(Outcome.FAILED, f"{unit} could not be stopped: {error}")
    return Result(Outcome.DONE, ", ".join(units))


def _restore(job: Job, tools: Tools) -> Result:
    """Start what was stopped; put persistence mode back unless the GPU stays drained. Every one is tried."""
    trouble: list[str] = []
    for unit in job.paused:
        try:
            tools.services.start(unit, SERVICE_SECONDS)
        except EdgeError as error:
            trouble.append(f"{unit} could not be started: {error}")
    if job.gpu.persistence and not job.case.marks.drained:
        try:
            tools.driver.set_persistence(job.gpu.pci, on=True, deadline_seconds=DRAIN_SECONDS)
        except EdgeError as error:
            trouble.append(f"persistence mode could not be put back: {error}")
    if trouble:
        return Result(Outcome.FAILED, "; ".join(trouble))
    tools.forget()
    return Result(Outcome.DONE)


def _reset(job: Job, tools: Tools) -> Result:
    """Reset the GPU, if nothing holds it at this moment."""
    if job.gpu.minor is None:
        return Result(Outcome.REFUSED, "the GPU's device number is not known, so its holders cannot be found")
    held = work_of(tools.holders.of(job.gpu.minor))
    if held:
        return Result(Outcome.REFUSED, f"it is held by {', '.join(held)}")
    tools.driver.reset(job.gpu.pci, RESET_SECONDS)
    return Result(Outcome.DONE)


def _verify(job: Job, tools: Tools) -> Result:
    """Read the GPU and hold it against what it was; when all holds, ask the user's own check."""
    reading = tools.driver.read(READ_SECONDS)
    found = next((gpu for gpu in reading.gpus if gpu.pci == job.gpu.pci), None)
    wrong = [sentence for condition, sentence in PROOF if not condition(found, job.gpu)]
    if wrong:
        return Result(Outcome.FAILED, "; ".join(wrong))
    if tools.check is not None:
        tools.check(job.gpu.pci, job.gpu.uuid)
    return Result(Outcome.DONE)


Proof = Callable[[GpuReading | None, Remembered], bool]


def _is_back(found: GpuReading | None, was: Remembered) -> bool:
    return found is not None and not found.lost and (was.uuid is None or found.uuid == was.uuid)


def _ecc_is_clean(found: GpuReading | None, _was: Remembered) -> bool:
    return found is None or not found.ecc.volatile


def _no_remap_is_pending(found: GpuReading | None, _was: Remembered) -> bool:
    return found is None or (found.remap.pending is not True and found.remap.failed is not True)


def _nothing_is_asked_for(found: GpuReading | None, _was: Remembered) -> bool:
    return found is None or found.recovery_action in {None, "None"}


def _links_are_as_learned(found: GpuReading | None, was: Remembered) -> bool:
    return found is None or sum(link.active for link in found.links) >= was.links_active


def _pcie_is_as_learned(found: GpuReading | None, was: Remembered) -> bool:
    return found is None or was.pcie_width is None or (found.pcie.width or 0) >= was.pcie_width


PROOF: tuple[tuple[Proof, str], ...] = (
    (_is_back, "the GPU is not back with its UUID"),
    (_ecc_is_clean, "it counts uncorrectable errors since the reset"),
    (_no_remap_is_pending, "a row remap is pending or failed"),
    (_nothing_is_asked_for, "the driver still asks for a recovery action"),
    (_links_are_as_learned, "fewer NVLinks are active than before"),
    (_pcie_is_as_learned, "its PCIe link is narrower than before"),
)
"""What must hold after a reset, each with the sentence when it does not."""

_DOERS: dict[EffectKind, Callable[[Job, Tools], Result]] = {
    EffectKind.EVIDENCE: _evidence,
    EffectKind.DRAIN: _drain,
    EffectKind.UNDRAIN: _undrain,
    EffectKind.PAUSE: _pause,
    EffectKind.RESTORE: _restore,
    EffectKind.RESET: _reset,
    EffectKind.VERIFY: _verify,
}
