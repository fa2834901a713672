"""A world on the pretend cluster behind its front: our own client asks it over HTTP."""

import contextlib
from collections.abc import AsyncIterator

from gpuward.adapters.kubernetes import Access, KubernetesCluster
from gpuward.adapters.kubernetes.watching import Quiet
from gpuward.sim.cluster import front
from tests.cluster import pretend_world
from tests.cluster.pretend_world import PretendWorld
from tests.cluster.world import PAGE, SILENCE_SECONDS


class FrontWorld(PretendWorld):
    """Implements World: arranged on the server itself, asked over the wire."""

    def __init__(self, behind: PretendWorld, cluster: KubernetesCluster, forbidden: KubernetesCluster) -> None:
        super().__init__(behind.cluster)
        self.cluster = cluster  # type: ignore[assignment]  # the same cluster, by the other way
        self.forbidden = forbidden  # type: ignore[assignment]


@contextlib.asynccontextmanager
async def open_world() -> AsyncIterator[FrontWorld]:
    """Give the world of one test."""
    async with (
        pretend_world.open_world() as behind,
        front.opened(behind.cluster) as door,
        front.opened(behind.forbidden) as shut,
    ):
        asked, refused = client_of(door.url), client_of(shut.url)
        yield FrontWorld(behind, asked, refused)
        await asked.close()
        await refused.close()


def client_of(url: str) -> KubernetesCluster:
    """Return our own client of a front."""
    return KubernetesCluster(
        Access(url, lambda: None, _nobody), page=PAGE, quiet=Quiet(SILENCE_SECONDS, SILENCE_SECONDS)
    )


async def _nobody(_: str | None) -> None:
    return None
