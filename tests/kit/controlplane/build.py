"""Builds the parts with Go into the cache folder, once for each version. Where ready ones lie is not known here.

`python -m tests.kit.controlplane.build [PART ...]` builds all that is missing, or only the parts named.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.kit.controlplane import spawn
from tests.kit.controlplane.parts import KUBERNETES, RECIPES, SOURCE, Part

_CONVENTIONAL_GO = "/usr/local/go/bin/go"
"""Where Go's own instructions put it; often not on PATH."""
_SAY_SECONDS = 15.0
_TICK_SECONDS = 0.2
_OURS = {"CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"}
_FOR_ANOTHER_MACHINE = frozenset({"GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOBIN"})

Say = Callable[[str], None]


class Unbuilt(Exception):
    """A part could not be built; the sentence says why and what to do."""


def say_on_stderr(sentence: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"control plane: {sentence}\n")
    sys.stderr.flush()


def cache() -> Path:
    """Return the folder of the binaries of exactly these versions and sources, on this kind of processor."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path.home() / ".cache"  # noqa: PTH117  Path("") is no path
    return root / "gpuward" / "controlplane" / _key()


def find_go() -> str | None:
    """Return the Go to build with, if there is one."""
    return shutil.which("go") or shutil.which(_CONVENTIONAL_GO)


def missing(parts: Sequence[Part] = tuple(Part)) -> list[Part]:
    """Return the parts that the cache lacks."""
    folder = cache()
    return [part for part in parts if not (folder / part).is_file()]


def build(parts: Sequence[Part] = tuple(Part), *, say: Say = say_on_stderr) -> Path:
    """Build what the cache lacks of `parts`; return the folder of the binaries. Raise Unbuilt when it cannot.

    A binary appears whole or not at all, whatever is killed meanwhile. Who comes second waits and finds it built.
    """
    folder = cache()
    if not missing(parts):
        return folder
    go = find_go()
    if go is None:
        raise Unbuilt("there is no Go on PATH to build it with (https://go.dev/dl), and KUBEBUILDER_ASSETS is not set")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder, say):
            _build_here(go, missing(parts), folder=folder, say=say)
    except OSError as error:
        raise Unbuilt(f"{folder} cannot be written ({error}): set XDG_CACHE_HOME to a folder that can") from error
    return folder


def _key() -> str:
    told = hashlib.sha256(repr((RECIPES, _OURS)).encode())
    for file in sorted(file for file in SOURCE.rglob("*") if file.is_file()):
        told.update(b"%s\0%s\0" % (file.relative_to(SOURCE).as_posix().encode(), file.read_bytes()))
    return f"v{KUBERNETES}-{platform.machine()}-{told.hexdigest()[:12]}"


@contextlib.contextmanager
def _alone(folder: Path, say: Say) -> Iterator[None]:
    """Hold the only right to build into a folder; the kernel gives it back when the holder dies."""
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building it; waiting for that")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_here(go: str, parts: Sequence[Part], *, folder: Path, say: Say) -> None:
    for left in folder.glob(".partial-*"):  # of a build that was killed: the lock is ours, so nobody uses it
        shutil.rmtree(left, ignore_errors=True)
    if parts:
        say(f"building {', '.join(parts)} into {folder}; the first time takes minutes")
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
        for number, part in enumerate(parts, start=1):
            begun = time.monotonic()
            say(f"{part} ({number} of {len(parts)})")
            _build_one(go, part, partial=Path(partial), say=say)
            _put(Path(partial) / part, folder / part)
            say(f"{part} is built ({time.monotonic() - begun:.0f} s)")


def _build_one(go: str, part: Part, *, partial: Path, say: Say) -> None:
    """Run Go once for a part; its output is the reason when it fails."""
    log = partial / f"{part}.log"
    process = spawn.started(
        _words(go, part, partial), log, environment=_environment(partial), folder=SOURCE / RECIPES[part].module
    )
    begun = said = time.monotonic()
    seen = ""
    try:
        while process.poll() is None:
            time.sleep(_TICK_SECONDS)
            if time.monotonic() - said >= _SAY_SECONDS:
                said, last, seen = time.monotonic(), seen, _last_line(log)
                doing = "compiling" if seen == last else seen  # Go names what it fetches, not what it compiles
                say(f"{part}, {said - begun:.0f} s: {doing}")
    finally:
        spawn.ended(process)
    if process.returncode != 0:
        raise Unbuilt(f"{part} could not be built, Go said:\n{spawn.last_lines(log)}")


def _words(go: str, part: Part, partial: Path) -> list[str]:
    recipe = RECIPES[part]
    where = ["-o", str(partial / part)] if recipe.verb == "build" else []
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", recipe.ldflags]
    return [go, recipe.verb, *flags, *where, recipe.package]


def _environment(partial: Path) -> dict[str, str]:
    """Return the user's environment, with his proxy and caches, for a binary that runs here."""
    theirs = {name: value for name, value in os.environ.items() if name not in _FOR_ANOTHER_MACHINE}
    return {**theirs, **_OURS, "GOBIN": str(partial)}


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("go: ") if lines else ""


def _put(binary: Path, place: Path) -> None:
    with binary.open("rb") as file:
        os.fsync(file.fileno())  # a name must not outlive a power cut that its bytes did not
    binary.replace(place)


def main(words: Sequence[str]) -> int:
    """Build from the command line; 0 when all is there."""
    try:
        build([Part(word) for word in words] or tuple(Part))
    except (Unbuilt, ValueError) as error:
        say_on_stderr(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
