"""`gpuward uninstall`: asks a person, takes gpuward off the cluster, and says what stays. How is in taking_away."""

import argparse
import asyncio
import sys
from collections.abc import Iterator

from gpuward.cli import wiring
from gpuward.cli.install import checked_namespace
from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import Installation
from gpuward.cli.manifests.places import deletion_of
from gpuward.cli.objects import dumps
from gpuward.cli.taking_away import Taken, take_away
from gpuward.cli.wiring.cluster import cluster_of
from gpuward.isolation.kernel.text import shown
from gpuward.model.objects.owned import CONDITION, OWNED
from gpuward.model.resource import NAMESPACES

_FIRST = f"""\
# What gpuward put on nodes goes first, by the note in the annotation {OWNED} of each node, and the condition
# {CONDITION}. `gpuward uninstall` does that; these commands alone leave it there.
"""


def uninstall(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    installation = Installation(namespace=checked_namespace(asked.namespace))
    if asked.print:
        sys.stdout.write(_FIRST + "".join(f"{line}\n" for line in deletions(installation)))
        return 0
    taken = asyncio.run(_taken(asked, installation))
    _say(taken, as_json=asked.json)
    return 1 if taken.left else 0


def deletions(installation: Installation) -> Iterator[str]:
    """Yield the kubectl commands that delete the objects of an installation, in the right order."""
    return map(deletion_of, reversed(manifests(installation)))


async def _taken(asked: argparse.Namespace, installation: Installation) -> Taken:
    """Take it off; a person is asked once it is known that the cluster is there."""
    async with cluster_of(asked.kubeconfig) as cluster:
        if not asked.yes:
            await cluster.get(NAMESPACES, installation.namespace)
            if not _agreed(installation):
                raise wiring.UsageError("nobody said yes; say it at the terminal, or give --yes")
        return await take_away(cluster, installation, forced=asked.force)


def _agreed(installation: Installation) -> bool:
    """Ask a person at the terminal; the end of the input is a no, and so is nobody there."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    sys.stderr.write(
        f"This takes gpuward off the cluster: namespace {installation.namespace}, every mark on nodes, and all its "
        "cases and faults. Go on? [y/N] "
    )
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _say(taken: Taken, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(f"{dumps({'gone': taken.gone, 'left': taken.left})}\n")
        return
    lines = [f"gone: {one}" for one in taken.gone] + [f"stays: {one}" for one in taken.left]
    sys.stdout.write("".join(f"{shown(line)}\n" for line in lines or ["nothing of gpuward was there"]))
