"""A try on an idle card: drain, look, undrain, reset, prove; each belief about the driver found true or false.

Every mark is written down before it is made, and undone at the end, whatever the end is. Which beliefs there are, and
which a reset needs, stands in model.qualified.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from gpuward.agent.bench import DRAIN_SECONDS, PROOF, RESET_SECONDS, SERVICE_SECONDS, Remembered
from gpuward.agent.candidate import Candidate, services_on, whole_reading, work_on
from gpuward.agent.sight import remember
from gpuward.agent.unfinished import Marks, Undoing, save_marks, undo
from gpuward.model.node import GpuReading
from gpuward.model.qualified import BELIEFS, BY_ID, Finding
from gpuward.ports import EdgeError, Holders, Refused

SETTLE_SECONDS = 30.0
"""How long links may take to train again after a reset."""
_SHOW_SECONDS = 10.0
_LOOK_SECONDS = 1.0


class Probe(Protocol):
    """The driver's tool, asked for its own answer: a refusal is what is wanted to be known, and nothing is so already.

    Every call has a deadline; Unreachable is raised when the tool does not answer.
    """

    def may_act(self, pci: str) -> bool:
        """Return whether the tool lets this user change a drain."""

    def shown_by(self, uuid: str) -> tuple[str, ...]:
        """Return the ways in which the tool, started now, shows this GPU."""

    def finds_by_index(self, index: int) -> bool:
        """Return whether a drain takes an index for a GPU; nothing is changed."""

    def refuses_drain(self, pci: str) -> str:
        """Ask for a drain; return the words of the refusal, empty when the tool says that it drained."""

    def refuses_reset(self, pci: str) -> str:
        """Ask for a reset; return the words of the refusal, empty when the tool says that it reset the GPU."""

    def files_gone(self, pci: str, minor: int) -> tuple[str, ...]:
        """Return which of the GPU's device file and its entry in /proc are not there."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The ports that a try works with, and how it speaks.

    `note` gets what is done next, `tell` each finding as it is made; `stopped` says that a person wants it ended.
    """

    undoing: Undoing
    holders: Holders
    probe: Probe
    note: Callable[[str], None]
    tell: Callable[[Finding], None]
    stopped: Callable[[], bool]


def qualify(gpu: Candidate, ways: Ways) -> tuple[Finding, ...]:
    """Try every belief on this GPU, undo every mark, and return what was found, a finding for each belief.

    It ends early where what a reset needs is not so. Raises EdgeError when it could not be done to its end, or a mark
    could not be undone; what was changed is undone before.
    """
    bench = _Bench(gpu, ways)
    found: list[Finding] = []
    try:
        for finding in _tried(bench):
            ways.tell(finding)
            found.append(finding)
            if BY_ID[finding.belief].needed and finding.holds is not True:
                break
    except BaseException as error:
        ways.note(str(error) or type(error).__name__)
        bench.undo()
        raise
    returned = bench.undo()
    for finding in (*_untried(found), returned):
        ways.tell(finding)
        found.append(finding)
    return tuple(found)


def _tried(bench: "_Bench") -> Iterator[Finding]:
    for saying, step in _STEPS:
        if bench.ways.stopped():
            raise Refused("it was stopped by a signal; nothing of it is kept, and what it changed is undone")
        bench.ways.note(saying)
        yield from step(bench)


def _untried(found: list[Finding]) -> Iterator[Finding]:
    """Yield a finding for each belief that was not come to, but the last, which the undo answers."""
    answered = {one.belief for one in found}
    cause = found[-1].belief if found else ""
    for belief in BELIEFS:
        if belief.id not in answered and belief.id != _RETURNS:
            yield Finding(belief.id, holds=None, why=f"not tried, for {cause} is not so")


_RETURNS = "persistence-returns"


class _Bench:
    """One GPU under a try: what it was, and the marks that stand."""

    def __init__(self, gpu: Candidate, ways: Ways) -> None:
        self.gpu = gpu
        self.pci = gpu.reading.pci
        self.ways = ways
        self.driver = ways.undoing.driver
        self.marks = Marks(self.pci)

    def mark(self, marks: Marks) -> None:
        """Write down what stands from now on."""
        save_marks(self.ways.undoing.marks, marks)
        self.marks = marks

    def undo(self) -> Finding:
        """Undo every mark; return whether persistence mode came back.

        Raises Refused when another mark could not be undone; it stays written down.
        """
        self.ways.note("putting everything back")
        undone = undo(self.ways.undoing)
        for sentence in undone.done:
            self.ways.note(sentence)
        about_mode = tuple(one for one in undone.trouble if one.startswith("persistence mode"))
        if set(undone.trouble) - set(about_mode):
            raise Refused(
                f"not everything could be put back: {'; '.join(undone.trouble)}; it is tried again by the next "
                "`gpuward qualify` or agent"
            )
        return Finding(_RETURNS, holds=not about_mode, why="; ".join(about_mode))

    def read(self) -> GpuReading | None:
        """Return the GPU as the driver shows it now, None when it does not."""
        reading = whole_reading(self.driver)
        return next((gpu for gpu in reading.gpus if gpu.pci == self.pci), None)

    def read_until(self, fits: Callable[[GpuReading | None], bool], seconds: float) -> GpuReading | None:
        """Return the first reading that fits, or the last one when none does in time."""
        clock = self.ways.undoing.clock
        end = clock.monotonic() + seconds
        while True:
            reading = self.read()
            if fits(reading) or clock.monotonic() >= end:
                return reading
            clock.sleep(_LOOK_SECONDS)

    def keep_off_work(self) -> None:
        """Raise Refused when work has come to the GPU since it was looked at."""
        work = work_on(self.gpu, self.ways.holders)
        if work:
            raise Refused(f"work has come to GPU {self.pci} meanwhile: {', '.join(work)}; it is not reset")


def _by_index(bench: _Bench) -> Iterator[Finding]:
    index = bench.gpu.reading.index
    if index is None:
        yield Finding("drain-by-address", holds=None, why="its index is not known")
        return
    finds = bench.ways.probe.finds_by_index(index)
    yield Finding("drain-by-address", holds=not finds, why=f"it finds index {index}" if finds else "")


def _with_persistence(bench: _Bench) -> Iterator[Finding]:
    """Ask for a drain that should be refused."""
    if not bench.gpu.reading.persistence:
        yield Finding("drain-persistence", holds=None, why="its persistence mode is off, so there was nothing to try")
        return
    bench.mark(replace(bench.marks, drained=True))
    try:
        bench.driver.set_drained(bench.pci, on=True, deadline_seconds=DRAIN_SECONDS)
    except Refused as refusal:
        bench.mark(replace(bench.marks, drained=False))
        yield Finding("drain-persistence", holds=True, why=str(refusal))
        return
    bench.driver.set_drained(bench.pci, on=False, deadline_seconds=DRAIN_SECONDS)
    bench.mark(replace(bench.marks, drained=False))
    yield Finding("drain-persistence", holds=False, why="it was drained with persistence mode on")


def _persistence_off(bench: _Bench) -> Iterator[Finding]:
    bench.mark(replace(bench.marks, persistence=bench.gpu.reading.persistence))
    yield _obeyed(
        "persistence-takes",
        lambda: bench.driver.set_persistence(bench.pci, on=False, deadline_seconds=DRAIN_SECONDS),
    )


def _drain(bench: _Bench) -> Iterator[Finding]:
    bench.mark(replace(bench.marks, drained=True))
    yield _obeyed("drain-takes", lambda: bench.driver.set_drained(bench.pci, on=True, deadline_seconds=DRAIN_SECONDS))


def _obeyed(belief: str, order: Callable[[], None]) -> Finding:
    try:
        order()
    except Refused as refusal:
        return Finding(belief, holds=False, why=str(refusal))
    return Finding(belief, holds=True)


def _look_at_drained(bench: _Bench) -> Iterator[Finding]:
    probe = bench.ways.probe
    reading = whole_reading(bench.driver)
    shown = probe.shown_by(bench.gpu.uuid)
    if any(gpu.pci == bench.pci for gpu in reading.gpus):
        shown = (*shown, reading.road)
    yield Finding("drain-hides", holds=not shown, why=f"shown by {', '.join(shown)}" if shown else "")
    gone = probe.files_gone(bench.pci, bench.gpu.minor)
    yield Finding("drain-files", holds=not gone, why=f"gone: {', '.join(gone)}" if gone else "")


def _drain_again(bench: _Bench) -> Iterator[Finding]:
    words = bench.ways.probe.refuses_drain(bench.pci)
    yield Finding("drain-again", holds=bool(words), why=words or "it is no error")


def _reset_drained(bench: _Bench) -> Iterator[Finding]:
    """Stop the services that hold it, then ask for a reset that should be refused because it is drained."""
    units = services_on(bench.gpu, bench.ways.holders)
    bench.mark(replace(bench.marks, services=units))
    for unit in units:
        bench.ways.note(f"stopping {unit}")
        bench.ways.undoing.services.stop(unit, SERVICE_SECONDS)
    bench.keep_off_work()
    still = services_on(bench.gpu, bench.ways.holders)
    if still:
        raise Refused(f"GPU {bench.pci} is held still, by {', '.join(still)}; see what starts it again")
    words = bench.ways.probe.refuses_reset(bench.pci)
    yield Finding("reset-not-drained", holds=bool(words), why=words or "it was reset")


def _undrain(bench: _Bench) -> Iterator[Finding]:
    lifted = _obeyed(
        "drain-lifts", lambda: bench.driver.set_drained(bench.pci, on=False, deadline_seconds=DRAIN_SECONDS)
    )
    if not lifted.holds:
        yield lifted
        return
    bench.mark(replace(bench.marks, drained=False))
    found = bench.read_until(lambda gpu: gpu is not None, _SHOW_SECONDS)
    same = found is not None and found.uuid == bench.gpu.uuid
    why = "it is not shown again" if found is None else f"its UUID is {found.uuid}"
    yield Finding("drain-lifts", holds=same, why="" if same else why)


def _reset(bench: _Bench) -> Iterator[Finding]:
    """Reset it, and hold it against what it was. A reset that hangs is no proof either."""
    bench.keep_off_work()
    try:
        key = f"qualify-{bench.ways.undoing.clock.now():.0f}"
        bench.driver.reset(bench.pci, RESET_SECONDS, key=key)
    except EdgeError as error:
        yield Finding("reset-idle", holds=False, why=str(error))
        return
    was = remember(bench.gpu.reading)
    but_links = replace(was, links_active=0, pcie_width=None)
    found = bench.read_until(lambda gpu: bool(_wrong(gpu, but_links)) or not _wrong(gpu, was), SETTLE_SECONDS)
    same = found is not None and found.uuid == bench.gpu.uuid
    yield Finding("reset-idle", holds=same, why="" if same else "it is not shown again with its UUID")
    own = _wrong(found, but_links)
    yield Finding("reset-takes", holds=not own, why="; ".join(own))
    others = [sentence for sentence in _wrong(found, was) if sentence not in own]
    yield Finding("reset-links", holds=not others, why="; ".join(others))
    yield _mode_after(found)


def _wrong(found: GpuReading | None, was: Remembered) -> list[str]:
    """Return what of the proof of a repair does not hold."""
    return [sentence for condition, sentence in PROOF if not condition(found, was)]


def _mode_after(found: GpuReading | None) -> Finding:
    mode = None if found is None else found.persistence
    if mode is None:
        return Finding("reset-persistence-stays", holds=None, why="its persistence mode cannot be read")
    return Finding("reset-persistence-stays", holds=not mode, why="it is on" if mode else "")


_STEPS: tuple[tuple[str, Callable[[_Bench], Iterator[Finding]]], ...] = (
    ("asking for its drain by index", _by_index),
    ("asking for a drain with persistence mode on", _with_persistence),
    ("turning persistence mode off", _persistence_off),
    ("draining it", _drain),
    ("looking for it while it is drained", _look_at_drained),
    ("asking for the drain again", _drain_again),
    ("asking for a reset while it is drained", _reset_drained),
    ("lifting the drain", _undrain),
    (f"resetting it (this takes up to {RESET_SECONDS:g} s)", _reset),
)
