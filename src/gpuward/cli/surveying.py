"""Looks a cluster over for `gpuward preflight`: what is there becomes facts. What follows from them is in audit."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from gpuward import __version__
from gpuward.audit.facts import (
    ClusterFacts,
    DisruptionBudget,
    GpuServer,
    Installed,
    OurTaint,
    PoolFact,
    Program,
)
from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import Installation
from gpuward.cli.manifests.places import DEFINITIONS, name_of, namespace_of, place_of
from gpuward.controller.desk.glance import gpu_server
from gpuward.isolation.standby import claim_on
from gpuward.isolation.tainting import OURS as FAULT
from gpuward.model.daemon_set import daemon_set_of
from gpuward.model.found import part, parts
from gpuward.model.objects.owned import LEADER_LEASE, RESERVED, STANDBY, Taint, agent_lease
from gpuward.model.objects.standby_pool import Shape
from gpuward.model.objects.values import ObjectError, read
from gpuward.model.pod import PodSight, pod_of
from gpuward.model.resource import (
    DAEMON_SETS,
    DISRUPTION_BUDGETS,
    GPU_NODES,
    LEASES,
    NODES,
    PODS,
    STANDBY_POOLS,
    Resource,
)
from gpuward.ports import Cluster, Refused

_T = TypeVar("_T")
POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
_PROGRAMS = tuple(
    Resource("apps", "v1", plural, kind, namespaced=True)
    for plural, kind in (("deployments", "Deployment"), ("statefulsets", "StatefulSet"), ("daemonsets", "DaemonSet"))
)
_CHOSEN_BY_PEOPLE = frozenset({"Namespace", "ConfigMap", "DaemonSet", "Deployment", "PriorityClass"})
"""Kinds of which only that they are there is looked at: what is in them depends on how they were installed."""
AT_ONCE = 8


@dataclass(slots=True)
class Survey:
    """One look. What may not be seen is noted, and the rest is looked at all the same."""

    cluster: Cluster
    now: float
    unseen: list[str] = field(default_factory=list)

    async def seen(self, asked: Awaitable[_T], otherwise: _T) -> _T:
        """Return what was asked for; what is refused is noted."""
        try:
            return await asked
        except Refused as error:
            self.unseen.append(str(error))
            return otherwise

    async def listed(self, resource: Resource, project: Callable[[Any], _T], **asked: Any) -> list[_T]:
        """Return all of a kind, each projected."""

        async def ask() -> list[_T]:
            return list((await self.cluster.list(resource, project=project, **asked)).items)

        return await self.seen(ask(), [])


async def survey(
    cluster: Cluster, installation: Installation, *, now: float, fault_taint: Taint = FAULT
) -> ClusterFacts:
    """Look the cluster over; nothing is changed. Raises Unreachable when it does not answer."""
    look = Survey(cluster, now)
    definitions = frozenset(await look.listed(DEFINITIONS, name_of))
    serves_policies = await _serves_policies(look)
    installed = await _installed(look, installation, but=frozenset() if serves_policies else frozenset({POLICIES}))
    is_served = {one: f"{one.plural}.{one.group}" in definitions for one in (GPU_NODES, STANDBY_POOLS)}
    nodes = [name for name in await look.listed(NODES, gpu_server) if name]
    leases = dict(await look.listed(LEASES, partial(_renewed, now=now), namespace=installation.namespace))
    agents = dict(await look.listed(GPU_NODES, _agent)) if is_served[GPU_NODES] else {}
    pools = await look.listed(STANDBY_POOLS, _pool) if is_served[STANDBY_POOLS] else []
    shapes = {fact.name: shape for fact, _, shape in pools if shape is not None}
    programs = [one for kind in _PROGRAMS for one in await look.listed(kind, partial(_program, kind=kind.kind))]
    return ClusterFacts(
        version=__version__,
        taints=our_taints(fault_taint, [taint for _, taint, _ in pools]),
        servers=tuple(GpuServer(name, agents.get(name, ""), _silence(leases, agent_lease(name))) for name in nodes),
        daemon_sets=tuple(await look.listed(DAEMON_SETS, daemon_set_of)),
        pods=tuple(await _pods(look, frozenset(nodes))),
        budgets=tuple(await look.listed(DISRUPTION_BUDGETS, _budget)),
        programs=tuple(one for one in programs if one.namespace != installation.namespace),
        definitions=definitions,
        installed=installed,
        leader=_leader(leases),
        pools=tuple(_with_claim(fact, shapes) for fact, _, _ in pools),
        serves_policies=serves_policies,
        unseen=tuple(look.unseen),
    )


def our_taints(fault: Taint, of_pools: Sequence[Taint] = ()) -> tuple[OurTaint, ...]:
    """Return the taints that gpuward may put on nodes."""
    others = dict.fromkeys((Taint(STANDBY, "NoSchedule"), *of_pools, Taint(RESERVED, "NoSchedule")))
    return tuple(OurTaint(taint) for taint in (fault, *others))


async def _serves_policies(look: Survey) -> bool:
    """Return whether the API server knows the kind of our policies; one that forbids to look knows it."""
    try:
        await look.cluster.get(POLICIES, "gpuward-agent")
    except Refused as error:
        if " 404" in str(error):
            return False
        look.unseen.append(str(error))
    return True


async def _installed(look: Survey, installation: Installation, *, but: frozenset[Resource]) -> Installed:
    """Hold every object of an installation against what is there."""
    room = asyncio.Semaphore(AT_ONCE)

    async def found(ours: Mapping[str, Any]) -> Mapping[str, Any] | None:
        async with room:
            asked = look.cluster.get(place_of(ours), name_of(ours), namespace=namespace_of(ours))
            return await look.seen(asked, None)

    wanted = [one for one in manifests(installation) if place_of(one).plural not in {kind.plural for kind in but}]
    there: list[str] = []
    missing: list[str] = []
    differing: list[str] = []
    for ours, theirs in zip(wanted, await asyncio.gather(*map(found, wanted)), strict=True):
        words = f"{ours['kind']} {name_of(ours)}"
        (missing if theirs is None else there).append(words)
        if theirs is not None and ours["kind"] not in _CHOSEN_BY_PEOPLE and not is_within(_content(ours), theirs):
            differing.append(words)
    return Installed(tuple(there), tuple(missing), tuple(differing))


def _content(ours: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in ours.items() if key not in {"apiVersion", "kind", "metadata"}}


def is_within(ours: Any, theirs: Any) -> bool:
    """Return whether all that we say stands there; what the server or others added does not matter."""
    if isinstance(ours, Mapping):
        return isinstance(theirs, Mapping) and all(is_within(value, theirs.get(key)) for key, value in ours.items())
    if isinstance(ours, (list, tuple)):
        pairs = zip(ours, theirs, strict=False) if isinstance(theirs, (list, tuple)) else ()
        same_length = isinstance(theirs, (list, tuple)) and len(ours) == len(theirs)
        return same_length and all(is_within(one, other) for one, other in pairs)
    return bool(ours == theirs) or (theirs is None and not ours)


async def _pods(look: Survey, nodes: frozenset[str]) -> list[PodSight]:
    def on_these(found: Mapping[str, Any]) -> PodSight | None:
        return pod_of(found) if part(found, "spec").get("nodeName") in nodes else None

    return [pod for pod in await look.listed(PODS, on_these) if pod is not None]


def _agent(found: Mapping[str, Any]) -> tuple[str, str]:
    return name_of(found), str(part(found, "status").get("agentVersion") or "unknown")


def _renewed(lease: Mapping[str, Any], *, now: float) -> tuple[str, tuple[str, float | None, float]]:
    """Return of a Lease who holds it, how long ago it was renewed, and for how long it counts."""
    spec = part(lease, "spec")
    try:
        silent = max(0.0, now - datetime.fromisoformat(str(spec.get("renewTime"))).timestamp())
    except ValueError:
        silent = None
    lasts = spec.get("leaseDurationSeconds")
    return name_of(lease), (str(spec.get("holderIdentity") or ""), silent, float(lasts or 0))


def _silence(leases: Mapping[str, tuple[str, float | None, float]], name: str) -> float | None:
    return leases[name][1] if name in leases else None


def _leader(leases: Mapping[str, tuple[str, float | None, float]]) -> str:
    """Return who holds the leader's Lease, as long as it counts."""
    holder, silent, lasts = leases.get(LEADER_LEASE, ("", None, 0.0))
    return holder if silent is not None and silent <= lasts else ""


