"""The fixtures of the real control plane; a conftest imports them by name. What a cluster can do is in plane.py.

Each worker of a parallel run has a control plane of its own, started by the first test that asks for one and ended with
the worker. One for all workers would need a keeper that outlives each of them, and then one test could not kill the API
server, freeze it or look at all nodes without hindering the others.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kit.controlplane.binaries import Binaries, need_binaries
from tests.kit.controlplane.build import say_on_stderr
from tests.kit.controlplane.parts import Part
from tests.kit.controlplane.plane import FIRST, ControlPlane
from tests.kit.controlplane.sweep import seen, sweep

_SHARED = pytest.StashKey[ControlPlane]()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The control plane as one test has it: alone for now, and swept afterwards; `prefix` is of this test only."""

    plane: ControlPlane
    prefix: str

    def name(self, word: str) -> str:
        """Return a name that no other test uses."""
        return f"{self.prefix}-{word}"

    def namespace(self, word: str = "work") -> str:
        """Make a namespace and return its name."""
        name = self.name(word)
        self.plane.admin.api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
        return name


def needed_binaries(config: pytest.Config, *parts: Part) -> Binaries:
    """Return where `parts` are, built with the progress on the terminal; skip without them, and fail in CI."""

    def say(sentence: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is None:
            return say_on_stderr(sentence)
        with capture.global_and_fixture_disabled():
            return say_on_stderr(sentence)

    return need_binaries(parts, say=say)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> ControlPlane:
    """Give etcd and kube-apiserver, started once in this worker. What a test leaves on it, the next one sees."""
    shared = pytestconfig.stash.get(_SHARED, None)  # in the stash, as two conftests may both import this fixture
    if shared is None:
        shared = ControlPlane(needed_binaries(pytestconfig, *FIRST)).__enter__()
        pytestconfig.add_cleanup(shared.stop)
        pytestconfig.stash[_SHARED] = shared
    return shared


@pytest.fixture(scope="session")
def every_part(pytestconfig: pytest.Config) -> Binaries:
    """Make sure that the scheduler, the controllers and kwok can be started too."""
    return needed_binaries(pytestconfig, *Part)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """Give the control plane, and take away all that comes onto it during the test."""
    before = seen(control_plane.admin.api)
    yield Cluster(control_plane, f"t{secrets.token_hex(3)}")
    sweep(control_plane.admin.api, before)
