"""The cluster that a command works on, from outside of it. What is done with it is not here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuward.ports import Cluster, Refused


@asynccontextmanager
async def access_of(kubeconfig: str | None) -> AsyncIterator[Cluster]:
    """Give the cluster while the body runs: of a kubeconfig where one is named, else the one that this is a pod of.

    Raises EdgeError when it cannot be reached that way.
    """
    if kubeconfig is not None:
        async with cluster_of(kubeconfig) as cluster:
            yield cluster
        return
    from gpuward.adapters.kubernetes import KubernetesCluster, in_cluster  # noqa: PLC0415  as below

    cluster = KubernetesCluster(in_cluster())
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def cluster_of(kubeconfig: str | None) -> AsyncIterator[Cluster]:
    """Give the cluster of a kubeconfig while the body runs. Raises EdgeError when it cannot be reached that way."""
    if kubeconfig == "":
        # An empty variable in a script must not order another cluster than it meant.
        raise Refused("--kubeconfig names no file: say which, or leave the option out")
    from gpuward.adapters.kubernetes import (  # noqa: PLC0415  it loads a large library, and most commands need none
        KubernetesCluster,
        from_kubeconfig,
    )

    cluster = KubernetesCluster(await from_kubeconfig(kubeconfig))
    try:
        yield cluster
    finally:
        await cluster.close()
