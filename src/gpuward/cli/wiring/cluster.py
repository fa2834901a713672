"""The cluster that a command works on, from outside of it. What is done with it is not here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gpuward.ports import Cluster, Refused

if TYPE_CHECKING:
    from gpuward.adapters.kubernetes import Access
    from gpuward.adapters.kubernetes.login import ReadLogin


def load_client() -> None:
    """Load what talks to an API server now, in a program that stays: before it has threads, whom that would disturb."""
    import gpuward.adapters.kubernetes  # noqa: F401, PLC0415  it loads a large library, which few need


@asynccontextmanager
async def access_of(kubeconfig: str | None) -> AsyncIterator[Cluster]:
    """Give a program that stays its cluster while the body runs: of a kubeconfig, else the one that this is a pod of.

    Raises EdgeError when it cannot be reached that way.
    """
    from gpuward.adapters.kubernetes import in_cluster  # noqa: PLC0415  as above

    if kubeconfig is None:
        async with _connected(in_cluster()) as cluster:
            yield cluster
        return
    from gpuward.adapters.kubernetes.aside import aside  # noqa: PLC0415  as above

    with aside() as read:
        async with _connected(await _access(kubeconfig, read)) as cluster:
            yield cluster


@asynccontextmanager
async def cluster_of(kubeconfig: str | None) -> AsyncIterator[Cluster]:
    """Give the cluster of a kubeconfig while the body runs. Raises EdgeError when it cannot be reached that way."""
    async with _connected(await _access(kubeconfig)) as cluster:
        yield cluster


async def _access(kubeconfig: str | None, read: "ReadLogin | None" = None) -> "Access":
    if kubeconfig == "":
        # An empty variable in a script must not order another cluster than it meant.
        raise Refused("--kubeconfig names no file: say which, or leave the option out")
    from gpuward.adapters.kubernetes import from_kubeconfig  # noqa: PLC0415  as above

    return await from_kubeconfig(kubeconfig, read=read)


@asynccontextmanager
async def _connected(access: "Access") -> AsyncIterator[Cluster]:
    from gpuward.adapters.kubernetes import KubernetesCluster  # noqa: PLC0415  as above

    cluster = KubernetesCluster(access)
    try:
        yield cluster
    finally:
        await cluster.close()
