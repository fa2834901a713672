"""What the controllers of a cluster do that our work leans on: budgets are counted, orphans and namespaces go.

A real API server does none of it by itself; so it is done only when asked, as often as the caller likes. Scheduling and
kubelets are elsewhere.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuward.model.resource import DISRUPTION_BUDGETS, NAMESPACES, PODS, Resource
from gpuward.sim.cluster import pods
from gpuward.sim.cluster.eviction import covers
from gpuward.sim.cluster.frozen import NOTHING, FrozenDict, FrozenList, freeze_native
from gpuward.sim.cluster.selection import select
from gpuward.sim.cluster.server import Server, place
from gpuward.sim.cluster.shelf import key_of
from gpuward.sim.cluster.state import seconds_of

_EXPECTED_GONE_SECONDS = 120.0
"""How long a pod whose eviction was allowed counts as gone although it is still there (DeletionTimeout)."""
_SCALED = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Deployment"})
"""Owners whose scale the disruption controller knows; all others must be objects here with `spec.replicas`."""
_WHOLE = 100


def settle(server: Server) -> None:
    """Let all of them do what is due."""
    end_namespaces(server)
    collect_garbage(server)
    count_budgets(server)


def count_budgets(server: Server, namespace: str | None = None) -> None:
    """Write the status of every PodDisruptionBudget, or of those in a namespace, as the disruption controller does."""
    shelf = server.state.shelf(DISRUPTION_BUDGETS)
    for budget in list(shelf.selected(select(DISRUPTION_BUDGETS, namespace, "", ""))):
        status = _counted(server, budget)
        if status != budget.get("status"):
            metadata = budget["metadata"]
            key = place(DISRUPTION_BUDGETS, metadata["namespace"], metadata["name"])
            server.keep(DISRUPTION_BUDGETS, key, freeze_native({**budget, "status": status}))


def collect_garbage(server: Server) -> int:
    """Delete all that only has owners that are gone, and what that leaves without one; return how many."""
    deleted = 0
    while orphans := list(_orphans(server)):
        for resource, metadata in orphans:
            server.delete(resource, metadata["name"], namespace=metadata.get("namespace"), uid=metadata["uid"])
        deleted += len(orphans)
    return deleted


def end_namespaces(server: Server) -> None:
    """Delete what is in namespaces that are ending, and these when nothing is left in them."""
    for name, namespace in list(server.state.shelf(NAMESPACES).objects.items()):
        if "deletionTimestamp" in namespace["metadata"] and _is_empty(server, name):
            spec = FrozenDict({**namespace["spec"], "finalizers": FrozenList()})
            server.keep(NAMESPACES, name, FrozenDict({**namespace, "spec": spec}))


def _is_empty(server: Server, namespace: str) -> bool:
    left = 0
    for resource, shelf in server.state.shelves():
        if not resource.namespaced:
            continue
        for obj in list(shelf.selected(select(resource, namespace, "", ""))):
            server.delete(resource, obj["metadata"]["name"], namespace=namespace)
        left += sum(1 for _ in shelf.selected(select(resource, namespace, "", "")))
    return not left


def _orphans(server: Server) -> Iterator[tuple[Resource, FrozenDict]]:
    """Yield what has owners, none of which is there, and is not ending already."""
    owned = [
        (resource, obj["metadata"])
        for resource, shelf in server.state.shelves()
        for obj in shelf.objects.values()
        if "ownerReferences" in obj["metadata"] and "deletionTimestamp" not in obj["metadata"]
    ]
    if owned:
        known = {obj["metadata"]["uid"] for _, shelf in server.state.shelves() for obj in shelf.objects.values()}
        yield from (one for one in owned if not any(owner["uid"] in known for owner in one[1]["ownerReferences"]))


def _counted(server: Server, budget: FrozenDict) -> FrozenDict:
    """Return the status that a budget should have now."""
    spec, metadata, was = budget["spec"], budget["metadata"], budget.get("status", NOTHING)
    everyone = server.state.shelf(PODS).selected(select(PODS, metadata["namespace"], "", ""))
    covered = [pod for pod in everyone if covers(budget, pod)]
    disrupted = _disrupted(server, covered, was.get("disruptedPods", NOTHING))
    healthy = sum(pods.is_ready(pod) for pod in covered if _is_staying(pod, disrupted))
    expected, desired = _wanted(server, spec, covered)
    allowed = max(0, healthy - desired) if expected else 0
    counted = {
        "observedGeneration": metadata["generation"],
        "disruptedPods": disrupted,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    return freeze_native(counted)


def _disrupted(server: Server, covered: list[FrozenDict], was: Mapping[str, str]) -> dict[str, str]:
    """Return the pods that were allowed to be evicted and are still waited for."""
    there = {pod["metadata"]["name"]: pod for pod in covered}
    now = server.state.now()
    return {
        name: since
        for name, since in was.items()
        if name in there
        and "deletionTimestamp" not in there[name]["metadata"]
        and seconds_of(since) + _EXPECTED_GONE_SECONDS > now
    }


def _is_staying(pod: FrozenDict, disrupted: Mapping[str, str]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted


def _wanted(server: Server, spec: Mapping[str, Any], covered: list[FrozenDict]) -> tuple[int, int]:
    """Return how many pods are expected and how many of them must be healthy; nothing is allowed where none are."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and isinstance(least, int):
        return len(covered), least
    expected = _scale(server, covered)
    if most is not None:
        return expected, max(0, expected - _part(most, expected))
    return expected, _part(least, expected) if least is not None else 0


def _part(amount: int | str, whole: int) -> int:
    """Return a number, or a percentage of the whole, rounded up."""
    return amount if isinstance(amount, int) else -(-int(amount[:-1]) * whole // _WHOLE)


def _scale(server: Server, covered: list[FrozenDict]) -> int:
    """Return how many pods the controllers of these pods want; 0 where one of them has none that is known.

    Pods without a controller do not count: for them only a number in `minAvailable` allows anything (Job pods too).
    """
    scales: dict[str, int] = {}
    for pod in covered:
        owner = next((one for one in pod["metadata"].get("ownerReferences", ()) if one.get("controller")), None)
        if owner is None or owner["uid"] in scales:
            continue
        replicas = _replicas(server, owner, covered)
        if replicas is None:
            return 0
        scales[owner["uid"]] = replicas
    return sum(scales.values())


def _replicas(server: Server, owner: Mapping[str, Any], covered: list[FrozenDict]) -> int | None:
    namespace = covered[0]["metadata"]["namespace"]
    for resource, shelf in server.state.shelves():
        if resource.kind == owner.get("kind"):
            found = shelf.objects.get(key_of(namespace if resource.namespaced else None, owner["name"]))
            if found is not None and found["metadata"]["uid"] == owner["uid"]:
                replicas = found.get("spec", NOTHING).get("replicas")
                return replicas if isinstance(replicas, int) else None
    if owner.get("kind") not in _SCALED:
        return None
    return sum(any(one["uid"] == owner["uid"] for one in pod["metadata"].get("ownerReferences", ())) for pod in covered)
