"""Evidence as files, a folder for each case, with a list of their hashes. What is kept is chosen elsewhere."""

import hashlib
import os
import re
from pathlib import Path

from gpuward.ports import Refused

_SAFE = re.compile(r"[^A-Za-z0-9._-]")
LIST = "SHA256SUMS"
"""The list that `sha256sum -c` reads."""


class EvidenceFolder:
    """Implements EvidenceRoom under one folder, which only its owner may read."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Write the file whole or not at all, then its hash into the list. Raises Refused."""
        folder = self._root / _SAFE.sub("_", case)
        digest = hashlib.sha256(content).hexdigest()
        file = folder / _SAFE.sub("_", name)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(file.with_name(f".{file.name}.new"), content)
            file.with_name(f".{file.name}.new").replace(file)
            with (folder / LIST).open("a", encoding="ascii") as listed:
                listed.write(f"{digest}  {file.name}\n")
                listed.flush()
                os.fsync(listed.fileno())
        except OSError as error:
            raise Refused(f"evidence {file} cannot be written ({error.strerror}); make room for it") from error
        return digest


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
