"""Lanes of our own at the API server: a storm of others does not hold up a drain, and ours does not hold up others.

Agents and controllers have one each, so that a thousand agents which tell of faults at once do not stand before the
controller's taints.
"""

from dataclasses import dataclass
from typing import Any

from gpuward.cli.manifests.installation import AGENT, CONTROLLER, Installation, named

_API = "flowcontrol.apiserver.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Lane:
    """How much of the server an account gets beside others. A lower precedence is matched first."""

    account: str
    precedence: int
    shares: int
    queue_length: int


LANES = (
    Lane(CONTROLLER, precedence=700, shares=30, queue_length=100),
    Lane(AGENT, precedence=800, shares=20, queue_length=1000),
)
"""The server's own for service accounts has precedence 9000; those of the system up to 500 go before ours."""


def lanes(installation: Installation) -> tuple[dict[str, Any], ...]:
    """Return for each account its level and what leads into it."""
    return tuple(manifest for lane in LANES for manifest in (_level(lane), _flow(installation, lane)))


def _level(lane: Lane) -> dict[str, Any]:
    queuing = {"queues": 16, "handSize": 4, "queueLengthLimit": lane.queue_length}
    limited = {
        "nominalConcurrencyShares": lane.shares,
        "lendablePercent": 50,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    return named(_API, "PriorityLevelConfiguration", lane.account, spec={"type": "Limited", "limited": limited})


def _flow(installation: Installation, lane: Lane) -> dict[str, Any]:
    account = {"name": lane.account, "namespace": installation.namespace}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
        "resourceRules": [{**everything, "clusterScope": True, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {
        "priorityLevelConfiguration": {"name": lane.account},
        "matchingPrecedence": lane.precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [rule],
    }
    return named(_API, "FlowSchema", lane.account, spec=spec)
