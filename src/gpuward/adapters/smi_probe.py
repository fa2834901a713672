"""nvidia-smi asked for what `gpuward qualify` wants to know of it: its refusals, and what it shows.

Smi does what is to be done, and takes for success what is so already; here the tool's own answer counts.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gpuward.adapters.child import Kill, Program, Said, within
from gpuward.ports import Unreachable

_LONGEST_WORDS = 200
_NOT_FOUND = "no devices were found"
_DRAIN_STATE = re.compile(r"\bis:?\s+(?:not\s+)?draining\b", re.IGNORECASE)
_NO_PERMISSION = 4
"""The nvidia-smi manual, section RETURN VALUE."""
_PERMISSION_WORDS = re.compile(r"insufficient permission|permission denied", re.IGNORECASE)
_ASK_SECONDS = 20.0
_RESET_SECONDS = 120.0
_SHOWING = (("-L",), ("-q",), ("-q", "-x"), ("--query-gpu=uuid", "--format=csv"))


class SmiProbe:
    """Asks the program `nvidia-smi`, each time a new process, which is what a drained GPU is hidden from."""

    def __init__(
        self,
        program: str = "nvidia-smi",
        environment: Mapping[str, str] | None = None,
        *,
        proc: str = "/proc",
        dev: str = "/dev",
        kill: Kill = os.killpg,
    ) -> None:
        self._program = Program(program, environment, kill=kill)
        self._proc = Path(proc)
        self._dev = Path(dev)

    def may_act(self, pci: str) -> bool:
        """Return whether the tool lets us change a drain: it is asked to let on a GPU that is not drained."""
        said = self._run("drain", "-p", _spelled(pci), "-m", "0")
        return said.code != _NO_PERMISSION and not _PERMISSION_WORDS.search(said.out + said.err)

    def shown_by(self, uuid: str) -> tuple[str, ...]:
        """Return the ways in which the tool shows this GPU. Raises Unreachable when it does not answer at all."""
        return tuple(" ".join(words) for words in _SHOWING if uuid.lower() in self._shown(*words).lower())

    def finds_by_index(self, index: int) -> bool:
        """Return whether `drain` takes an index for a GPU; it is asked for the state only."""
        said = self._run("drain", "-p", str(index), "-q")
        return not said.code and _DRAIN_STATE.search(said.out) is not None

    def refuses_drain(self, pci: str) -> str:
        """Ask for a drain; return the words of the refusal, empty when the tool says that it drained."""
        return _refusal(self._run("drain", "-p", _spelled(pci), "-m", "1"))

    def refuses_reset(self, pci: str) -> str:
        """Ask for a reset; return the words of the refusal, empty when the tool says that it reset the GPU."""
        return _refusal(self._run("--gpu-reset", "-i", _spelled(pci), seconds=_RESET_SECONDS))

    def files_gone(self, pci: str, minor: int) -> tuple[str, ...]:
        """Return which of the GPU's device file and its entry in /proc are not there."""
        files = (self._dev / f"nvidia{minor}", self._proc / f"driver/nvidia/gpus/{pci}.0")
        return tuple(str(file) for file in files if not file.exists())

    def _shown(self, *words: str) -> str:
        said = self._run(*words)
        if said.code and _NOT_FOUND not in said.out.lower():
            raise Unreachable(
                f"{self._program.name} {' '.join(words)} does not answer ({_words(said)}); mend that first"
            )
        return said.out

    def _run(self, *words: str, seconds: float = _ASK_SECONDS) -> Said:
        said = self._program.run(*words, deadline=within(seconds))
        if said.code < 0:
            raise Unreachable(f"{self._program.name} {' '.join(words)} was ended by signal {-said.code}; try again")
        return said


def _spelled(pci: str) -> str:
    return f"{pci.upper()}.0"


def _refusal(said: Said) -> str:
    return f"{_words(said)} (exit code {said.code})" if said.code else ""


def _words(said: Said) -> str:
    text = " ".join(f"{said.out} {said.err}".split())
    return text[:_LONGEST_WORDS].rstrip(". ") or "it said nothing"
