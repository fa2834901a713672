"""Whom a command asks: the agent of this server by its socket, or a cluster. One command word serves both."""

import argparse
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuward.cli import wiring
from gpuward.cli.wiring.cluster import access_of, cluster_of
from gpuward.ports import Cluster

DEFAULT_STATE_DIR = "/var/lib/gpuward"
DEFAULT_KUBECONFIG = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Whom:
    """The one that is asked: the agent with a state folder, or a cluster (`state_dir` None)."""

    state_dir: str | None
    note: str = ""
    """Which of two was taken, in a sentence; empty where only one could be meant."""
    guessed: bool = False
    """Nothing was named, and nothing is there."""


def whom(asked: argparse.Namespace, *, state_dir: str = DEFAULT_STATE_DIR) -> Whom:
    """Return whom a command asks: what is named, else what there is. Raises wiring.UsageError when both are named."""
    is_cluster = asked.kubeconfig is not None or asked.cluster
    if asked.state_dir is not None and is_cluster:
        raise wiring.UsageError(
            "--state-dir asks the agent of this server, --kubeconfig and --cluster a cluster: say one"
        )
    if asked.state_dir is not None:
        return Whom(asked.state_dir)
    if is_cluster:
        return Whom(None)
    runs, configured = _is_socket(Path(state_dir) / wiring.SOCKET), bool(os.environ.get("KUBECONFIG"))
    if configured and runs:
        return Whom(
            None,
            note="KUBECONFIG is set, so the cluster is asked; an agent runs on this server too: "
            f"--state-dir {state_dir} asks it",
        )
    if configured or (wiring.is_in_a_pod() and not runs):
        return Whom(None)
    if not runs and Path(DEFAULT_KUBECONFIG).expanduser().is_file():
        return Whom(
            None,
            note=f"no agent runs on this server, so the cluster of {DEFAULT_KUBECONFIG} is asked; --state-dir DIR asks "
            "an agent",
        )
    return Whom(state_dir, guessed=not runs)


@asynccontextmanager
async def reached(asked: argparse.Namespace) -> AsyncIterator[Cluster]:
    """Give the cluster that is meant while the body runs: by --kubeconfig, KUBECONFIG, as a pod of it, ~/.kube/config.

    Raises EdgeError when it cannot be reached that way.
    """
    if asked.kubeconfig is None and not os.environ.get("KUBECONFIG") and wiring.is_in_a_pod():
        async with access_of(None) as cluster:
            yield cluster
        return
    async with cluster_of(asked.kubeconfig) as cluster:
        yield cluster


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