def _pool(found: Mapping[str, Any]) -> tuple[PoolFact, Taint, Shape | None]:
    spec, status = part(found, "spec"), part(found, "status")
    size, taint = int(spec.get("size") or 0), part(spec, "taint")
    short = int(status.get("short", size) or 0)
    fact = PoolFact(name_of(found), size, short, str(status.get("because") or ""))
    return fact, Taint(str(taint.get("key") or STANDBY), str(taint.get("effect") or "NoSchedule")), _shape(spec)


def _shape(spec: Mapping[str, Any]) -> Shape | None:
    """Return what the nodes of a pool are like; None where it cannot be read."""
    try:
        return read(Shape, spec.get("shape"), "spec.shape")
    except ObjectError:
        return None


def _with_claim(pool: PoolFact, shapes: Mapping[str, Shape]) -> PoolFact:
    claim = claim_on(pool.name, shapes) if pool.name in shapes else None
    return pool if claim is None else replace(pool, first=claim.pool, wholly=claim.whole)


def _program(found: Mapping[str, Any], *, kind: str) -> Program:
    containers = parts(part(part(part(found, "spec"), "template"), "spec"), "containers")
    images = tuple(str(one.get("image", "")) for one in containers)
    return Program(kind, namespace_of(found) or "", name_of(found), images)


def _budget(found: Mapping[str, Any]) -> DisruptionBudget:
    spec, status = part(found, "spec"), part(found, "status")
    return DisruptionBudget(
        namespace=namespace_of(found) or "",
        name=name_of(found),
        selector=spec.get("selector"),
        least=spec.get("minAvailable"),
        most=spec.get("maxUnavailable"),
        expected=status.get("expectedPods"),
    )
