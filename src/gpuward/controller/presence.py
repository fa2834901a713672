"""Marks the nodes whose agents have seen GPUs, so that an agent stays where the labels of other software vanish."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice

from gpuward.controller.gather import Picture
from gpuward.controller.views import NodeView
from gpuward.isolation.labelling import presence_operations
from gpuward.model.case import Mode
from gpuward.model.objects.owned import GPUS, GPUS_PRESENT, read_owned
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import NODES
from gpuward.ports import Cluster, Conflict, Refused

AT_ONCE = 32
"""So many nodes are marked in a round: thousands that are seen for the first time must not hold up a fault."""


class Presence:
    """Puts the label on. It stays until gpuward is uninstalled; one that a person took off is not put back."""

    def __init__(self, cluster: Cluster, picture: Picture) -> None:
        self._cluster = cluster
        self._picture = picture

    async def sweep(self, mode_of: Callable[[str], Mode]) -> None:
        """Mark some of the nodes that are not marked yet, none in mode observe. Raises Unreachable."""
        nodes = list(islice(self._unmarked(mode_of), AT_ONCE))
        await asyncio.gather(*map(self._mark, nodes))

    def _unmarked(self, mode_of: Callable[[str], Mode]) -> Iterator[NodeView]:
        for name, view in self._picture.gpu_nodes.objects.items():
            node = self._picture.nodes.objects.get(name)
            if view.gpus and node is not None and mode_of(name) is not Mode.OBSERVE and _is_unmarked(node):
                yield node

    async def _mark(self, node: NodeView) -> None:
        try:
            operations = presence_operations(node.kept)
            self._picture.nodes.learn(await self._cluster.patch(NODES, node.name, operations))
        except (Conflict, Refused):
            return  # seen again in the next round; nothing waits for it


def _is_unmarked(node: NodeView) -> bool:
    """Return whether the label is not there and never was ours; a note that nobody can read may say that it was."""
    if node.kept["metadata"]["labels"].get(GPUS) == GPUS_PRESENT:
        return False
    try:
        return GPUS not in read_owned(node.kept).labels
    except ObjectError:
        return False
