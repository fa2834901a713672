"""A node with its agent, started and ended around a test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.agent_member.node import Node
from tests.install.site import Site, installed
from tests.kit.controlplane.fixtures import control_plane
from tests.kit.controlplane.plane import ControlPlane

__all__ = ["control_plane"]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """Give a node whose agent has told of itself once, under a leader."""
    node = Node()
    node.lead()
    await node.start()
    await node.live(2)
    yield node
    await node.end()


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane) -> Iterator[Site]:
    """Give gpuward installed on the real control plane: its definitions, rights and policies."""
    with installed(control_plane) as site:
        yield site
