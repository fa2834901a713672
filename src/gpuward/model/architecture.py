"""Which generation a GPU is of, by the name that the driver gives it. What follows from that is not here."""

import re
from enum import IntEnum
from functools import lru_cache


class Architecture(IntEnum):
    """NVIDIA's generations, the older the smaller."""

    PASCAL = 6
    VOLTA = 7
    TURING = 8
    AMPERE = 9
    ADA = 10
    HOPPER = 11
    BLACKWELL = 12


SOURCE = "names as the driver gives them: NVIDIA/DCGM 4.6 nvvs/diag-skus.yaml.in, and recorded nvidia-smi -q -x"
ARCHITECTURES: tuple[tuple[Architecture, str], ...] = (
    # A name that says it goes first: `RTX 6000 Ada Generation` is no Turing card, `RTX PRO 6000 Blackwell` neither.
    (Architecture.BLACKWELL, "Blackwell B100 B200 B300 GB200 GB300 5090"),
    (Architecture.HOPPER, "Hopper H100 H800 H20 H200 GH200"),
    (Architecture.ADA, "Ada L2 L4 L20 L40 L40S 4090"),
    (Architecture.AMPERE, "Ampere A100 A800 A30 A40 A10 A10G A10M A16 A2 A2000 A4000 A4500 A5000 A5500 A6000 3090"),
    (Architecture.TURING, "Turing T4 T4G T1000 T400 T600"),
    (Architecture.VOLTA, "Volta V100 V100S GV100"),
    (Architecture.PASCAL, "Pascal P100 P40 P4 P6"),
)
"""The words of a name by which its generation is known; the first row that has one of them counts."""
_BETWEEN_WORDS = re.compile(r"[\s\-/()]+")
_ON_A_BOARD = re.compile(r"SXM\d*", re.ASCII)


@lru_cache(maxsize=256)
def architecture_of(model: str | None) -> Architecture | None:
    """Return the generation of a GPU of this name, None where the name is not known."""
    words = _words(model)
    return next((one for one, names in ARCHITECTURES if words & set(names.split())), None)


@lru_cache(maxsize=256)
def is_on_a_board(model: str | None) -> bool:
    """Return whether the name says that the GPU sits on a board with NVLinks (SXM), not in a slot."""
    return any(_ON_A_BOARD.fullmatch(word) for word in _words(model))


def _words(model: str | None) -> set[str]:
    return set(_BETWEEN_WORDS.split(model or ""))
