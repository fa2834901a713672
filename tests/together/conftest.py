"""The real control plane, with gpuward installed on it as its manifests say."""

from tests.install.conftest import site
from tests.kit.controlplane.fixtures import cluster, control_plane, every_part

__all__ = ["cluster", "control_plane", "every_part", "site"]
