"""A watch's place, kept as one small JSON file that is replaced whole. What is saved in it is not known here."""

import contextlib
import errno
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuward.ports import Refused

_VERSION = 1
_FOLDER_MODE = 0o700
_LARGEST_MIB = 64
_RANDOM_NAME = re.compile(r"[a-z0-9_]{8}")
"""What tempfile puts after our prefix; other names, such as an editor's, are not ours to delete."""


class JsonFile:
    """Implements Store with the file at `path`, readable by its owner only. `remedy` is what helps a broken one."""

    def __init__(self, path: str, *, remedy: str = "delete it and the watch starts afresh") -> None:
        self._path = Path(path)
        self._remedy = remedy

    def load(self) -> Mapping[str, Any] | None:
        """Return what was saved last, None when the file is not there; Refused when it cannot be used."""
        try:
            envelope = json.loads(self._content())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"cannot read {self._path}: {error.strerror}; give another --state-dir") from error
        except (ValueError, RecursionError) as error:
            raise Refused(f"{self._path} is broken; {self._remedy}") from error
        match envelope:
            case {"version": int(version), "saved": dict(saved)} if version == _VERSION:
                return saved
        raise Refused(f"{self._path} was written by another version of gpuward; {self._remedy}")

    def save(self, saved: Mapping[str, Any]) -> None:
        """Replace the file so that even a power cut leaves the old or the new one; Refused when it cannot."""
        text = json.dumps({"version": _VERSION, "saved": dict(saved)}, separators=(",", ":"))
        try:
            self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._sweep()
            self._replace(text.encode())
        except OSError as error:
            raise Refused(f"cannot write {self._path}: {error.strerror}; give another --state-dir") from error

    def _content(self) -> bytes:
        # Without O_NONBLOCK the open of a FIFO that nobody writes to would wait for ever.
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise Refused(f"{self._path} is no regular file; remove it or give another --state-dir") from error
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{self._path} is no regular file; remove it or give another --state-dir")
            if status.st_size > _LARGEST_MIB * 1024 * 1024:
                raise Refused(f"{self._path} is larger than {_LARGEST_MIB} MiB; delete it or give another --state-dir")
            with open(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)

    def _sweep(self) -> None:
        """Remove the fresh files of processes that were killed while they saved."""
        prefix = f".{self._path.name}."
        with os.scandir(self._path.parent) as entries:
            names = [one.name for one in entries if one.name.startswith(prefix) and one.is_file(follow_symlinks=False)]
        for name in names:
            if _RANDOM_NAME.fullmatch(name.removeprefix(prefix)):
                with contextlib.suppress(OSError):  # litter that stays does no harm to what is saved
                    (self._path.parent / name).unlink()

    def _replace(self, content: bytes) -> None:
        with self._fresh() as (handle, fresh):
            with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor, not a path
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _fresh(self) -> Iterator[tuple[int, Path]]:
        """Make a file beside ours, mode 0600; it is gone afterwards, renamed or not."""
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        fresh = Path(name)
        try:
            yield handle, fresh
        finally:
            fresh.unlink(missing_ok=True)
