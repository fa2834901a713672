"""What `gpuward install` prints: every object of an installation, in the order in which it is applied.

The order is part of the safety: kinds before what speaks of them, the policy before the rights that need it, the rights
before the programs that use them.
"""

from collections.abc import Mapping
from typing import Any

from gpuward.cli.manifests.definitions import definitions
from gpuward.cli.manifests.installation import Installation, namespace, pause_map, settings_map
from gpuward.cli.manifests.lanes import lanes
from gpuward.cli.manifests.policy import policies
from gpuward.cli.manifests.rights import accounts, rights
from gpuward.cli.manifests.workloads import workloads

Manifest = Mapping[str, Any]


def manifests(installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects of an installation in the order in which they are applied."""
    return (
        namespace(installation),
        *definitions(),
        *policies(installation),
        *accounts(installation),
        *rights(installation),
        *lanes(installation),
        settings_map(installation),
        pause_map(installation),
        *workloads(installation),
    )
