"""What agents may write, by the node in their own token, and which GPUCases people may create: drills alone.

No agent writes for another node, whatever rights it has.
A node that was broken into has the token of its agent. RBAC knows no names of nodes, so these policies stand above it.
Tried on API server 1.36: without `*/*` an agent patched another node's status through the subresource; `startsWith` let
gpu-1 write for gpu-1-2; only whole names tell nodes apart.
"""

from typing import Any

from gpuward.cli.manifests.installation import AGENT, Installation, named
from gpuward.isolation.drill import BOOT as DRILL
from gpuward.model.objects.gpu_fault import NAME_RULE
from gpuward.model.objects.owned import agent_lease
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, GROUP, LEASES

_API = "admissionregistration.k8s.io/v1"
_NODE_CLAIM = "authentication.kubernetes.io/node-name"
DRILLS = "gpuward-drills"
_WRITES = ["CREATE", "UPDATE", "DELETE"]
_OF_NODES = f"request.resource.resource == '{GPU_NODES.plural}'"
_OF_FAULTS = f"request.resource.resource == '{GPU_FAULTS.plural}'"
_CREATES = "request.operation == 'CREATE'"
_DELETES = "request.operation == 'DELETE'"
_VARIABLES = [
    {"name": "claims", "expression": f"request.userInfo.?extra[?'{_NODE_CLAIM}'].orValue([])"},
    {"name": "node", "expression": "variables.claims.size() == 1 ? string(variables.claims[0]) : ''"},
    {"name": "status", "expression": "has(request.subResource) && request.subResource == 'status'"},
]
_NAMED = NAME_RULE.replace("self.", "object.")
_BOUND = ("variables.node != ''", "the agent's token must be bound to a node")
_KEEPS = (f"!({_DELETES})", "an agent deletes nothing")
_RULES = (
    _BOUND,
    _KEEPS,
    (f"{_OF_NODES} || {_OF_FAULTS}", "an agent writes GPUNodes and GPUFaults only"),
    (
        f"{_DELETES} || !has(object.metadata.finalizers)",
        "an agent sets no finalizers: nothing could take its objects away",
    ),
    (
        f"{_DELETES} || !({_OF_NODES}) || object.metadata.name == variables.node",
        "an agent writes the GPUNode of its own node only",
    ),
    (
        f"!({_OF_NODES} && {_CREATES}) || !has(object.spec)",
        "an agent creates its GPUNode without a spec: orders are the controller's",
    ),
    (f"{_DELETES} || {_CREATES} || variables.status", "an agent changes nothing but the status"),
    (
        f"!({_OF_FAULTS} && {_CREATES}) || (object.spec.nodeName == variables.node && {_NAMED})",
        "an agent tells of its own node's faults only, by their whole name: node.boot.cursor",
    ),
    (
        f"!({_OF_FAULTS} && request.operation == 'UPDATE') || oldObject.spec.nodeName == variables.node",
        "an agent writes of its own node's faults only",
    ),
    (
        f"!({_OF_FAULTS} && request.operation == 'UPDATE') || object.?status.?judged == oldObject.?status.?judged",
        "an agent judges nothing: status.judged is the controller's",
    ),
)
_LEASE_RULES = (
    _BOUND,
    _KEEPS,
    (
        f"{_DELETES} || object.metadata.name == '{agent_lease('')}' + variables.node",
        "an agent writes the Lease of its own node only",
    ),
)


OPEN = "open"
"""The verb on GPUCases of who may create a real one; whoever has only `create` creates drills."""
_MAY_OPEN = f"authorizer.group('{GROUP}').resource('{GPU_CASES.plural}').check('{OPEN}').allowed()"
_OF_A_DRILL = (
    "object.spec.fault.startsWith(object.spec.node) && "
    f"object.spec.fault.substring(object.spec.node.size()).matches('^[.]{DRILL}[.][-a-z0-9]+$')"
)
"""With no dot after it: the fault of a node that is called like another one and `drill` has two parts more."""
_CASE_RULES = (
    ("variables.opens || has(object.spec.drill)", "cases are the controller's to open; people create drills only"),
    (
        f"variables.opens || (object.metadata.name == 'c-' + object.spec.fault && {_OF_A_DRILL})",
        f"a drill has a name of its own: c-NODE.{DRILL}.CURSOR, as a whole; no real fault's case is in its way",
    ),
    ("variables.opens || has(object.spec.gpu)", "a drill is of one GPU: a case of a whole node stands for its loss"),
    (
        "variables.opens || ((!has(object.spec.state) || object.spec.state == 'suspect') && !has(object.spec.effects))",
        "a drill begins as suspect, with nothing asked for",
    ),
)


def policies(installation: Installation) -> tuple[dict[str, Any], ...]:
    """Return the policies with their bindings, each policy first."""
    objects = _policy(installation, AGENT, _RULES, matching={"resourceRules": [_matched(GROUP, "*/*")]})
    leases = _policy(
        installation,
        f"{AGENT}-lease",
        _LEASE_RULES,
        matching={
            "resourceRules": [_matched(LEASES.group, LEASES.plural)],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": installation.namespace}},
        },
    )
    return (objects, _binding(AGENT), leases, _binding(f"{AGENT}-lease"), _drills(), _binding(DRILLS))


def _matched(group: str, resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": _WRITES, "resources": [resources]}


def _policy(
    installation: Installation, name: str, rules: tuple[tuple[str, str], ...], *, matching: dict[str, Any]
) -> dict[str, Any]:
    by_an_agent = f"request.userInfo.username == '{installation.user(AGENT)}'"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": matching,
        "matchConditions": [{"name": "by-an-agent", "expression": by_an_agent}],
        "variables": _VARIABLES,
        "validations": _validations(rules),
    }
    return named(_API, "ValidatingAdmissionPolicy", name, spec=spec)


def _drills() -> dict[str, Any]:
    creations = {**_matched(GROUP, GPU_CASES.plural), "operations": ["CREATE"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [creations]},
        "variables": [{"name": "opens", "expression": _MAY_OPEN}],
        "validations": _validations(_CASE_RULES),
    }
    return named(_API, "ValidatingAdmissionPolicy", DRILLS, spec=spec)


def _validations(rules: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"expression": rule, "message": message, "reason": "Forbidden"} for rule, message in rules]


def _binding(policy: str) -> dict[str, Any]:
    spec = {"policyName": policy, "validationActions": ["Deny"]}
    return named(_API, "ValidatingAdmissionPolicyBinding", policy, spec=spec)
