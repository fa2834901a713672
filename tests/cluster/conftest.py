"""The worlds that the conformance tests of the port Cluster run in: every test in each, by the same name."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from importlib import import_module

import pytest

from tests.cluster.real_world import defined
from tests.cluster.world import World
from tests.kit.controlplane.fixtures import cluster, control_plane
from tests.kit.controlplane.plane import ControlPlane

__all__ = ["cluster", "control_plane"]
_NEAR = {"pretend": "tests.cluster.pretend_world", "front": "tests.cluster.front_world"}
_WORLDS = [
    pytest.param("pretend", id="pretend"),
    pytest.param("front", id="front"),
    pytest.param("real", id="real", marks=[pytest.mark.real, pytest.mark.long]),
]


@pytest.fixture(scope="module")
def gpu_cases(control_plane: ControlPlane) -> Iterator[None]:
    """Define GPUCase for all tests of a file, since that takes seconds."""
    with defined(control_plane):
        yield


@pytest.fixture(params=_WORLDS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Give the world of one test."""
    async with _opened(request) as opened:
        yield opened


def _opened(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[World]:
    if request.param in _NEAR:
        near: AbstractAsyncContextManager[World] = import_module(_NEAR[request.param]).open_world()
        return near
    request.getfixturevalue("gpu_cases")  # before the next one, which takes away what comes after it
    real: AbstractAsyncContextManager[World] = import_module("tests.cluster.real_world").open_world(
        request.getfixturevalue("cluster")
    )
    return real
