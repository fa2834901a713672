"""What the tool told of each GPU while it still answered, kept as evidence of one that is lost. Nothing is judged."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from gpuward.agent.polling import WHOLE_ROADS
from gpuward.model.case import ENDED, Case
from gpuward.model.node import NodeReading
from gpuward.ports import Clock, Driver, EdgeError, Refused, Store

GPUS_KEPT = 64
BYTES_KEPT = 64 * 1024
_LOST = "gpu is lost"
"""What the tool prints in place of the values of a lost GPU: that is no portrait."""
REMEDY = "delete it, and new ones are taken"
"""What helps a broken file of portraits."""


@dataclass(frozen=True, slots=True)
class Sittings:
    """How often each GPU is taken, when again after a failure, and how long one may take."""

    every_seconds: float = 3600.0
    retry_seconds: float = 600.0
    look_seconds: float = 60.0
    """How soon a GPU is noticed that was not there, or not free, when it was due."""
    describe_seconds: float = 5.0
    """Short: who wants evidence of a GPU before its drain waits for the tool that long at most."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What the tool told of a GPU, cut to BYTES_KEPT, and when, in Unix seconds."""

    taken_at: float
    text: str


_HOURLY = Sittings()


@dataclass(frozen=True, slots=True)
class _Sat:
    """What a sitting came to: all portraits with the new one, and why they could not be saved; empty when they were."""

    kept: Mapping[str, Portrait]
    trouble: str


class Portraits:
    """The last portrait of each GPU. One is taken at a time, beside the loop; `store` None: none survives a restart."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        *,
        hands: Executor,
        store: Store | None = None,
        sittings: Sittings = _HOURLY,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._hands = hands
        self._store = store
        self._sittings = sittings
        self._kept: Mapping[str, Portrait] = {}
        self._due: dict[str, float] = {}
        self._wake = 0.0
        self._sitting: tuple[str, Future[_Sat | None]] | None = None

    def load(self) -> None:
        """Take over what was saved. Raises Refused when it cannot be used; then nothing is taken over."""
        saved = None if self._store is None else self._store.load()
        try:
            self._kept = {} if saved is None else {pci: _unpacked(one) for pci, one in saved.items()}
        except (TypeError, ValueError) as error:
            raise Refused(f"the saved portraits of GPUs cannot be used ({error}); {REMEDY}") from error

    def of(self, pci: str) -> tuple[float, str] | None:
        """Return when the newest portrait of a GPU was taken, in Unix seconds, and its text. Called from any thread."""
        portrait = self._kept.get(pci)
        return None if portrait is None else (portrait.taken_at, portrait.text)

    def turn(self, reading: NodeReading | None, cases: Iterable[Case], warn: Callable[[str], None]) -> None:
        """Take what is done, and begin what is due. When nothing is, this looks at the clock and no further."""
        if self._sitting is not None:
            self._collect(*self._sitting, warn=warn)
        elif self._clock.monotonic() >= self._wake:
            self._begin(reading, cases)

    def _begin(self, reading: NodeReading | None, cases: Iterable[Case]) -> None:
        now = self._clock.monotonic()
        free = _free(reading, cases)
        due = [pci for pci in free if self._due.get(pci, now) <= now]
        if not due:
            self._wake = min([now + self._sittings.look_seconds, *(self._due[pci] for pci in free)])
            return
        pci = due[0]
        self._sitting = pci, self._hands.submit(self._sit, pci, self._kept)

    def _collect(self, pci: str, sitting: Future[_Sat | None], *, warn: Callable[[str], None]) -> None:
        if not sitting.done():
            return
        self._sitting = None
        sat = sitting.result()
        wait = self._sittings.retry_seconds if sat is None else self._sittings.every_seconds
        self._due[pci] = self._clock.monotonic() + wait
        if sat is not None:
            self._kept = sat.kept
            if sat.trouble:
                warn(f"the portraits of GPUs do not survive a restart: {sat.trouble}")

    def _sit(self, pci: str, kept: Mapping[str, Portrait]) -> _Sat | None:
        """Have the tool describe a GPU, and save it; None when it cannot. Runs beside the loop."""
        at = self._clock.now()
        try:
            text = self._driver.describe(pci, self._sittings.describe_seconds)
        except EdgeError:
            return None  # that the tools do not answer is said of the readings
        if not text.strip() or _LOST in text.lower():
            return None
        cut = text.encode("utf-8", "replace")[:BYTES_KEPT].decode("utf-8", "ignore")
        return self._saved({**kept, pci: Portrait(taken_at=at, text=cut)})

    def _saved(self, portraits: Mapping[str, Portrait]) -> _Sat:
        """Save the newest GPUS_KEPT of them: at an address where no GPU is any more nobody asks for long."""
        newest = sorted(portraits.items(), key=lambda item: item[1].taken_at)[-GPUS_KEPT:]
        kept = dict(newest)
        try:
            if self._store is not None:
                self._store.save({pci: [one.taken_at, one.text] for pci, one in kept.items()})
        except Refused as error:
            return _Sat(kept, str(error))
        return _Sat(kept, "")


def _free(reading: NodeReading | None, cases: Iterable[Case]) -> list[str]:
    """Return the GPUs that may sit: the driver shows them, so that they are not drained, and no case is about them.

    A GPU in a case is described for its evidence; and what describes one holds it, which would refuse a reset.
    """
    if reading is None or reading.road not in WHOLE_ROADS:
        return []
    taken = {case.gpu for case in cases if case.state not in ENDED or case.marks}
    return [gpu.pci for gpu in reading.gpus if not gpu.lost and gpu.pci not in taken]


def _unpacked(saved: Any) -> Portrait:
    match saved:
        case [float() | int() as at, str() as text] if not isinstance(at, bool):
            return Portrait(taken_at=float(at), text=text)
    raise ValueError("one of them has another shape")
