"""Controllers as processes of their own that start in no time: each is forked from one that has gpuward loaded.

What runs in them is `gpuward` with its words, as from the shell; what they say goes to one file.
"""

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_LOADED = ("gpuward.cli.main", "gpuward.cli.controller", "gpuward.adapters.kubernetes", "kubernetes_asyncio.config")
"""What takes a second to load."""
_DIE_WITH_PARENT = 1


@dataclass(frozen=True, slots=True)
class Child:
    """A process. `fd` is a file descriptor of it, so that no other process is ever meant."""

    pid: int
    fd: int

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        signal.pidfd_send_signal(self.fd, number)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        if self.lives():
            self.send(signal.SIGKILL)
            assert self._is_gone(30_000), f"process {self.pid} does not end"

    def lives(self) -> bool:
        """Return whether it is still there."""
        return not self._is_gone(0)

    def _is_gone(self, wait_ms: int) -> bool:
        asked = select.poll()
        asked.register(self.fd, select.POLLIN)
        return bool(asked.poll(wait_ms))


@dataclass(slots=True)
class Nursery:
    """The process that the others are forked from."""

    process: "subprocess.Popen[str]"
    born: list[Child] = field(default_factory=list)

    def bear(self, words: Sequence[str]) -> Child:
        """Start `gpuward` with these words."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(list(words)) + "\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        child = Child(pid, os.pidfd_open(pid))
        self.born.append(child)
        return child


@contextmanager
def nursery(log: Path) -> Iterator[Nursery]:
    """Give a nursery while the body runs; nobody of it outlives that."""
    with (
        log.open("ab") as said,
        subprocess.Popen(
            [sys.executable, "-m", "tests.kit.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=_ROOT,
        ) as process,
    ):
        place = Nursery(process)
        try:
            yield place
        finally:
            for child in place.born:
                child.kill()
                os.close(child.fd)
            process.kill()


def _main() -> None:
    """Fork for each line of words, and tell the process id."""
    for name in _LOADED:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes away who has ended
    parent = os.getpid()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _live(json.loads(line), parent)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _live(words: Sequence[str], parent: int) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, int(signal.SIGKILL))
    if os.getppid() == parent:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(0)
        os.dup2(2, 1)
        code = 1
        try:
            code = import_module("gpuward.cli.main").run(words)
        finally:
            os._exit(code)


if __name__ == "__main__":
    _main()
