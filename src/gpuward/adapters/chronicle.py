"""The journal of happenings as files of JSON lines, rotated and bounded. What happens is not decided here."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from gpuward.model.happening import Happening, as_object
from gpuward.ports import Refused

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
"""Without O_NONBLOCK the open of a FIFO that nobody reads would wait for ever; a link leads to what is not ours."""


class JsonLines:
    """Implements Chronicle. The newest lines are in `path`, older ones in `path`.1 and so on; each line is flushed."""

    def __init__(self, path: str, *, file_bytes: int = 8 * 1024 * 1024, files: int = 8) -> None:
        self._path = Path(path)
        self._file_bytes = file_bytes
        self._files = files

    def write(self, happening: Happening) -> None:
        """Add one line and flush it to the disk. Raises Refused when that fails."""
        line = json.dumps(as_object(happening), ensure_ascii=False, separators=(",", ":")) + "\n"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._rotate(len(line.encode()))
            handle = os.open(self._path, _FLAGS, 0o600)
            try:
                _write_whole(handle, _after_a_torn_line(handle) + line.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise Refused(f"the journal {self._path} cannot be written ({error.strerror}); make room for it") from error

    def newest(self, most: int) -> list[dict[str, Any]]:
        """Return the newest happenings as JSON values, oldest first; a line that is damaged is left out."""
        lines: list[str] = []
        for number in range(self._files - 1, -1, -1):
            file = self._path if number == 0 else self._numbered(number)
            try:
                lines += _text_of(file).splitlines()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise Refused(f"the journal {file} cannot be read ({error.strerror})") from error
        return [one for one in map(_read, lines[-most:]) if one is not None]

    def _rotate(self, more_bytes: int) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size + more_bytes <= self._file_bytes:
            return
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number)
            newer = self._path if number == 1 else self._numbered(number - 1)
            if newer.exists():
                newer.replace(older)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _text_of(file: Path) -> str:
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(handle, "rb") as content:  # noqa: PTH123  a descriptor, not a path
        _see_that_it_is_a_file(handle, file)
        return content.read().decode("utf-8", "replace")


def _see_that_it_is_a_file(handle: int, file: Path) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Refused(f"the journal {file} is no regular file; remove it or give another --state-dir")


def _read(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _after_a_torn_line(handle: int) -> bytes:
    """Return what ends a line that a power cut left open, so that the next one is whole."""
    size = os.fstat(handle).st_size
    return b"" if size == 0 or os.pread(handle, 1, size - 1) == b"\n" else b"\n"


def _write_whole(handle: int, content: bytes) -> None:
    """Write all of it: a full disk may take a part first, and half a line is worse than none."""
    written = os.write(handle, content)
    if written != len(content):
        os.ftruncate(handle, os.fstat(handle).st_size - written)
        raise OSError(28, "No space left on device")
