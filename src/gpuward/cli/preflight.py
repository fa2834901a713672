"""`gpuward preflight`: says what would go wrong on a cluster before it does. It looks only, and changes nothing."""

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from gpuward.audit.facts import Finding
from gpuward.audit.preflight import findings_of
from gpuward.cli import wiring
from gpuward.cli.install import checked_namespace
from gpuward.cli.manifests.installation import SETTINGS, SETTINGS_FILE, Installation
from gpuward.cli.objects import dumps
from gpuward.cli.surveying import survey
from gpuward.cli.wiring.cluster import cluster_of
from gpuward.controller.desk.reading import whoami
from gpuward.controller.pace import Pace
from gpuward.isolation.kernel.text import shown
from gpuward.model.found import part
from gpuward.model.resource import CONFIG_MAPS
from gpuward.ports import Cluster, Refused
from gpuward.settings import Settings

EXIT_BLOCKED = 1


def preflight(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    installation = Installation(namespace=checked_namespace(asked.namespace))
    findings = asyncio.run(_found(asked, installation))
    sys.stdout.write(f"{dumps(as_object(findings))}\n" if asked.json else "".join(_lines(findings)))
    return EXIT_BLOCKED if any(one.blocks for one in findings) else 0


def as_object(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the findings as other programs read them; see docs/json.md."""
    return {
        "blocked": any(one.blocks for one in findings),
        "findings": [{**asdict(one), "values": list(one.values), "sure": str(one.sure)} for one in findings],
    }


async def _found(asked: argparse.Namespace, installation: Installation) -> tuple[Finding, ...]:
    async with cluster_of(asked.kubeconfig) as cluster:
        settings = await _settings(cluster, installation) if asked.config is None else None
        taint = (settings or wiring.judgement(asked.config, None)[0]).cluster.taint
        myself = await whoami(cluster, Pace(wiring.clock(), asyncio.sleep, random.random))
        return findings_of(await survey(cluster, installation, now=myself.now, fault_taint=taint))


async def _settings(cluster: Cluster, installation: Installation) -> Settings | None:
    """Return the settings that the programs in the cluster go by; None where they cannot be read."""
    try:
        found = await cluster.get(CONFIG_MAPS, SETTINGS, namespace=installation.namespace)
    except Refused:
        return None  # that it may not be looked at is told by the survey
    text = part(found or {}, "data").get(SETTINGS_FILE)
    where = f"{SETTINGS_FILE} in the ConfigMap {installation.namespace}/{SETTINGS}"
    return None if text is None else wiring.settings_in(str(text), name=where)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        yield "nothing stands in the way\n"
    for one in findings:
        yield f"{'BLOCKS' if one.blocks else 'note'}  {one.id}: {shown(one.what)}\n"
        yield f"        why: {shown(one.why)}\n"
        yield f"        do: {shown(one.remedy)}\n"
        for value in one.values:
            yield from (f"          {line}\n" for line in _yaml(value))
        yield f"        known by: {one.sure}\n"


def _yaml(value: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of one item of a YAML list."""
    for number, (key, text) in enumerate(value.items()):
        yield f"{'  ' if number else '- '}{key}: {shown(text)}"
