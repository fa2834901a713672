"""Who may do what: the agents as little as there is, the controller what it does, people by what they may already."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuward.cli.manifests.installation import AGENT, CONTROLLER, Installation, labelled, named
from gpuward.cli.manifests.policy import OPEN
from gpuward.model import resource as kinds
from gpuward.model.job import JOB_KINDS
from gpuward.model.objects.pause import PAUSE
from gpuward.model.resource import OURS, Resource

_API = "rbac.authorization.k8s.io/v1"
_GROUP = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
VIEW = "gpuward-view"
ON_CALL = "gpuward-on-call"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource, or on a subresource of it; with `names` on those objects alone."""

    resource: Resource
    verbs: tuple[str, ...]
    part: str = ""
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        """Return it as RBAC spells it."""
        name = f"{self.resource.plural}/{self.part}" if self.part else self.resource.plural
        rule = {"apiGroups": [self.resource.group], "resources": [name], "verbs": list(self.verbs)}
        return rule | ({"resourceNames": list(self.names)} if self.names else {})


_OWNED_JOBS = tuple(row.resource(kinds.VERSION) for row in JOB_KINDS if row.climbs)
"""Kinds of jobs that may be part of another; a right is for all versions of a kind."""
_OF_AGENTS = (
    Right(kinds.GPU_NODES, (*_READ, "create")),
    Right(kinds.GPU_NODES, ("patch",), part="status"),
    Right(kinds.GPU_FAULTS, (*_READ, "create")),
    Right(kinds.GPU_FAULTS, ("patch",), part="status"),
)
_OF_AGENTS_HERE = (Right(kinds.LEASES, ("get", "create", "patch")),)
"""Its own Lease, and a look at the leader's; which one it may write is the policy's."""
_OF_CONTROLLERS = (
    Right(kinds.NODES, (*_READ, "patch")),
    Right(kinds.NODES, ("patch",), part="status"),
    Right(kinds.PODS, (*_READ, "patch", "delete")),
    Right(kinds.PODS, ("create",), part="eviction"),
    Right(kinds.NAMESPACES, _READ),
    Right(kinds.DISRUPTION_BUDGETS, _READ),
    Right(kinds.DAEMON_SETS, _READ),
    *(Right(one, ("get",)) for one in _OWNED_JOBS),
    Right(kinds.EVENTS, ("create", "patch")),
    Right(kinds.GPU_NODES, (*_READ, "create", "patch", "delete")),
    Right(kinds.GPU_FAULTS, (*_READ, "create", "delete")),
    Right(kinds.GPU_FAULTS, ("patch",), part="status"),
    Right(kinds.GPU_CASES, (*_READ, "create", OPEN, "delete")),
    Right(kinds.GPU_CASES, ("patch",), part="status"),
    Right(kinds.STANDBY_POOLS, _READ),
    Right(kinds.STANDBY_POOLS, ("patch",), part="status"),
)
"""Pods are deleted, not evicted, only where a person allowed force, or the node is known to be off."""
_OF_CONTROLLERS_HERE = (
    Right(kinds.LEASES, (*_READ, "create", "patch", "delete")),
    Right(kinds.CONFIG_MAPS, _READ, names=(PAUSE,)),
)
"""The Lease of an agent is deleted with its server, when that is gone for long."""
_TO_REBOOT = (Right(kinds.JOBS, ("create",)),)
"""In gpuward's own namespace, where privileged pods are allowed: who may make them there can do anything on a node."""
_OF_VIEWERS = (
    *(Right(one, _READ) for one in OURS),
    Right(kinds.CONFIG_MAPS, ("get",), names=(PAUSE,)),
    Right(kinds.LEASES, ("get", "list")),
    Right(kinds.NODES, ("list",)),
)
"""Who leads, and which agents live, is told by Leases; which nodes have GPUs and no agent, by the nodes."""
_OF_ON_CALL = (
    *_OF_VIEWERS,
    Right(kinds.GPU_CASES, ("create", "patch", "update")),
    Right(kinds.STANDBY_POOLS, ("create", "patch", "update", "delete")),
    Right(kinds.CONFIG_MAPS, ("get", "patch", "update"), names=(PAUSE,)),
)
"""Of a case they change `spec.orders` alone: the rest never changes, and its status is another resource. The only ones
that they create are drills: a real one needs the verb `open`, by the policy. The pause is made when gpuward is
installed: RBAC cannot allow the creation of one name only.
"""


def accounts(installation: Installation) -> tuple[dict[str, Any], ...]:
    """Return the service accounts of agents and controllers."""
    return tuple(named("v1", "ServiceAccount", name, namespace=installation.namespace) for name in (AGENT, CONTROLLER))


def rights(installation: Installation) -> tuple[dict[str, Any], ...]:
    """Return the roles with their bindings, each role first."""
    return (
        *_granted(installation, AGENT, _OF_AGENTS, here=_OF_AGENTS_HERE),
        *_granted(
            installation,
            CONTROLLER,
            _OF_CONTROLLERS,
            here=(*_OF_CONTROLLERS_HERE, *(_TO_REBOOT if installation.reboot else ())),
        ),
        _aggregated(),
        _role("ClusterRole", ON_CALL, _OF_ON_CALL),
    )


def _granted(
    installation: Installation, account: str, everywhere: tuple[Right, ...], *, here: tuple[Right, ...]
) -> Iterable[dict[str, Any]]:
    where = installation.namespace
    yield _role("ClusterRole", account, everywhere)
    yield _binding("ClusterRole", account, where)
    yield _role("Role", account, here, namespace=where)
    yield _binding("Role", account, where, namespace=where)


def _role(kind: str, name: str, granted: tuple[Right, ...], *, namespace: str = "") -> dict[str, Any]:
    return named(_API, kind, name, namespace=namespace, rules=[right.rule() for right in granted])


def _binding(role: str, account: str, where: str, *, namespace: str = "") -> dict[str, Any]:
    return named(
        _API,
        f"{role}Binding",
        account,
        namespace=namespace,
        roleRef={"apiGroup": _GROUP, "kind": role, "name": account},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": where}],
    )


def _aggregated() -> dict[str, Any]:
    """Return the right to look, which everyone has who may view a cluster at all."""
    into = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    return labelled(_role("ClusterRole", VIEW, _OF_VIEWERS), into)
