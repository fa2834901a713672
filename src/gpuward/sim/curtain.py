"""How a demonstration ends, also when a person ends it or nobody reads it: in a sentence, and with an exit code."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PIPE_CLOSED = 128 + signal.SIGPIPE
_END_SECONDS = 30.0


class Ended(BaseException):
    """A signal asks the demonstration to end; what it has begun is cleared away on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def shown(show: Callable[[], int]) -> int:
    """Run a demonstration and return its exit code: 128 and the number of the signal that ended it."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        code = show()
        sys.stdout.flush()
    except Ended as end:
        return _told(end)
    except RuntimeError as error:
        if isinstance(error.__cause__, Ended):  # it came while a class was made, as Python 3.11 tells it
            return _told(error.__cause__)
        raise
    except BrokenPipeError:
        # The reader of what is shown has gone (`| head`): the rest is not wanted.
        _silence()
        return _PIPE_CLOSED
    return code


@contextlib.contextmanager
def beside(
    words: Sequence[str], *, env: Mapping[str, str] | None = None, quiet: bool = False
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command of ours beside the show; whatever comes, it has ended in order when the context has."""
    with contextlib.ExitStack() as stack:
        with _undisturbed():
            process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL if quiet else None)  # noqa: S603  ours
            stack.callback(_wait, process)
        yield process


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """End it as Ctrl-C does, and wait until it has."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no signal come between a beginning and the note that it has to be ended; it comes afterwards."""
    caught: list[int] = []
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        with handled(heard, lambda number, _: caught.append(number)):
            yield
    finally:
        if caught:
            signal.raise_signal(caught[0])


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let another handler have these signals for a while; then who had them has them again."""
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, had in former.items():
            signal.signal(number, had)


def _told(end: Ended) -> int:
    by = "Ctrl-C" if end.number == signal.SIGINT else signal.Signals(end.number).name
    _say(f"Ended by {by}, before its end. All of it was pretend, and nothing of it is left.")
    return 128 + end.number


def _end(number: int, _: FrameType | None) -> None:
    raise Ended(number)


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.write(f"\n{sentence}\n")
        sys.stderr.flush()
    _silence()


def _silence() -> None:
    """Let what is still buffered go nowhere when it cannot be written, so that the interpreter does not complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
