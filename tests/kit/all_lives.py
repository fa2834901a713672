"""All kinds of lives together: of a GPU, of a whole node, through a reboot, over boots that nobody ordered."""

from collections.abc import Callable, Sequence

from gpuward.isolation.move import Move
from gpuward.isolation.table import MOVES
from tests.kit import boot_lives, lives, node_lives, reboot_lives
from tests.kit.lives import Life

OF_NODES = 5
"""Of so many lives of chance, one is of a whole node."""


def chance_life(seed: int, *, moves: Sequence[Move] = MOVES) -> Life:
    live = lives.chance_life if seed % OF_NODES else node_lives.chance_node_life
    return live(seed, moves=moves)


def directed_lives(moves: Sequence[Move] = MOVES) -> list[Callable[[], Life]]:
    return [
        *lives.directed_lives(moves),
        *node_lives.directed_node_lives(moves),
        *reboot_lives.directed_reboot_lives(moves),
        *boot_lives.directed_boot_lives(moves),
    ]
