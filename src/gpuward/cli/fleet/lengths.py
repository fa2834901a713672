"""How long what a person says may be: as long as its place in the cluster. It is told before anything is sent."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from gpuward.cli import wiring
from gpuward.cli.times import shortened
from gpuward.model.objects.gpu_case import ORDER_BECAUSE, ORDER_BY
from gpuward.model.objects.limits import GPU_UUID, NODE_NAME, OBJECT_NAME
from gpuward.model.objects.pause import MOST_CHARACTERS


@dataclass(frozen=True, slots=True)
class Length:
    """A word of the command line, how it is called there, and how many characters it may have, and why."""

    word: str
    called: str
    most: int
    why: str


_NAMES = (
    Length("name", "NAME", OBJECT_NAME.most + 1 + GPU_UUID.most, "no name of a case, node, GPU or fault has more than"),
    Length("node", "NODE", NODE_NAME.most, "no name of a node has more than"),
    Length("gpu", "GPU", GPU_UUID.most, "no name of a GPU has more than"),
)
_ORDER = (
    Length("by", "--by", ORDER_BY.most, "an order on a case (GPUCase, spec.orders) keeps"),
    Length("because", "--because", ORDER_BECAUSE.most, "an order on a case (GPUCase, spec.orders) keeps"),
)
_PAUSE = (
    Length("by", "--by", MOST_CHARACTERS, "the ConfigMap gpuward-pause keeps"),
    Length("because", "--because", MOST_CHARACTERS, "the ConfigMap gpuward-pause keeps"),
)
_OTHERS: Mapping[str, tuple[Length, ...]] = {"pause": _PAUSE}


def check_lengths(asked: argparse.Namespace) -> None:
    """Raise UsageError with the limit for what is longer than its place: it would be cut there, and nobody told."""
    for length in (*_NAMES, *_OTHERS.get(asked.command, _ORDER)):
        said = getattr(asked, length.word, None) or ""
        if len(said) > length.most:
            raise wiring.UsageError(
                f"{length.called} {shortened(said)!r} has {len(said)} characters, and {length.why} {length.most}; "
                "say it in fewer"
            )
