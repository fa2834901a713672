"""What `gpuward qualify` changed on the machine: written down before it is changed, and undone whatever comes between.

A process that was killed leaves its marks in the store; whoever comes next, a qualify or an agent, undoes them first.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from gpuward.agent.bench import DRAIN_SECONDS, SERVICE_SECONDS
from gpuward.ports import Clock, Driver, EdgeError, Refused, Services, Store

REMEDY = "a GPU may be drained and services stopped: undo that by hand (`nvidia-smi drain -p PCI -m 0`), then delete it"
_TRIES = 4
_PAUSE_SECONDS = 3.0
"""What is under way in the driver, such as a reset, is waited for."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What may stand on the machine. `persistence`: what the mode was, None while it was not touched."""

    pci: str
    drained: bool = False
    persistence: bool | None = None
    services: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return self.drained or self.persistence is not None or bool(self.services)


@dataclass(frozen=True, slots=True)
class Undone:
    """What was undone and what could not be, each a sentence."""

    done: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Undoing:
    """The ports that an undo works with. `marks` is where they are kept: qualifying.json."""

    driver: Driver
    services: Services
    clock: Clock
    marks: Store


def undo_unfinished(ports: Undoing) -> Undone:
    """Undo what a qualify that was killed left; nothing is nothing to do. What cannot be undone stays written down.

    It is done twice: the tool of the one that was killed may be at work still, and do its part after the first time.
    Raises Refused when the marks cannot be read or saved.
    """
    marks = load_marks(ports.marks)
    if not marks:
        return Undone()
    _undo(marks, ports)
    ports.clock.sleep(_PAUSE_SECONDS)
    return undo(ports)


def undo(ports: Undoing) -> Undone:
    """Undo what is written down, as `undo_unfinished`, at the end of a try that is known to be over."""
    marks = load_marks(ports.marks)
    if not marks:
        return Undone()
    left, trouble = _undo(marks, ports)
    for _ in range(_TRIES - 1):
        if not left:
            break
        ports.clock.sleep(_PAUSE_SECONDS)
        left, trouble = _undo(left, ports)
    save_marks(ports.marks, left)
    return Undone(done=_told(marks, left), trouble=trouble)


def load_marks(store: Store) -> Marks | None:
    """Return the marks that stand, None when there are none. Raises Refused when they cannot be used."""
    saved = store.load()
    if not saved:
        return None
    try:
        return _unpacked(saved)
    except (KeyError, TypeError) as error:
        raise Refused(f"the list of what qualify changed cannot be used; {REMEDY}") from error


def save_marks(store: Store, marks: Marks) -> None:
    """Write the marks down, nothing when there are none. Raises Refused."""
    store.save(asdict(marks) if marks else {})


def _unpacked(saved: Mapping[str, Any]) -> Marks:
    marks = Marks(saved["pci"], saved["drained"], saved["persistence"], tuple(saved["services"]))
    texts = (marks.pci, *marks.services)
    if not all(isinstance(text, str) for text in texts) or not isinstance(marks.drained, bool):
        raise TypeError
    if not isinstance(saved["services"], list) or not (marks.persistence is None or marks.persistence in (True, False)):
        raise TypeError
    return marks


def _undo(marks: Marks, ports: Undoing) -> tuple[Marks, tuple[str, ...]]:
    """Try each; return the marks that are left, and why."""
    trouble: list[str] = []
    pci = marks.pci

    def tried(what: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except EdgeError as error:
            trouble.append(f"{what}: {error}")
            return False
        return True

    if marks.drained and tried(
        f"the drain of GPU {pci} could not be lifted",
        lambda: ports.driver.set_drained(pci, on=False, deadline_seconds=DRAIN_SECONDS),
    ):
        marks = replace(marks, drained=False)
    stopped = [
        unit
        for unit in marks.services
        if not tried(f"{unit} could not be started", partial(ports.services.start, unit, SERVICE_SECONDS))
    ]
    marks = replace(marks, services=tuple(stopped))
    was = marks.persistence
    if was is not None and tried(
        f"persistence mode of GPU {pci} could not be put back {'on' if was else 'off'}",
        lambda: ports.driver.set_persistence(pci, on=was, deadline_seconds=DRAIN_SECONDS),
    ):
        marks = replace(marks, persistence=None)
    return marks, tuple(trouble)


def _told(before: Marks, left: Marks) -> tuple[str, ...]:
    started = [unit for unit in before.services if unit not in left.services]
    told = (
        (before.drained and not left.drained, f"the drain of GPU {before.pci} is lifted"),
        (bool(started), f"started again: {', '.join(started)}"),
        (
            before.persistence is not None and left.persistence is None,
            f"persistence mode of GPU {before.pci} is {'on' if before.persistence else 'off'} again",
        ),
    )
    return tuple(sentence for holds, sentence in told if holds)
