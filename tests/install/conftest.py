"""The real control plane with gpuward installed on it, once for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.install.site import Site, installed
from tests.kit.controlplane.fixtures import cluster, control_plane, every_part
from tests.kit.controlplane.plane import ControlPlane

__all__ = ["cluster", "control_plane", "every_part"]


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane) -> Iterator[Site]:
    """Give an installation; what a test makes beside it is the test's to name apart."""
    with installed(control_plane) as site:
        yield site
