"""The kernel log since boot as one piece of text, for evidence. It is not recognised here."""

import subprocess
from pathlib import Path

from gpuward.adapters.kmsg import Kmsg
from gpuward.model.signal import Gap
from gpuward.ports import Unreachable

MOST_BYTES = 16 * 1024 * 1024
_JOURNAL = ("journalctl", "-k", "-b", "-o", "short-iso", "--no-pager")
_JOURNAL_SECONDS = 20.0


def kernel_log_text(name: str) -> bytes:
    """Return the newest 16 MiB of the kernel log: of the ring, the journal, or a file. Raises Unreachable."""
    if name == "journal":
        return _of_journal()
    if Path(name).is_char_device():
        return _of_ring(name)
    try:
        with Path(name).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_BYTES))
            return file.read(MOST_BYTES)
    except OSError as error:
        raise Unreachable(f"the kernel log {name} cannot be read ({error.strerror})") from error


def _of_ring(name: str) -> bytes:
    log = Kmsg(name)
    try:
        lines: list[str] = []
        while came := log.read(0.0):
            lines += [f"[{one.why}]" if isinstance(one, Gap) else one.text for one in came]
        return "\n".join(lines).encode("utf-8", "replace")[-MOST_BYTES:]
    finally:
        log.close()


def _of_journal() -> bytes:
    try:
        done = subprocess.run(_JOURNAL, capture_output=True, timeout=_JOURNAL_SECONDS, check=True)  # noqa: S603  fixed words
    except (OSError, subprocess.SubprocessError) as error:
        raise Unreachable(f"the journal of the kernel cannot be read ({error})") from error
    return done.stdout[-MOST_BYTES:]
