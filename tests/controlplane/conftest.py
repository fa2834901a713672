"""The real control plane, for the tests of the kit itself."""

from tests.kit.controlplane.fixtures import cluster, control_plane, every_part

__all__ = ["cluster", "control_plane", "every_part"]
