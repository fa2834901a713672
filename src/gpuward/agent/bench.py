"""The bench: what a case asks for is done to the machine here, one effect at a time, and looked at. Nothing is decided.

Every effect may be done twice: after a crash it is asked for again, and what is so already is success.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gpuward.model.case import Case, Effect, EffectKind, Outcome
from gpuward.model.counted import many
from gpuward.model.node import GpuHolder, GpuReading, HolderKind, Lineage
from gpuward.ports import Clock, Driver, EdgeError, EvidenceRoom, Holders, Refused, Services

LOOK_SECONDS = 2.0
"""The bounded look before a drain: a drained GPU is invisible to programs started later (nvidia-smi manual)."""
DRAIN_SECONDS = 10.0
RESET_SECONDS = 120.0
SERVICE_SECONDS = 60.0
READ_SECONDS = 20.0
NO_MINOR = "the GPU's device number is not known, so its holders cannot be found"
_LONGEST_CELL = 1024
_HOLDER_COLUMNS = (
    "pid",
    "kind",
    "name",
    "service",
    "session",
    "started",
    "cgroup",
    "pod_uid",
    "container_id",
    "command",
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What of a GPU was noted before it was touched: a drained GPU cannot be asked any more."""

    pci: str
    uuid: str | None
    minor: int | None
    persistence: bool | None
    links_active: int
    pcie_width: int | None
    # Since the first version; a memory that was saved before lacks them.
    model: str | None = None
    mig: bool | None = None
    recovery_action: str | None = None
    shown: bool = True
    """The driver's tools have shown it; else only the driver's own list has named it."""
    mig_uuids: tuple[str, ...] | None = None
    """The UUIDs of its MIG devices, as they were told last; None where they never were."""


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
    processes: Callable[[], bytes] = lambda: b"nothing that lists the processes was given\n"
    """All processes of the machine, as evidence."""
    lineage: Callable[[int], Lineage | None] = lambda _pid: None
    """What tells the process of a pid apart; None when it is gone or nobody looks."""
    portrait: Callable[[str], tuple[float, str] | None] = lambda _pci: None
    """What nvidia-smi last told of a GPU by its address, and when, in Unix seconds; None when there is nothing."""


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


def holds_of(holders: Iterable[GpuHolder]) -> tuple[tuple[str, str], ...]:
    """Return the work among the holders that runs in pods, in the same words, each with the UID of its pod."""
    return tuple((words, one.pod_uid) for one in holders if one.pod_uid for words in work_of((one,)))


def services_of(holders: Iterable[GpuHolder]) -> tuple[str, ...]:
    """Return the units of the known services among the holders, in order."""
    return tuple(sorted({one.service for one in holders if one.kind is HolderKind.SERVICE and one.service}))


def keep_evidence(job: Job, tools: Tools) -> Result:
    """Keep what the tool tells of the GPU, its holders and, before a repair, the kernel log and all processes.

    Before a drain the look takes LOOK_SECONDS in all: the tool has what the holders left of it. Raises EdgeError when
    what must be kept cannot be; that something did not answer is kept in its place.
    """
    files = 0
    for name, content in _evidence(job, tools):
        tools.evidence.keep(job.case.id, f"{job.effect.number:02d}-{name}", content)
        files += 1
    return Result(Outcome.DONE, many(files, "file"))


def _evidence(job: Job, tools: Tools) -> Iterator[tuple[str, bytes]]:
    """Yield each piece under its name as it is found, so that those before a trouble are kept."""
    before_repair = job.effect.number > 1
    end = tools.clock.monotonic() + (READ_SECONDS if before_repair else LOOK_SECONDS)
    if job.gpu.minor is not None:
        yield "holders.txt", _holders_text(job.gpu.minor, tools)
    if not job.lost:
        yield "nvidia-smi-q.txt", _described(job, tools, max(0.0, end - tools.clock.monotonic()))
    elif (last := tools.portrait(job.gpu.pci)) is not None:
        yield "nvidia-smi-q-last.txt", _dated(*last)
    if before_repair:
        yield "processes.txt", _processes_text(tools)
        yield "kernel.log", tools.kernel_log()


