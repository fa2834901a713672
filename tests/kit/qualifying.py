"""A pretend server on which `gpuward qualify` runs as a real process, and can be ended at any call of a tool."""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuward.sim.machines.machine import Machine
from gpuward.sim.machines.state import GpuState

UNIT = "nvidia-dcgm.service"
_WRAPPER = """\
#!/bin/sh
case "$*" in
    *"-m 1"*|*"-m 0"*|*"-pm "*|*"--gpu-reset"*|*" stop "*|*" start "*) ;;
    *) exec {real} "$@" ;;
esac
echo "$*" >> {calls}
if [ "$(wc -l < {calls})" -eq {number} ]; then
    [ {when} = before ] && kill -s {signal} $PPID && exit 1
    [ {when} = during ] && kill -s {signal} $PPID
    {real} "$@"; code=$?
    [ {when} = after ] && kill -s {signal} $PPID
    exit $code
fi
exec {real} "$@"
"""


@dataclass
class Server:
    """A pretend machine and the state folder of gpuward on it."""

    machine: Machine
    state: Path

    def words(self, *words: str) -> list[str]:
        """Return the command line of a qualify."""
        roots = ("--proc-root", str(self.machine.proc), "--dev-root", str(self.machine.dev))
        return [*_GPUWARD, "qualify", "--state-dir", str(self.state), *roots, "--sys-root", str(self.sys), *words]

    @property
    def sys(self) -> Path:
        """Return a /sys that has an empty PCI bus: no NVSwitch is there."""
        folder = self.machine.folder / "sys"
        (folder / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        return folder

    def run(self, *words: str, **how: Any) -> "subprocess.CompletedProcess[str]":
        """Run a qualify to its end, with nobody at the terminal."""
        return subprocess.run(
            self.words(*words),
            env=self.machine.environment(),
            capture_output=True,
            text=True,
            check=False,
            **{"stdin": subprocess.DEVNULL, **how},
        )

    def found(self, *words: str) -> dict[str, bool | None]:
        """Return what a qualify with --json found, by belief."""
        done = self.run(*words, "--yes", "--json")
        return {one["id"]: one["holds"] for one in json.loads(done.stdout)["beliefs"]}

    def kept(self, name: str) -> Any:
        """Return what a file of the state folder holds."""
        return json.loads((self.state / name).read_text("utf-8"))["saved"]

    def end_at(self, number: int, when: str, signal: str = "KILL") -> None:
        """Let the tools end who calls them, at so many calls that change something: before, during or after it."""
        for name in ("nvidia-smi", "systemctl"):
            program, real = self.machine.folder / "bin" / name, self.machine.folder / "bin" / f"{name}.real"
            if not real.exists():
                program.rename(real)
            filled = {"real": shlex.quote(str(real)), "calls": shlex.quote(str(self.calls))}
            text = _WRAPPER.format(number=number, when=when, signal=signal, **filled)
            program.write_text(text, encoding="utf-8")
            program.chmod(0o755)
        self.calls.write_text("", encoding="utf-8")

    @property
    def calls(self) -> Path:
        """Return the file that lists the calls of tools that change something."""
        return self.machine.folder / "calls"

    def gpus(self) -> list[GpuState]:
        """Return how the GPUs are, but for how often they were reset."""
        return [replace(gpu, resets=0) for gpu in self.machine.state().gpus]


_GPUWARD = (sys.executable, "-m", "gpuward")
