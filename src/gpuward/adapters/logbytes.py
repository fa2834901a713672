"""The bytes of a finished log, block by block, decompressed and in UTF-8. Lines and needles are not known here."""

import codecs
import errno
import os
import select
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from gpuward.adapters.kmsg import KMSG_DEVICE, RECORD_BYTES, first_line
from gpuward.model.signal import Gap
from gpuward.ports import EdgeError, Refused, Unreachable

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and the size, None where that is unknown."""

BLOCK_BYTES = 128 * 1024
_PROGRESS_BYTES = 8 * 1024 * 1024
_SNIFF_BYTES = 4096
_GZIP_WBITS = 31
_GZIP_MAGIC = b"\x1f\x8b"
_SHARE_OF_NUL = 0.95


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A format that is not read here, known by its first bytes, and what a person does about it."""

    magic: bytes
    what: str
    remedy: str


_FOREIGN = (
    _Foreign(b"\xfd7zXZ\x00", "xz-compressed", "xzcat {name} | gpuward scan -"),
    _Foreign(b"\x28\xb5\x2f\xfd", "zstd-compressed", "zstdcat {name} | gpuward scan -"),
    _Foreign(b"BZh", "bzip2-compressed", "bzcat {name} | gpuward scan -"),
    _Foreign(b"\x04\x22\x4d\x18", "lz4-compressed", "lz4cat {name} | gpuward scan -"),
    _Foreign(b"PK\x03\x04", "a zip archive", "unzip -p {name} | gpuward scan -"),
    _Foreign(b"LPKSHHRH", "a binary journal", "journalctl --file {name} -k -o json | gpuward scan -"),
    _Foreign(b"\x7fELF", "a program, not a log", "gpuward scan LOGFILE"),
)


def log_blocks(name: str, place: str | BinaryIO, progress: Progress | None) -> Iterator[bytes | Gap]:
    """Yield the text at `place`, a path or an open stream, in blocks; a Gap where a kernel ring dropped records.

    gzip (also of several members), UTF-16 and a UTF-8 byte order mark are undone. Raises Unreachable or Refused after
    the blocks before the trouble.
    """
    if not isinstance(place, str):
        yield from _readable(name, _stream_blocks(name, place, progress))
        return
    handle = _opened(name, place)
    try:
        status = os.fstat(handle)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == KMSG_DEVICE:
            yield from _ring_blocks(name, handle)
        else:
            yield from _readable(name, _file_blocks(name, handle, progress))
    finally:
        os.close(handle)


def _opened(name: str, path: str) -> int:
    try:
        # Without O_NONBLOCK the open of a FIFO that nobody writes to would wait for ever.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _trouble(name, error) from error


def _trouble(name: str, error: OSError | ValueError) -> EdgeError:
    """Return the sentence for what the system said of `name`."""
    match getattr(error, "errno", None):
        case errno.ENOENT:
            return Unreachable(f"{name} is not there; check the name")
        case errno.EACCES | errno.EPERM:
            return Refused(f"{name} may not be read by this user; run as root or a member of its group")
        case errno.EISDIR:
            return Refused(f"{name} is a folder; name the log files in it")
        case errno.ENXIO:
            return Refused(f"{name} is a socket, not a log; name a file, or - for standard input")
        case errno.EIO:
            return Unreachable(f"{name} failed while it was read (input/output error); check the disk it is on")
    said = getattr(error, "strerror", None) or str(error)
    return Refused(f"{name} cannot be read ({said}); name a readable file, or - for standard input")


def _file_blocks(name: str, handle: int, progress: Progress | None) -> Iterator[bytes]:
    status = os.fstat(handle)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    reader = _reported(_read_blocks(name, lambda: _read_patiently(handle)), size, progress)
    first = next(reader, b"")
    if not first and stat.S_ISFIFO(status.st_mode):
        raise Unreachable(f"nothing was written to the pipe {name}; start its writer first")
    yield first
    yield from reader


def _stream_blocks(name: str, stream: BinaryIO, progress: Progress | None) -> Iterator[bytes]:
    try:
        handle = stream.fileno()
    except (OSError, ValueError):
        return _reported(_read_blocks(name, lambda: stream.read(BLOCK_BYTES)), None, progress)
    # A buffered read would wait for a whole block, or end early on a pipe that does not wait.
    return _reported(_read_blocks(name, lambda: _read_patiently(handle)), None, progress)