def _holders_text(minor: int, tools: Tools) -> bytes:
    """Return who holds the GPU, a line of tab-separated columns each; that nobody may look is evidence too."""
    try:
        holders = tools.holders.of(minor)
    except EdgeError as error:
        return f"not seen: {error}\n".encode()
    rows = [_HOLDER_COLUMNS, *(_holder_row(one, tools.lineage(one.pid)) for one in holders)]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def _holder_row(one: GpuHolder, lineage: Lineage | None) -> tuple[str, ...]:
    came = lineage or Lineage(session=None, started=None, cgroup=None)
    return tuple(
        map(
            _cell,
            (
                one.pid,
                one.kind,
                one.name,
                one.service,
                came.session,
                came.started,
                came.cgroup,
                one.pod_uid,
                one.container_id,
                one.command,
            ),
        )
    )


def _cell(value: object) -> str:
    """Return a value as one cell: `-` when it is unknown, and `?` for what would break the line or a terminal."""
    text = "-" if value is None else str(value)[:_LONGEST_CELL]
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def _described(job: Job, tools: Tools, seconds: float) -> bytes:
    """Return what the tool tells. One that is silent is noted."""
    if not seconds:
        return b"not asked: the look at the holders took all the time\n"
    try:
        return tools.driver.describe(job.gpu.pci, seconds).encode("utf-8", "replace")
    except EdgeError as error:
        return f"not told: {error}\n".encode()


def _dated(at: float, text: str) -> bytes:
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"the GPU is lost and is not asked; this was told at {moment}\n{text}".encode("utf-8", "replace")


def _processes_text(tools: Tools) -> bytes:
    try:
        return tools.processes()
    except EdgeError as error:
        return f"not seen: {error}\n".encode()


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
        return Result(Outcome.REFUSED, NO_MINOR)
    units = services_of(tools.holders.of(job.gpu.minor))
    tools.intend(units)
    for unit in units:
        try:
            tools.services.stop(unit, SERVICE_SECONDS)
        except EdgeError as error:
            return Result(Outcome.FAILED, f"{unit} could not be stopped: {error}")
    # What an earlier try stopped before it was killed counts too.
    return Result(Outcome.DONE, ", ".join(sorted({*job.paused, *units})))


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
    """Reset the GPU, if nothing holds it at this moment.

    A reset that was done, or is under way, when the agent was killed is only asked for its outcome: what holds the GPU
    now came after it, or is the reset.
    """
    key = f"{job.case.id}-{job.effect.number}"
    if not tools.driver.has_reset(job.gpu.pci, key=key):
        refusal = held_by(job, tools)
        if refusal:
            return Result(Outcome.REFUSED, refusal)
        if job.gpu.persistence is not False and not _was_drained(job.case):
            # A drain that was done had it off; with it on, the GPU counts as in use and a reset is in vain.
            tools.driver.set_persistence(job.gpu.pci, on=False, deadline_seconds=DRAIN_SECONDS)
    tools.driver.reset(job.gpu.pci, RESET_SECONDS, key=key)
    return Result(Outcome.DONE)


def _was_drained(case: Case) -> bool:
    drains = [effect for effect in case.effects if effect.kind is EffectKind.DRAIN]
    return bool(drains) and drains[-1].outcome is Outcome.DONE


def held_by(job: Job, tools: Tools) -> str:
    """Return why the GPU must not be reset at this moment, in a sentence; empty when no work holds it."""
    if job.gpu.minor is None:
        return NO_MINOR
    held = work_of(tools.holders.of(job.gpu.minor))
    return f"it is held by {', '.join(held)}" if held else ""


def _verify(job: Job, tools: Tools) -> Result:
    """Read the GPU and hold it against what it was; when all holds, ask the user's own check."""
    wrong = what_is_wrong(job, tools)
    if wrong:
        return Result(Outcome.FAILED, wrong)
    if tools.check is not None:
        tools.check(job.gpu.pci, job.gpu.uuid)
    return Result(Outcome.DONE)


def what_is_wrong(job: Job, tools: Tools) -> str:
    """Read the GPU and return what of PROOF does not hold, as a sentence; empty when all does. Raises EdgeError."""
    reading = tools.driver.read(READ_SECONDS)
    found = next((gpu for gpu in reading.gpus if gpu.pci == job.gpu.pci), None)
    return "; ".join(sentence for condition, sentence in PROOF if not condition(found, job.gpu))


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
    EffectKind.EVIDENCE: keep_evidence,
    EffectKind.DRAIN: _drain,
    EffectKind.UNDRAIN: _undrain,
    EffectKind.PAUSE: _pause,
    EffectKind.RESTORE: _restore,
    EffectKind.RESET: _reset,
    EffectKind.VERIFY: _verify,
}
