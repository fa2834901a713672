"""Child processes under a deadline: one at a time, bounded, killed with their group. What they say is not read here."""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuward.ports import Refused, Unreachable

LONGEST_BYTES = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024
_TICK_SECONDS = 0.1
_GRACE_SECONDS = 1.0

Kill = Callable[[int, int], None]


class Hung(Unreachable):
    """It did not answer by its deadline; asking again at once would only wait again."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the clock that never goes back, and how long it was away when it was set."""

    seconds: float
    end: float

    def rest(self) -> float:
        """Return the seconds that are left, never less than zero."""
        return max(0.0, self.end - time.monotonic())


def within(seconds: float) -> Deadline:
    """Return the deadline `seconds` from now."""
    return Deadline(seconds=seconds, end=time.monotonic() + seconds)


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed and its exit code; a code below zero is the signal that ended it."""

    code: int
    out: str
    err: str


class Slot:
    """At most one living child of one command.

    A child that even SIGKILL does not end (it sleeps in the driver) keeps the place taken: no second one joins it.
    `kill` is what signals a process group.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, kill: Kill = os.killpg
    ) -> None:
        self._command = tuple(command)
        self._environment = environment
        self._kill = kill
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Return the program's name."""
        return self._command[0]

    @property
    def child(self) -> subprocess.Popen[bytes] | None:
        """Return the living child, None when there is none."""
        return None if self._child is None or has_ended(self._child) else self._child

    def start(self, *arguments: str, wrapper: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a child in a process group of its own, with pipes for all it reads and says.

        `wrapper` are words before the command: a program that runs it, in a session of its own, so that it goes on
        when we and our terminal are gone.

        Raises Hung while an earlier one cannot be ended, Refused when the program cannot be started.
        """
        if not self.end():
            stuck = self._child.pid if self._child else 0
            raise Hung(f"{self.name} (pid {stuck}) was killed and is still there; it hangs in the driver, reboot")
        try:
            self._child = subprocess.Popen(  # noqa: S603 - the command is ours, no shell
                [*wrapper, *self._command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                bufsize=0,
                process_group=None if wrapper else 0,
                start_new_session=bool(wrapper),
            )
        except FileNotFoundError as error:
            raise Refused(f"{self.name} is not installed; install it or name where it is") from error
        except OSError as error:
            raise Refused(f"{self.name} cannot be started ({error.strerror}); see that it may be run") from error
        return self._child

    def end(self) -> bool:
        """Kill the child and its group and reap it; return False when it is still there after a moment of grace."""
        child = self._child
        if child is None:
            return True
        if child.returncode is None:
            # Before it is reaped its group's number cannot belong to anyone else.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._kill(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        if child.returncode is None:
            return False
        self._child = None
        return True


class Program:
    """A program that is run to its end and listened to; never more than one is alive."""

    def __init__(self, program: str, environment: Mapping[str, str] | None = None, *, kill: Kill = os.killpg) -> None:
        self._slot = Slot((program,), environment, kill=kill)
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        """Return the program's name."""
        return self._slot.name

    def run(self, *arguments: str, deadline: Deadline) -> Said:
        """Run it with `arguments` and return what it said.

        Raises Hung at the deadline, Refused when it cannot be started or says more than LONGEST_BYTES.
        """
        with self.turn(deadline) as slot:
            return self._run(slot, arguments, deadline)

    @contextlib.contextmanager
    def turn(self, deadline: Deadline) -> Iterator[Slot]:
        """Give its only place while the body runs, to start it another way. Raises Hung at the deadline."""
        if not self._turn.acquire(timeout=deadline.rest()):
            raise Hung(f"another {self.name} has been running for {deadline.seconds:g} s; try again when it ends")
        try:
            yield self._slot
        finally:
            self._turn.release()

    def _run(self, slot: Slot, arguments: Sequence[str], deadline: Deadline) -> Said:
        child = slot.start(*arguments)
        try:
            if child.stdin is not None:
                child.stdin.close()
            said = _listen(child, deadline)
            flood = said is not None and sum(map(len, said)) > LONGEST_BYTES
            whole = said is not None and not flood and ends_by(child, deadline)
        finally:
            slot.end()
        what = " ".join((self.name, *arguments))
        if flood:
            raise Refused(f"{what} printed more than {LONGEST_BYTES >> 20} MiB and was killed; see what it prints")
        if said is None or not whole:
            raise Hung(f"{what} did not answer within {deadline.seconds:g} s and was killed; try again later")
        out, err = (part.decode("utf-8", "replace") for part in said)
        return Said(code=child.returncode, out=out, err=err)


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Return whether the child has ended, without reaping it: its group can still be killed safely."""
    if child.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def pipes(child: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    """Return the numbers of the three pipes to a child that Slot started."""
    if child.stdin is None or child.stdout is None or child.stderr is None:
        raise AssertionError("all three are pipes")
    return child.stdin.fileno(), child.stdout.fileno(), child.stderr.fileno()


def _listen(child: subprocess.Popen[bytes], deadline: Deadline) -> tuple[bytes, bytes] | None:
    """Return all that the child says, or the first LONGEST_BYTES and a bit; None when it is not done in time."""
    out, err = child.stdout, child.stderr
    if out is None or err is None:
        raise AssertionError("both are pipes")
    heard = {out.fileno(): bytearray(), err.fileno(): bytearray()}
    waiting = select.poll()
    for number in heard:
        waiting.register(number, select.POLLIN)
    still_open, ended = len(heard), False
    while still_open and sum(map(len, heard.values())) <= LONGEST_BYTES:
        rest = deadline.rest()
        if not rest:
            return None
        ready = waiting.poll(0 if ended else min(rest, _TICK_SECONDS) * 1000)
        for number, _ in ready:
            chunk = os.read(number, _READ_BYTES)
            heard[number] += chunk
            if not chunk:
                waiting.unregister(number)
                still_open -= 1
        if not ready and ended:
            break  # what it left behind outside its group still holds the pipe
        # Once more after its end is known: it may have said its last words since the pipes were looked at.
        ended = ended or (not ready and has_ended(child))
    return bytes(heard[out.fileno()]), bytes(heard[err.fileno()])


def ends_by(child: subprocess.Popen[bytes], deadline: Deadline) -> bool:
    """Return whether the child ends before the deadline, and leave it unreaped."""
    pause = 0.001
    while not has_ended(child):
        if not deadline.rest():
            return False
        time.sleep(pause)
        pause = min(pause * 2, _TICK_SECONDS)
    return True
