"""The systemd journal's kernel lines as JSON, read from a `journalctl` child. What a line means is not known here.

The child is followed across its own death: the next read starts another one after the last line that was handed out.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence

from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Origin, Refused, Unreachable

_READ_BYTES = 64 * 1024
_LONGEST_LINE_BYTES = 1024 * 1024
_COMPLAINT_BYTES = 4096
_GRACE_SECONDS = 2.0
_ANSWER_SECONDS = 10.0
_CURSOR = re.compile(rb'"__CURSOR"\s*:\s*"([^"\\]+)"')
"""A quotation mark inside a message is escaped, so this matches the field only."""


class Journal:
    """Implements KernelLog with `journalctl -o json`; the text of a line is one JSON object.

    The cursor is `j` and the journal's whole `__CURSOR`, which is what `--after-cursor` takes, so a saved place needs
    no table beside it. Without a place the present boot is read from its start; after a place, every later boot too.
    `files` names journal files to read instead of this machine's, with all their boots. With `follow` False reading
    ends at the last line there is, and `ended` says so.
    """

    def __init__(
        self, program: Sequence[str] = ("journalctl",), *, files: Sequence[str] = (), follow: bool = True
    ) -> None:
        self._program = tuple(program)
        self._files = tuple(files)
        self._follow = follow
        self._child: subprocess.Popen[bytes] | None = None
        self._after: str | None = None
        self._line = 0
        self._rest = b""
        self._dropping = False
        self._complaint = b""
        self.ended = False

    def origin(self) -> Origin:
        """Return the name only: every line carries its own boot, time and machine."""
        return Origin(source="journal", boot=None, boot_time=None, node=None)

    def seek(self, cursor: str) -> bool:
        """Go on after `cursor`; False when the journal no longer holds it, then reading starts at the oldest line."""
        self.close()
        self.ended = False
        self._after = None
        place = cursor.removeprefix("j")
        if place == cursor or not place or not self._holds(place):
            return False
        self._after = place
        return True

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return the lines that came, waiting at most `timeout_seconds` for the first.

        Raises Refused where there is no journalctl or no permission, Unreachable when it ended by itself.
        """
        if self.ended:
            return ()
        child = self._started()
        end = time.monotonic() + timeout_seconds
        while True:
            chunk = self._chunk(child, end)
            if chunk is None:
                return ()
            if not chunk:
                return self._finished(child)
            if came := list(self._signals(chunk)):
                return came

    def close(self) -> None:
        """End the child and everything it started; a later read starts another."""
        child, self._child = self._child, None
        self._rest = b""
        self._dropping = False
        if child is not None:
            _end(child)

    def _command(self, *more: str, every_boot: bool) -> list[str]:
        # `-k` means the present boot; the match alone means every boot.
        which = "_TRANSPORT=kernel" if every_boot or self._files else "-k"
        files = [f"--file={file}" for file in self._files]
        return [*self._program, "--output=json", "--all", "--no-pager", *more, *files, which]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            place = [] if self._after is None else [f"--after-cursor={self._after}"]
            following = ["--follow", "--no-tail"] if self._follow else []
            self._complaint = b""
            self._child = self._spawn(self._command(*following, *place, every_boot=bool(place)))
        return self._child

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the command is ours, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except FileNotFoundError as error:
            raise Refused(f"{command[0]} is not installed; read the kernel log from /dev/kmsg instead") from error
        except OSError as error:
            raise Refused(f"{command[0]} cannot be started ({error.strerror}); read /dev/kmsg instead") from error

    def _chunk(self, child: subprocess.Popen[bytes], end: float) -> bytes | None:
        """Return what the child wrote, empty when it closed its output, None when nothing came until `end`."""
        waiting = select.poll()
        output, complaints = _pipes(child)
        waiting.register(output, select.POLLIN)
        waiting.register(complaints, select.POLLIN)
        while ready := dict(waiting.poll(max(0.0, end - time.monotonic()) * 1000)):
            if complaints in ready and not self._hear(complaints):
                waiting.unregister(complaints)
            if output in ready:
                return os.read(output, _READ_BYTES)
        return None

    def _hear(self, complaints: int) -> bool:
        """Keep the last of what the child complains of, so that it never blocks on it."""
        said = os.read(complaints, _READ_BYTES)
        self._complaint = (self._complaint + said)[-_COMPLAINT_BYTES:]
        return bool(said)

    def _signals(self, chunk: bytes) -> Iterator[Signal | Gap]:
        *whole, rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            if self._dropping:
                self._dropping = False
            elif line:
                yield self._signal(line)
        self._rest = b"" if self._dropping else rest
        if len(self._rest) > _LONGEST_LINE_BYTES:
            self._dropping = True
            self._rest = b""
            self._line += 1
            yield Gap(source="journal", missed=1, why="a journal line is longer than 1 MiB and was passed over")

    def _signal(self, line: bytes) -> Signal:
        self._line += 1
        match = _CURSOR.search(line)
        if match is not None:
            self._after = match[1].decode("utf-8", "replace")
        text = line.decode("utf-8", "replace")
        return Signal(source="journal", line=self._line, cursor=f"j{self._after or ''}", text=text)

    def _finished(self, child: subprocess.Popen[bytes]) -> Sequence[Signal | Gap]:
        """Take leave of a child that closed its output: the wanted end, or trouble."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
        while self._hear_rest(child):
            pass
        self.close()
        if not self._follow and child.returncode == 0:
            self.ended = True
            return ()
        raise _ended_badly(self._program[0], self._complaint)

    def _hear_rest(self, child: subprocess.Popen[bytes]) -> bool:
        _, complaints = _pipes(child)
        return bool(select.select([complaints], [], [], 0)[0]) and self._hear(complaints)

    def _holds(self, place: str) -> bool:
        """Ask whether the line at `place` is there: where it is not, journalctl takes the nearest in silence."""
        child = self._spawn(self._command(f"--cursor={place}", every_boot=True))
        end = time.monotonic() + _ANSWER_SECONDS
        first = b""
        try:
            while b"\n" not in first and len(first) < _LONGEST_LINE_BYTES and (chunk := self._chunk(child, end)):
                first += chunk
        finally:
            _end(child)
        match = _CURSOR.search(first.partition(b"\n")[0])
        return match is not None and match[1] == place.encode()


def _pipes(child: subprocess.Popen[bytes]) -> tuple[int, int]:
    if child.stdout is None or child.stderr is None:
        raise AssertionError("both are pipes")
    return child.stdout.fileno(), child.stderr.fileno()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Terminate the child's group, kill it when it does not go, and reap it."""
    with child:
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(child.pid, ending)
                child.wait(_GRACE_SECONDS)


def _ended_badly(program: str, complaint: bytes) -> EdgeError:
    last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
    if "permission" in last.lower():
        return Refused(f"{program} may not read the journal ({last}); run as root or in the group systemd-journal")
    return Unreachable(f"{program} ended by itself ({last or 'it said nothing'}); it is started again")
