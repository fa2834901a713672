"""The stub NVML, built from stub.c when it is first wanted. What it answers is in stub.c, not here."""

import hashlib
import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path

from gpuward.ports import Refused

NAME = "libnvidia-ml.so.1"
_FLAGS = ("-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{NAME}")
_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_SECONDS = 60


def install(folder: Path) -> None:
    """Put the library into a folder, whose parent is the machine that it speaks of.

    Raises Refused without a C compiler, or when it fails: then the NVML road is absent.
    """
    built = _cache() / hashlib.sha256(_source() + repr(_FLAGS).encode()).hexdigest()[:24] / NAME
    if not built.exists():
        _compile(built)
    shutil.copyfile(built, folder / NAME)


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "gpuward" / "nvml"


def _source() -> bytes:
    return resources.files("gpuward.sim.machines").joinpath("stub.c").read_bytes()


def _compile(built: Path) -> None:
    """Build the library beside its place and move it in whole, for two may build at once."""
    compiler = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise Refused("The stub NVML needs a C compiler: install gcc, or do without NVML.")
    built.parent.mkdir(parents=True, exist_ok=True)
    fresh = built.with_suffix(f".{os.getpid()}")
    command = [compiler, *_FLAGS, "-o", str(fresh), "-x", "c", "-", "-ldl"]
    try:
        subprocess.run(command, input=_source(), capture_output=True, check=True, timeout=_COMPILE_SECONDS)  # noqa: S603  our own words
    except (subprocess.SubprocessError, OSError) as error:
        raise Refused(
            f"The stub NVML cannot be built by {compiler}: repair the compiler, or do without NVML."
        ) from error
    fresh.replace(built)
