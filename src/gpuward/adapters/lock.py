"""One agent for one state folder: a lock that the kernel lifts when its holder ends, however it ends."""

import contextlib
import fcntl
import os
from pathlib import Path

from gpuward.ports import Refused


class FolderLock:
    """Holds `folder`/agent.lock from `take` until `give_back` or the end of the process."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / "agent.lock"
        self._handle: int | None = None

    def take(self) -> None:
        """Take the lock. Raises Refused when another process holds it, naming it, or the folder cannot be used."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise Refused(f"the state folder {self._path.parent} cannot be used ({error.strerror})") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            other = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            os.close(handle)
            whose = f"another agent or watch (pid {other or 'unknown'}) uses {self._path.parent}"
            raise Refused(f"{whose}; stop it, or give another --state-dir") from error
        with contextlib.suppress(OSError):  # whose it is helps a person; on a full disk the lock holds without
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._handle = handle

    def give_back(self) -> None:
        """Let another agent have it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
