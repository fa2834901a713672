"""The one place that picks adapters: from words on the command line to ports. What is done with them is not here."""

import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import tzinfo
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.logfile import FinishedLog
from gpuward.adapters.zone import local_zone, zone_named
from gpuward.cli.times import TimeError, read_offset, read_time
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.findings import Grading, grading_of
from gpuward.isolation.grade import Policy
from gpuward.isolation.kernel.reader import NEEDLES
from gpuward.isolation.terms import Terms
from gpuward.ports import Clock, KernelLog, LogFile, Origin, Refused
from gpuward.settings import Settings, SettingsError, read_settings, terms_of

if TYPE_CHECKING:
    from gpuward.agent.watch import Outside

DEFAULT_CONFIG = "/etc/gpuward/gpuward.toml"
KMSG = "/dev/kmsg"
SOCKET = "agent.sock"
_CONFIG_MOST_BYTES = 1024 * 1024
"""A settings document has a few lines; what is larger is another file, named by mistake."""

Progress = Callable[[str, int, int | None], None]


class UsageError(Exception):
    """The command line or the settings cannot be used; the text is for the person who typed them."""


def clock() -> Clock:
    """Return the machine's clock."""
    return SystemClock()


def zone(name: str | None) -> tzinfo:
    """Return the zone that a person named, this machine's when none was. Raises UsageError."""
    if name is None or name == "local":
        return local_zone()
    offset = read_offset(name)
    if offset is not None:
        return offset
    try:
        return zone_named(name)
    except Refused as error:
        raise UsageError(f"--timezone: {error}") from error


def moment(option: str, text: str | None, *, timezone: tzinfo, now: float) -> float | None:
    """Return the time that a person gave for an option, None when none was given. Raises UsageError."""
    if text is None:
        return None
    try:
        return read_time(text, zone=timezone, now=now)
    except TimeError as error:
        raise UsageError(f"{option}: {error}") from error


def boot_time(text: str | None, *, timezone: tzinfo, now: float) -> float | None:
    """Return when the machine of the log started, by option --boot-time; `auto` is this machine."""
    if text == "auto":
        return this_boot()
    return moment("--boot-time", text, timezone=timezone, now=now)


def this_boot() -> float | None:
    """Return when this machine started, in seconds since 1970 UTC."""
    from gpuward.adapters.kmsg import Kmsg  # noqa: PLC0415  a scan of files needs no live log

    return Kmsg().origin().boot_time


def live_origin(name: str) -> Origin | None:
    """Return what is known of this machine's own ring buffer when that is what is scanned, None for any other log."""
    if not Path(name).is_char_device():
        return None
    from gpuward.adapters.kmsg import Kmsg  # noqa: PLC0415  as above

    return Kmsg(name).origin()


def host_name() -> str:
    """Return this machine's short name."""
    return socket.gethostname().split(".", 1)[0]


def is_in_a_pod() -> bool:
    """Return whether this process runs in a pod of a cluster."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written go nowhere, also what is still buffered in it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), stream.fileno())


def wants_colour(stream: TextIO) -> bool:
    """Return whether colours help: on a terminal that is not dumb, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def judgement(config: str | None, profile: str | None, *, options: Sequence[str] = ()) -> tuple[Settings, Terms]:
    """Return the settings, the command line's profile in front, and the terms they make. Raises UsageError."""
    settings = _settings(config)
    if profile is not None:
        settings = replace(settings, profile=profile)
    return settings, terms_of(settings, load(), load_rules(), options=options)


def taint_words() -> dict[str, str]:
    """Return the word of each fault kind that is no Xid, as a node's taint carries it."""
    return {kind: row.taint_value for kind, row in load().others.items() if row.taint_value}


def finding_grades(settings: Settings) -> Grading:
    """Return how findings of readings are graded under the settings."""
    return grading_of(load(), Policy(profile=settings.profile, levels=settings.levels, classes=settings.classes))


def _settings(config: str | None) -> Settings:
    path = Path(config or DEFAULT_CONFIG)
    try:
        text = _document(path)
    except FileNotFoundError as error:
        if config is None:
            return Settings()
        raise UsageError(f"--config: there is no file {config}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: {path} cannot be read: {error}") from error
    return settings_in(text, name=str(path))


def settings_in(text: str, *, name: str) -> Settings:
    """Return the settings that a document says; `name` is how people know it. Raises UsageError."""
    try:
        return read_settings(text, name=name, book=load(), rules=load_rules())
    except SettingsError as error:
        raise UsageError(str(error)) from error


