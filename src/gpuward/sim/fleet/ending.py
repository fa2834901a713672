"""How a life that is not lived to its end is ended in order: by a signal, or because nobody can be told of it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gpuward.controller.record import Tell
from gpuward.model.happening import Happening
from gpuward.sim.curtain import SIGNALS, handled

_Minded = Callable[[int, FrameType | None], object]


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let a signal that somebody minds only `end` what the context is for; a second one ends the process.

    Once that has ended, the signal does what it would have done without this: its own handler is called.
    """
    caught: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        caught.append(number)
        if len(caught) > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        end()

    minded = _minded()
    try:
        with handled(minded, note):
            yield
    finally:
        if caught:
            minded[caught[0]](caught[0], None)


def _minded() -> dict[int, _Minded]:
    """Return the handlers of signals that are not left to the system."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in SIGNALS}
    return {number: handler for number, handler in found.items() if callable(handler)}


@contextmanager
def outlet(tell: Tell) -> Iterator[Tell]:
    """Yield what tells the happenings of the life that the current task is; when it cannot tell, that life ends.

    Whoever told it goes on: a controller is not the one to fail because nobody reads the journal of its fleet.
    """
    life = asyncio.current_task()
    errors: list[OSError] = []

    def told(happening: Happening) -> None:
        if errors:
            return
        try:
            tell(happening)
        except OSError as error:
            errors.append(error)
            if life is not None:
                life.cancel()

    try:
        yield told
    finally:
        if errors:
            raise errors[0]