def _read_patiently(handle: int) -> bytes:
    """Read what is there now, waiting for it even where the descriptor does not, as after an ssh that shared it."""
    while True:
        try:
            return os.read(handle, BLOCK_BYTES)
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            waiting.poll()


def _read_blocks(name: str, read: Callable[[], bytes]) -> Iterator[bytes]:
    try:
        while block := read():
            yield block
    except (OSError, ValueError) as error:
        raise _trouble(name, error) from error


def _reported(blocks: Iterator[bytes], size: int | None, progress: Progress | None) -> Iterator[bytes]:
    done = told = 0
    for block in blocks:
        done += len(block)
        if progress is not None and done - told >= _PROGRESS_BYTES:
            progress(done, size)
            told = done
        yield block


def _ring_blocks(name: str, handle: int) -> Iterator[bytes | Gap]:
    """Yield what the kernel ring holds now, one line for each record; the frame of /dev/kmsg stays on it."""
    while True:
        try:
            yield first_line(os.read(handle, RECORD_BYTES)) + b"\n"
        except BlockingIOError:
            return
        except BrokenPipeError:
            yield Gap(source=name, missed=None, why="the kernel ring was overwritten while it was read")
        except OSError as error:
            raise _trouble(name, error) from error


def _readable(name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Undo compression and encoding, known by the first bytes."""
    head, blocks = _headed(blocks)
    if head.startswith(_GZIP_MAGIC):
        head, blocks = _headed(_inflated(name, blocks))
    for foreign in _FOREIGN:
        if head.startswith(foreign.magic):
            raise Refused(f"{name} is {foreign.what}; use: {foreign.remedy.format(name=name)}")
    encoding, mark = _encoding(head[:_SNIFF_BYTES])
    blocks = _without(mark, blocks)
    return blocks if encoding is None else _transcoded(encoding, blocks)


def _headed(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes, enough to know a format by, and all blocks from the start.

    Trouble among the first blocks is raised where it lies, after the good bytes before it.
    """
    held: list[bytes] = []
    try:
        while sum(map(len, held)) < _SNIFF_BYTES and (block := next(blocks, None)) is not None:
            held.append(block)
    except EdgeError as error:
        blocks = map(_raised, (error,))
    return b"".join(held), chain(held, blocks)


def _raised(error: EdgeError) -> bytes:
    raise error


def _encoding(head: bytes) -> tuple[str | None, int]:
    """Return the UTF-16 kind of `head` (None for bytes that are read as they are) and the length of its mark."""
    for mark, encoding in (
        (codecs.BOM_UTF8, None),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if head.startswith(mark):
            return encoding, len(mark)
    pairs = len(head) // 2
    even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if pairs and odd >= _SHARE_OF_NUL * pairs and even <= (1 - _SHARE_OF_NUL) * pairs:
        return "utf-16-le", 0
    if pairs and even >= _SHARE_OF_NUL * pairs and odd <= (1 - _SHARE_OF_NUL) * pairs:
        return "utf-16-be", 0
    return None, 0


def _without(count: int, blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        yield block[count:]
        count = max(0, count - len(block))


def _transcoded(encoding: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _inflated(name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Inflate gzip members one after another, at most one block at a time, whatever the ratio."""
    member = None
    for block in blocks:
        left = block
        while left:
            if member is None:
                left = left.lstrip(b"\0")  # gzip allows padding after a member
                if not left:
                    break
                member = zlib.decompressobj(_GZIP_WBITS)
            yield from _inflate(name, member, left)
            left = member.unused_data or member.unconsumed_tail
            if member.eof:
                member = None
    while member is not None and not member.eof and (rest := member.decompress(b"", BLOCK_BYTES)):
        yield rest
    if member is not None and not member.eof:
        raise Refused(
            f"the gzip file {name} is cut short; the whole lines before the cut were read, get the file again"
        )


def _inflate(name: str, member: "zlib._Decompress", compressed: bytes) -> Iterator[bytes]:
    before = member.copy()
    try:
        yield member.decompress(compressed, BLOCK_BYTES)
    except zlib.error as error:
        yield _salvaged(before, compressed)
        raise Refused(
            f"the gzip file {name} is damaged; the lines before the damage were read, get the file again"
        ) from error


def _salvaged(member: "zlib._Decompress", compressed: bytes) -> bytes:
    """Inflate byte by byte up to the damage: a failing call throws away what it had already inflated."""
    saved = bytearray()
    for at in range(len(compressed)):
        try:
            saved += member.decompress(compressed[at : at + 1])
        except zlib.error:
            break
    return bytes(saved)