def _document(path: Path) -> str:
    """Return the text of a settings file; a pipe or device, which could be waited for, is not opened."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"--config: {path} is no regular file; name the settings file itself")
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123  a descriptor
        content = file.read(_CONFIG_MOST_BYTES + 1)
    if len(content) > _CONFIG_MOST_BYTES:
        raise UsageError(f"--config: {path} is larger than 1 MiB, so it is no settings file; name another")
    return content.decode("utf-8-sig")


def finished_logs(files: Sequence[str], progress: Progress | None) -> list[LogFile]:
    """Return the logs that are named, standard input for `-` or when none is."""
    return [_finished_log(name, progress) for name in files or ["-"]]


def _finished_log(name: str, progress: Progress | None) -> LogFile:
    told = None if progress is None else (lambda done, size: progress(name, done, size))
    if name == "-":
        return FinishedLog("standard input", _standard_input(), needles=NEEDLES, progress=told)
    return FinishedLog(name, name, needles=NEEDLES, progress=told)


def _standard_input() -> BinaryIO:
    """Return standard input; closed before the start it is a closed stream, refused when read."""
    if sys.stdin is not None:
        return sys.stdin.buffer
    closed = BytesIO()
    closed.close()
    return closed


@dataclass(frozen=True, slots=True)
class Live:
    """What a watch reaches the machine through; `notes` are sentences that a person should read first."""

    outside: "Outside"
    notes: tuple[str, ...] = ()


@contextmanager
def held(state_dir: str | None, warn: Callable[[str], None]) -> Iterator[str | None]:
    """Hold the state folder for this process while the body runs, and yield it; None when there is none.

    A folder that cannot be used is warned of and is none: what the log says matters more. Raises Refused when another
    watch or agent holds it.
    """
    if state_dir is None:
        yield None
        return
    from gpuward.adapters.lock import FolderLock  # noqa: PLC0415  only a watch with a state folder

    lock = FolderLock(state_dir)
    try:
        lock.take()
    except Refused as error:
        if isinstance(error.__cause__, BlockingIOError):
            raise
        warn(f"{error}: nothing is kept, a restart will begin anew; give another --state-dir")
        yield None
        return
    try:
        yield state_dir
    finally:
        lock.give_back()


def live(kernel_log: str | None, *, state_dir: str | None, proc_root: str) -> Live:
    """Return the ports of a watch on this machine."""
    from gpuward.adapters.procfs import ProcFs  # noqa: PLC0415  only a watch looks at processes
    from gpuward.adapters.store import JsonFile  # noqa: PLC0415  as above
    from gpuward.agent.watch import Outside  # noqa: PLC0415  as above

    proc = ProcFs(proc_root)
    store = None if state_dir is None else JsonFile(str(Path(state_dir) / "watch.json"))
    log = _kernel_log(kernel_log)
    awaited = kernel_log is not None and _is_awaited(kernel_log)
    notes = (f"{kernel_log} is not there yet, waiting for it",) if awaited else ()
    outside = Outside(log=log, processes=proc, inventory=proc, clock=SystemClock(), store=store)
    return Live(outside=outside, notes=notes)


def _is_awaited(name: str) -> bool:
    """Return whether this log is a file that is still to be made. Raises UsageError when it never can be."""
    if name == "journal":
        return False
    try:
        Path(name).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        folder = Path(name).parent
        if not folder.is_dir():
            raise UsageError(
                f"--kernel-log: there is no folder {folder} for {Path(name).name}; check the name, or make the folder"
            ) from error
        return True
    except OSError:  # told by the one who reads it
        return False
    return False


def _kernel_log(name: str | None) -> KernelLog:
    if name is None:
        name = default_log()
    if name == "journal":
        from gpuward.adapters.journal import Journal  # noqa: PLC0415  one of three, picked here

        return Journal()
    if name in {"-", ""}:
        raise UsageError(
            "--kernel-log: a watch follows /dev/kmsg, the journal or a file; what comes through a pipe is read by "
            "`gpuward scan -`"
        )
    if name.startswith("/dev/") and not Path(name).exists():
        raise UsageError(f"--kernel-log: there is no {name} here; give journal, or a file that is written to")
    if Path(name).is_char_device():
        from gpuward.adapters.kmsg import Kmsg  # noqa: PLC0415  as above

        return Kmsg(name)
    from gpuward.adapters.follow import FollowedFile  # noqa: PLC0415  as above

    return FollowedFile(name)


def default_log() -> str:
    """Return the live kernel log of this machine: its ring where that may be read, else the journal."""
    return KMSG if _may_read(KMSG) else "journal"


def _may_read(path: str) -> bool:
    """Return whether the kernel lets us open it: its mode says little where dmesg_restrict is set."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def ask_agent(state_dir: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the agent that runs with this state folder. Raises EdgeError."""
    from gpuward.adapters.doorway import ask  # noqa: PLC0415  only these commands ask

    return ask(str(Path(state_dir) / SOCKET), request)


def program() -> str:
    """Return how gpuward is called here, for a unit file."""
    return str(Path(sys.argv[0]).resolve()) if sys.argv[0].endswith("gpuward") else f"{sys.executable} -m gpuward"
