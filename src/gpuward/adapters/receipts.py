"""Programs that are run once for a key, over crashes of who asks: a receipt on disk tells what became of each.

The program runs under a small shell in a session of its own. The shell waits until its receipt is on the disk, and adds
the exit code when the program has ended, whoever is left to read it. What the program says is not read here.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuward.adapters.child import LONGEST_BYTES, Deadline, Hung, Kill, Program, Said, ends_by
from gpuward.adapters.clock import SystemClock
from gpuward.adapters.procfs import ProcFs
from gpuward.ports import Refused, Unreachable

MOST_RECEIPTS = 256
OLDEST_SECONDS = 7 * 86400.0
_RECEIPT = ".receipt"
_WORDS = ".words"
_NEW = ".new"
_TURN = ".turn"
_TICK_SECONDS = 0.1
_MARK = "GPUWARD_RECEIPT"
_LONGEST_RECEIPT = 4096
_BLOCK_BYTES = 512
"""What `ulimit -f` counts in (POSIX)."""

_WRAPPER = f"""trap '' HUP INT TERM
exec >/dev/null 2>&1
read -r go || exit 125
ulimit -f {LONGEST_BYTES // _BLOCK_BYTES} 2>/dev/null || :
true >>"$1" || exit 125
exec 3>>"$1"
{_MARK}=$1
export {_MARK}
words=$2
shift 2
"$@" </dev/null >"$words" 2>&1 3>&-
code=$?
echo "ended $code" >&3
exit $code
"""
"""Who stops the agent, or its terminal, does not stop a reset half way; SIGKILL does. Without a word from its starter
nothing is run. It says nothing itself: its starter may be gone, and SIGPIPE would end it before its last line. That
line is one write of a few bytes: it is there whole or not at all."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_HEAD = re.compile(r"boot (\S+)\npid ([1-9][0-9]{0,9}) ([0-9]{1,20})\nnote (\S*)\n", re.ASCII)
_END = re.compile(r"(?:ended (-?[0-9]{1,3})|killed ([0-9]{1,6}))\n", re.ASCII)
_SIGNALLED = range(129, 193)
"""How a shell tells that a signal ended a program: 128 and its number."""
_NOT_STARTED = {
    125: "was not started, as its receipt cannot be written; make room for it",
    126: "cannot be started; see that it may be run",
    127: "is not installed; install it or name where it is",
}
_ENDED = frozenset({"Z", "X"})


@dataclass(frozen=True, slots=True)
class Receipt:
    """One run: the boot, the shell it runs under by pid and start, a note from before, and how it ended.

    `code` is the exit code, below zero the signal that ended it. `killed_seconds` is the deadline at which it was
    killed. Neither is known while it runs, and when it was cut short together with who asked.
    """

    boot: str
    pid: int
    started_ticks: int
    note: str | None
    code: int | None = None
    killed_seconds: float | None = None

    @property
    def is_told(self) -> bool:
        """Return whether its outcome is known."""
        return self.code is not None or self.killed_seconds is not None


class Receipts:
    """The receipts in one folder, which only its owner may read. Older than a week or more than 256, they are swept."""

    def __init__(self, folder: str, *, kill: Kill = os.killpg, proc: str = "/proc") -> None:
        self._folder = Path(folder)
        self._kill = kill
        self._proc = Path(proc)
        self._processes = ProcFs(proc)

    def tells(self, key: str) -> bool:
        """Return whether the run of this key was done or is under way. Raises Refused when that cannot be told."""
        file = self._file(key)
        receipt = self._read(file)
        return receipt is not None and (receipt.is_told or self._is_running(receipt, file))

    def once(
        self,
        program: Program,
        arguments: Sequence[str],
        *,
        key: str,
        note: Callable[[], str | None],
        deadline: Deadline,
    ) -> tuple[str | None, Said]:
        """Run the program, unless the receipt of this key tells that it was; return its note and what it said.

        `note` is asked for what to remember of before, a word, when the program is run anew: without a receipt, or
        with one that tells no outcome of a run that is over. That is so after a reboot as well: the machine may have
        been started by kexec, which resets no device. An outcome that is told stands over a reboot.

        Raises Hung at the deadline, also when it was killed at an earlier one; Refused when there can be no receipt or
        the one there is broken; Unreachable when a run that was waited for ended without an outcome.
        """
        file = self._file(key)
        with self._alone(deadline):
            receipt = self._read(file)
            what = " ".join((program.name, *arguments))
            if receipt is not None and not receipt.is_told and self._is_running(receipt, file):
                receipt = self._wait(receipt, file, what=what, deadline=deadline)
            if receipt is None or not receipt.is_told:
                receipt = self._begin(program, arguments, file=file, note=note(), deadline=deadline)
            return receipt.note, _said(receipt, file, program=program.name, what=what)

    # --- running ------------------------------------------------------------------------------------------------------

    def _begin(
        self, program: Program, arguments: Sequence[str], *, file: Path, note: str | None, deadline: Deadline
    ) -> Receipt:
        with program.turn(deadline) as slot:
            wrapper = ("/bin/sh", "-c", _WRAPPER, "sh", str(file), str(file.with_suffix(_WORDS)))
            child = slot.start(*arguments, wrapper=wrapper)
            try:
                self._put(file, child.pid, note)
                _let_go(child)
                ended = ends_by(child, deadline)
            finally:
                slot.end()
        end = f"ended {child.returncode}" if ended else _killed(deadline)
        receipt = self._read(file)
        if receipt is None or not ended or not receipt.is_told:
            # A shell that was itself ended could not add how.
            with contextlib.suppress(OSError):
                _add(file, end)
            receipt = self._read(file)
        if receipt is None or not receipt.is_told:
            raise Refused(f"the receipt {file} could not be ended ({end}); make room for it, and look at the GPU")
        return receipt

    def _wait(self, receipt: Receipt, file: Path, *, what: str, deadline: Deadline) -> Receipt:
        """Wait for a run that another process began, and kill it at the deadline."""
        while self._is_running(receipt, file):
            if not deadline.rest():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    self._kill(receipt.pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    _add(file, _killed(deadline))
                raise _hung(what, deadline.seconds)
            time.sleep(min(deadline.rest(), _TICK_SECONDS))
        then = self._read(file)
        if then is None or not then.is_told:
            raise Unreachable(f"{what} was under way and has ended, and nothing tells how; look at it and try again")
        return then

    def _is_running(self, receipt: Receipt, file: Path) -> bool:
        """Return whether anything of the run is alive: its shell, or without it the program, stuck in the driver.

        A session whose first process is gone, as every daemon's, may have got the number of one that is over. What
        belongs to the run has the name of its receipt in its environment, or none to be read when it is ending.
        """
        if receipt.boot != self._boot():
            return False
        shell = self._processes.stat(receipt.pid)
        if shell is not None and shell.started_ticks != receipt.started_ticks:
            return False
        if shell is not None and shell.state not in _ENDED:
            return True
        try:
            pids = [int(entry.name) for entry in self._proc.iterdir() if entry.name.isdecimal()]
        except OSError as error:
            raise Refused(f"{self._proc} cannot be read ({error.strerror}); see that it is mounted") from error
        mark = f"{_MARK}={file}".encode()
        return any(self._is_of(receipt.pid, pid, mark) for pid in pids)

    def _is_of(self, session: int, pid: int, mark: bytes) -> bool:
        stat = self._processes.stat(pid)
        if stat is None or stat.session != session or stat.state in _ENDED:
            return False
        try:
            environment = (self._proc / str(pid) / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        except OSError:
            return True
        return not environment or mark in environment.split(b"\0")

    def _boot(self) -> str:
        file = self._proc / "sys/kernel/random/boot_id"
        try:
            return file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise Refused(f"{file} cannot be read, so that no receipt can tell its boot; mount /proc") from error

    # --- on disk ------------------------------------------------------------------------------------------------------

    def _file(self, key: str) -> Path:
        """Return where the receipt of a key is; a key that makes no good name is told apart by its hash."""
        if _PLAIN.fullmatch(key) is None:
            digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            key = f"{_STRANGE.sub('_', key)[:64]}.{digest}"
        return self._folder / f"{key}{_RECEIPT}"

    def _read(self, file: Path) -> Receipt | None:
        try:
            with file.open("rb") as opened:
                content = opened.read(_LONGEST_RECEIPT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _untold(file, error.strerror or "it cannot be read") from error
        # What stands after the last line end was cut off while it was written.
        text = content[: content.rfind(b"\n") + 1].decode("ascii", "replace")
        head = _HEAD.match(text)
        ends = list(_END.finditer(text, head.end())) if head else []
        if head is None or "".join(end[0] for end in ends) != text[head.end() :]:
            raise _untold(file, "it is broken")
        boot, pid, started, note = head.groups()
        code, killed = ends[-1].groups() if ends else (None, None)
        return Receipt(
            boot=boot,
            pid=int(pid),
            started_ticks=int(started),
            note=note or None,
            code=None if code is None else _exit_code(int(code)),
            killed_seconds=None if killed is None else float(killed) / 1000,
        )

    def _put(self, file: Path, pid: int, note: str | None) -> None:
        """Put a receipt without an outcome on the disk, and an empty file for what will be said."""
        shell = self._processes.stat(pid)
        if shell is None or shell.started_ticks is None:
            raise Refused(f"the start of process {pid} cannot be read in {self._proc}; see that it is mounted")
        word = "" if note is None else "".join(note.split())
        text = f"boot {self._boot()}\npid {pid} {shell.started_ticks}\nnote {word}\n"
        fresh = file.with_suffix(_NEW)
        try:
            self._sweep(but=file)
            file.with_suffix(_WORDS).write_bytes(b"")
            with fresh.open("wb") as out:
                out.write(text.encode("ascii", "replace"))
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(file)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._no_receipt(error) from error

    def _sweep(self, *, but: Path) -> None:
        """Remove old receipts, those beyond the count, and what belongs to none."""
        mine = {file: file.lstat().st_mtime for file in self._folder.glob(f"*{_RECEIPT}") if file != but}
        newest = sorted(mine, key=lambda file: mine[file], reverse=True)
        oldest = SystemClock().now() - OLDEST_SECONDS
        kept = {but.stem, *(file.stem for file in newest[: MOST_RECEIPTS - 1] if mine[file] >= oldest)}
        for file in [*self._folder.iterdir()]:
            if file.suffix in {_RECEIPT, _WORDS, _NEW} and file.stem not in kept:
                with contextlib.suppress(OSError):  # one that stays does no harm
                    file.unlink()

    @contextlib.contextmanager
    def _alone(self, deadline: Deadline) -> Iterator[None]:
        """Keep every other process and thread from this folder while the body runs."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            turn = os.open(self._folder / _TURN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._no_receipt(error) from error
        try:
            while not _taken(turn):
                if not deadline.rest():
                    raise Hung(f"another has worked in {self._folder} for {deadline.seconds:g} s; try again later")
                time.sleep(min(deadline.rest(), _TICK_SECONDS))
            yield
        finally:
            os.close(turn)

    def _no_receipt(self, error: OSError) -> Refused:
        return Refused(
            f"no receipt can be kept in {self._folder} ({error.strerror}), and without one nothing is run that must "
            "not be run twice; make room for it"
        )


def _taken(turn: int) -> bool:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go(child: subprocess.Popen[bytes]) -> None:
    """Give the word that the shell waits for; a shell that is gone has run nothing, and its end says so."""
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(b"go\n")
        child.stdin.close()


def _add(file: Path, line: str) -> None:
    with file.open("ab", buffering=0) as out:
        out.write(f"{line}\n".encode())


def _killed(deadline: Deadline) -> str:
    return f"killed {min(999_999, round(deadline.seconds * 1000))}"


def _exit_code(code: int) -> int:
    return 128 - code if code in _SIGNALLED else code


def _said(receipt: Receipt, file: Path, *, program: str, what: str) -> Said:
    """Return what a run came to; one that was killed at its deadline raises Hung again."""
    if receipt.code is None:
        raise _hung(what, receipt.killed_seconds or 0.0)
    try:
        with file.with_suffix(_WORDS).open("rb") as opened:
            words = opened.read(LONGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        words = ""
    if receipt.code in _NOT_STARTED:
        raise Refused(f"{program} {_NOT_STARTED[receipt.code]}")
    return Said(code=receipt.code, out=words, err="")


def _hung(what: str, seconds: float) -> Hung:
    return Hung(f"{what} did not answer within {seconds:g} s and was killed; try again later")


def _untold(file: Path, why: str) -> Refused:
    return Refused(
        f"the receipt {file} does not tell whether the GPU was reset ({why}), and a reset is not done twice; look at "
        "the GPU, remove the file and retry"
    )
