"""The user's own proof of a GPU: a command that ends with 0 when it is fit. When it is due is decided elsewhere."""

import os
from collections.abc import Sequence

from gpuward.adapters.child import Program, within
from gpuward.ports import Refused

_LONGEST_WORDS = 300


class CheckCommand:
    """Runs `words` for one GPU, named in its environment, within a deadline; several GPUs may be checked side by side.

    GPUWARD_GPU_PCI is the canonical address. Where the UUID is known, GPUWARD_GPU_UUID and CUDA_VISIBLE_DEVICES are it
    so that a CUDA program sees this GPU alone (CUDA C++ programming guide, CUDA_VISIBLE_DEVICES).
    """

    def __init__(self, words: Sequence[str], *, deadline_seconds: float) -> None:
        self._words = tuple(words)
        self._deadline_seconds = deadline_seconds

    def run(self, pci: str, uuid: str | None) -> None:
        """Run it. Raises Refused when it does not end with 0, with its last words, Unreachable at the deadline."""
        named = {"GPUWARD_GPU_PCI": pci}
        if uuid is not None:
            named |= {"GPUWARD_GPU_UUID": uuid, "CUDA_VISIBLE_DEVICES": uuid}
        program = Program(self._words[0], {**os.environ, **named})
        said = program.run(*self._words[1:], deadline=within(self._deadline_seconds))
        if said.code:
            how = f"was ended by signal {-said.code}" if said.code < 0 else f"ended with exit code {said.code}"
            words = " ".join(f"{said.out} {said.err}".split())[-_LONGEST_WORDS:]
            raise Refused(f"the check command {self._words[0]} {how} ({words or 'it said nothing'})")
