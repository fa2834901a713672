"""A pretend machine as tests see it: its nvidia-smi as a real program, and NVML in a child. No fixture is here."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuward.sim.machines.machine import Machine

PATIENCE_SECONDS = 60

_ASK = """
import json, sys
import pynvml
answers = []
for name, *words in json.loads(sys.argv[1]):
    try:
        given = [handle if word == "HANDLE" else word for word in words]
        answer = getattr(pynvml, name)(*given)
        if name.startswith("nvmlDeviceGetHandle"):
            handle, answer = answer, "handle"
        if name == "nvmlDeviceGetFieldValues":
            answer = [[one.nvmlReturn, one.value.uiVal] for one in answer]
        if name == "nvmlDeviceGetPciInfo_v3":
            answer = [answer.domain, answer.bus, answer.device, answer.busId, answer.pciDeviceId]
    except pynvml.NVMLError as error:
        answer = {"error": error.value}
    answers.append(answer)
print(json.dumps(answers, default=lambda value: value.decode()))
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed and how it ended."""

    text: str
    code: int


class Server:
    """A machine with the two programs' eyes on it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def smi(self, *words: str) -> Said:
        """Run the stub nvidia-smi as a shell would find it."""
        done = subprocess.run(
            ["nvidia-smi", *words],
            env=self.machine.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.stderr == ""
        return Said(done.stdout, done.returncode)

    def ask(self, *questions: tuple[Any, ...]) -> list[Any]:
        """Ask nvidia-ml-py in a child that starts now, after nvmlInit; a NVML error is {"error": number}."""
        done = subprocess.run(
            [sys.executable, "-c", _ASK, json.dumps([("nvmlInit",), *questions])],
            env=self.machine.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        answers: list[Any] = json.loads(done.stdout)
        return answers[1:] if answers[0] is None else answers[:1]

    def drain(self, gpu: int) -> None:
        """Drain a GPU the way that works: persistence off first."""
        pci = self.machine.state().gpus[gpu].pci
        assert self.smi("-pm", "0", "-i", f"{pci}.0").code == 0
        assert self.smi("drain", "-p", f"{pci}.0", "-m", "1").code == 0


Build = Callable[..., Server]
