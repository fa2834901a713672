"""What the tests of the controller share: the real control plane, for those that ask for it."""

from tests.kit.controlplane.fixtures import cluster, control_plane

__all__ = ["cluster", "control_plane"]
