"""Evidence as files, a folder for each case, with a list of their hashes. What is kept is chosen elsewhere."""

import hashlib
import os
import re
from pathlib import Path

from gpuward.ports import Refused

_SAFE = re.compile(r"^\.|[^A-Za-z0-9._-]")
_LISTED = re.compile(rb"([0-9a-f]{64})  ([A-Za-z0-9_-][A-Za-z0-9._-]*)\n")
LIST = "SHA256SUMS"
"""The list that `sha256sum -c` reads."""


class EvidenceFolder:
    """Implements EvidenceRoom under one folder, which only its owner may read."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Write the file whole or not at all, then the list with its hash, anew. Raises Refused.

        Kept again, it is replaced and listed once.
        """
        folder = self._root / _SAFE.sub("_", case)
        digest = hashlib.sha256(content).hexdigest()
        file = folder / _SAFE.sub("_", name)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(file, content)
            _replace(folder / LIST, _with(_content(folder / LIST), digest, file.name))
        except OSError as error:
            raise Refused(f"evidence {file} cannot be written ({error.strerror}); make room for it") from error
        return digest


def _with(listed: bytes, digest: str, name: str) -> bytes:
    """Return the list with this hash of a file at its end, and no other of it; a line that was cut is left out."""
    lines = [line[0] for line in _LISTED.finditer(listed) if line[2] != name.encode()]
    return b"".join([*lines, f"{digest}  {name}\n".encode()])


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _replace(file: Path, content: bytes) -> None:
    """Put the content there so that even a power cut leaves the old or the new."""
    fresh = file.with_name(f".{file.name}.new")
    with fresh.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
