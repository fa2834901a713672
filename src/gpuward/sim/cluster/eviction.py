"""Evictions, as the API server does them (pkg/registry/core/pod/storage/eviction.go of 1.36), quirks included.

One is that the budget is counted down before the uid is compared: an eviction meant for another pod of that name takes
from the budget and evicts nobody.
"""

from collections.abc import Mapping
from typing import Any

from gpuward.model.resource import DISRUPTION_BUDGETS, PODS
from gpuward.ports import Evicted, Eviction
from gpuward.sim.cluster import answers, pods, selectors
from gpuward.sim.cluster.frozen import NOTHING, FrozenDict, freeze, freeze_native
from gpuward.sim.cluster.selection import select
from gpuward.sim.cluster.server import Server, place

_MOST_DISRUPTED = 2000
_NO_BUDGET_NEEDED = pods.ENDED | {"Pending"}
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def evict(server: Server, pod: str, *, namespace: str, uid: str, grace_seconds: int | None = None) -> Eviction:
    """Evict a pod if its budget allows it. Raises Refused where the budget is not usable."""
    key = place(PODS, namespace, pod)
    found = server.state.shelf(PODS).objects.get(key)
    if found is None:
        return Eviction(Evicted.GONE, f'pods "{pod}" not found')
    if not _needs_no_budget(found):
        budgets = budgets_of(server, found)
        if len(budgets) > 1:
            why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            return Eviction(Evicted.TANGLED, why)
        held = next((held for budget in budgets if (held := _held(server, found, budget)) is not None), None)
        if held is not None:
            return Eviction(Evicted.HELD, f"{_VIOLATES} {held}")
    if uid and found["metadata"]["uid"] != uid:
        return Eviction(Evicted.GONE, f"the UID in the precondition ({uid}) does not match the UID in record")
    server.keep(PODS, key, _targeted(server, found))
    server.delete(PODS, pod, namespace=namespace, grace_seconds=grace_seconds)
    return Eviction(Evicted.ASKED)


def budgets_of(server: Server, pod: Mapping[str, Any]) -> list[FrozenDict]:
    """Return the budgets that cover a pod; one whose selector makes no sense covers none."""
    shelf = server.state.shelf(DISRUPTION_BUDGETS)
    space = select(DISRUPTION_BUDGETS, pod["metadata"]["namespace"], "", "")
    return [budget for budget in shelf.selected(space) if covers(budget, pod)]


def covers(budget: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return whether a budget of the pod's namespace selects it."""
    try:
        chosen = selectors.of_object(budget["spec"].get("selector"))
    except selectors.Unreadable:
        return False
    return chosen(pod["metadata"].get("labels", NOTHING))


def _needs_no_budget(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in _NO_BUDGET_NEEDED or "deletionTimestamp" in pod["metadata"]


def _held(server: Server, pod: FrozenDict, budget: FrozenDict) -> str | None:
    """Return why a budget does not allow the eviction; None when it does, and then it is counted down."""
    name, status = budget["metadata"]["name"], budget.get("status", NOTHING)
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not pods.is_ready(pod) and (
        budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0
    ):
        return None
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        return f"The disruption budget {name} is still being processed by the server."
    if status.get("disruptionsAllowed", 0) < 0 or len(status.get("disruptedPods", ())) > _MOST_DISRUPTED:
        raise answers.forbidden(DISRUPTION_BUDGETS, name, "pdb disruptions allowed is negative, or too many disrupted")
    if not status.get("disruptionsAllowed", 0):
        if healthy <= desired:
            return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        return f"The disruption budget {name} does not allow evicting pods currently"
    _count_down(server, pod, budget)
    return None


def _count_down(server: Server, pod: FrozenDict, budget: FrozenDict) -> None:
    metadata, status = budget["metadata"], budget["status"]
    disrupted = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: server.state.stamp()}
    counted = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
    key = place(DISRUPTION_BUDGETS, metadata["namespace"], metadata["name"])
    server.keep(DISRUPTION_BUDGETS, key, freeze_native({**budget, "status": counted}))


def _targeted(server: Server, pod: FrozenDict) -> FrozenDict:
    """Return the pod with the condition that says why it ends; the same when it has that."""
    conditions = pod["status"].get("conditions", ())
    if any(one.get("type") == _CONDITION["type"] and one.get("status") == "True" for one in conditions):
        return pod
    others = [one for one in conditions if one.get("type") != _CONDITION["type"]]
    new = freeze([*others, {**_CONDITION, "lastTransitionTime": server.state.stamp()}])
    return FrozenDict({**pod, "status": FrozenDict({**pod["status"], "conditions": new})})
