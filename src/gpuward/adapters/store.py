"""A watch's place, kept as one small JSON file that is replaced whole. What is saved in it is not known here."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuward.ports import Refused

_VERSION = 1
_FOLDER_MODE = 0o700


class JsonFile:
    """Implements Store with the file at `path`, readable by its owner only."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> Mapping[str, Any] | None:
        """Return what was saved last, None when the file is not there; Refused when it cannot be used."""
        try:
            envelope = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"cannot read {self._path}: {error.strerror}; give another state file") from error
        except (ValueError, RecursionError) as error:
            raise Refused(f"{self._path} is broken; delete it and the watch starts afresh") from error
        match envelope:
            case {"version": int(version), "saved": dict(saved)} if version == _VERSION:
                return saved
        raise Refused(f"{self._path} was written by another version of gpuward; delete it and the watch starts afresh")

    def save(self, saved: Mapping[str, Any]) -> None:
        """Replace the file so that even a power cut leaves the old or the new one; Refused when it cannot."""
        text = json.dumps({"version": _VERSION, "saved": dict(saved)}, separators=(",", ":"))
        try:
            self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._replace(text.encode())
        except OSError as error:
            raise Refused(f"cannot write {self._path}: {error.strerror}; give another state file") from error

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
