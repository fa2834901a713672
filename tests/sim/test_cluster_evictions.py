"""Evictions on the pretend cluster, and the controllers that they lean on: budgets, garbage, namespaces."""

from typing import Any

import pytest

from gpuward.model.resource import (
    DISRUPTION_BUDGETS,
    GPU_CASES,
    GPU_FAULTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)
from gpuward.ports import Evicted, Object, Refused
from gpuward.sim.cluster import controllers, eviction
from gpuward.sim.cluster.server import Server
from tests.kit.pretend_time import PretendTime

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)


class World:
    """A namespace with pods and budgets."""

    def __init__(self) -> None:
        self.time = PretendTime()
        self.server = Server(now=self.time.now)

    def pods(self, *names: str, ready: bool = True, phase: str = "Running", **metadata: Any) -> None:
        """Make pods that run."""
        for name in names:
            whole = {"name": name, "labels": {"app": "x"}, **metadata}
            spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
            self.server.create(PODS, {"metadata": whole, "spec": spec}, namespace="default")
            status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
            self.set_status(PODS, name, status)

    def budget(self, name: str = "b", selector: Any = None, **spec: Any) -> None:
        """Make a budget over all of these pods, unless told otherwise."""
        chosen = {"matchLabels": {"app": "x"}} if selector is None else selector
        body = {"metadata": {"name": name}, "spec": {"selector": chosen, **spec}}
        self.server.create(DISRUPTION_BUDGETS, body, namespace="default")

    def set_status(self, resource: Resource, name: str, status: Any) -> None:
        """Write a status."""
        operation = {"op": "add", "path": "/status", "value": status}
        self.server.patch(resource, name, [operation], namespace="default", subresource="status")

    def get(self, resource: Resource, name: str) -> Object:
        """Return what must be there."""
        found = self.server.get(resource, name, namespace="default")
        assert found is not None
        return found

    def evict(self, name: str, *, uid: str | None = None, grace_seconds: int | None = None) -> str:
        """Evict a pod and return what became of it and why."""
        meant = self.get(PODS, name)["metadata"]["uid"] if uid is None else uid
        done = eviction.evict(self.server, name, namespace="default", uid=meant, grace_seconds=grace_seconds)
        return f"{done.outcome}: {done.why}" if done.why else done.outcome

    def allowed(self, name: str = "b") -> int:
        """Return how many the budget allows, counted now."""
        controllers.count_budgets(self.server)
        return int(self.get(DISRUPTION_BUDGETS, name)["status"]["disruptionsAllowed"])


def owned(kind: str, uid: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": "o", "uid": uid, "controller": True}]}


def test_an_evicted_pod_says_why_it_ends_and_has_its_grace() -> None:
    world = World()
    world.pods("a")
    assert world.evict("a", grace_seconds=17) == Evicted.ASKED
    pod = world.get(PODS, "a")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 17
    assert {one["type"] for one in pod["status"]["conditions"]} == {"Ready", "DisruptionTarget"}
    assert world.evict("a", grace_seconds=60) == Evicted.ASKED
    assert world.get(PODS, "a")["metadata"]["deletionGracePeriodSeconds"] == 17


def test_a_budget_is_held_until_it_was_counted_and_then_allows_so_many() -> None:
    world = World()
    world.pods("a", "b", "c")
    world.budget(minAvailable=2)
    assert "still being processed" in world.evict("a")
    assert world.allowed() == 1
    assert world.evict("a") == Evicted.ASKED
    assert world.evict("b") == (
        f"{Evicted.HELD}: Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget b does not allow evicting pods currently"
    )
    assert world.allowed() == 0
    assert "needs 2 healthy pods and has 2 currently" in world.evict("b")


def test_an_eviction_meant_for_another_pod_of_the_name_takes_from_the_budget_as_on_a_real_server() -> None:
    world = World()
    world.pods("a", "b")
    world.budget(minAvailable=1)
    assert world.allowed() == 1
    assert world.evict("a", uid="other").startswith(Evicted.GONE)
    assert "deletionTimestamp" not in world.get(PODS, "a")["metadata"]
    assert world.get(DISRUPTION_BUDGETS, "b")["status"]["disruptedPods"] == {"a": "2023-11-14T22:13:20Z"}
    assert world.allowed() == 0
    world.time.sleep(121)
    assert world.allowed() == 1, "a pod that did not end is counted again after two minutes"


def test_a_pod_under_two_budgets_is_tangled_and_one_that_is_gone_is_gone() -> None:
    world = World()
    world.pods("a")
    world.budget("one", minAvailable=0)
    world.budget("two", selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}, minAvailable=0)
    assert world.evict("a").startswith(Evicted.TANGLED)
    assert world.evict("nobody", uid="x").startswith(Evicted.GONE)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_needs_no_budget(phase: str) -> None:
    world = World()
    world.pods("a", phase=phase)
    world.budget(minAvailable=1)
    assert world.evict("a") == Evicted.ASKED


@pytest.mark.parametrize(
    ("healthy", "policy", "expected"), [(2, None, "asked"), (1, None, "held"), (1, "AlwaysAllow", "asked")]
)
def test_a_pod_that_is_not_ready_goes_if_the_others_suffice_or_the_policy_allows(
    healthy: int, policy: str | None, expected: str
) -> None:
    world = World()
    world.pods(*"ab"[:healthy])
    world.pods("sick", ready=False)
    world.budget(minAvailable=2, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    assert world.allowed() == 0
    assert world.evict("sick").partition(":")[0] == expected


def test_a_selector_that_is_absent_covers_nothing_and_an_empty_one_all() -> None:
    world = World()
    world.pods("a")
    spec = {"metadata": {"name": "none"}, "spec": {"maxUnavailable": 0}}
    world.server.create(DISRUPTION_BUDGETS, spec, namespace="default")
    assert world.evict("a", grace_seconds=0) == Evicted.ASKED
    world.pods("b")
    world.budget("all", selector={}, minAvailable=1)
    assert world.evict("b").startswith(Evicted.HELD)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 3}, 1),
        ({"minAvailable": 9}, 0),
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "51%"}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": 9}, 4),
        ({"maxUnavailable": "30%"}, 2),
        ({"maxUnavailable": "0%"}, 0),
    ],
)
def test_a_budget_allows_by_number_and_by_share_of_what_the_owner_wants(spec: dict[str, Any], expected: int) -> None:
    world = World()
    made = world.server.create(REPLICA_SETS, {"metadata": {"name": "o"}, "spec": {"replicas": 4}}, namespace="default")
    world.pods("a", "b", "c", "d", **owned("ReplicaSet", made["metadata"]["uid"]))
    world.budget(**spec)
    assert world.allowed() == expected


def test_a_pod_that_is_ending_or_not_ready_or_not_made_again_is_no_healthy_one() -> None:
    world = World()
    made = world.server.create(REPLICA_SETS, {"metadata": {"name": "o"}, "spec": {"replicas": 4}}, namespace="default")
    owner = owned("ReplicaSet", made["metadata"]["uid"])
    world.pods("a", "b", "c", **owner)
    world.budget(maxUnavailable=2)
    assert world.allowed() == 1
    world.server.delete(PODS, "a", namespace="default")
    assert world.allowed() == 0


@pytest.mark.parametrize("owner", [{}, owned("Job", "j")])
def test_shares_allow_nothing_for_pods_of_nobody_and_of_a_job_but_a_number_does(owner: dict[str, Any]) -> None:
    world = World()
    world.pods("a", "b", **owner)
    world.budget("share", minAvailable="50%")
    world.budget("most", maxUnavailable=1)
    world.budget("number", minAvailable=1)
    assert [world.allowed(name) for name in ("share", "most", "number")] == [0, 0, 1]


def test_a_budget_that_covers_nothing_allows_nothing() -> None:
    world = World()
    world.budget(minAvailable=0)
    assert world.allowed() == 0


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": 1, "maxUnavailable": 1},
        {"minAvailable": -1},
        {"minAvailable": "150%"},
        {"maxUnavailable": "x"},
        {"maxUnavailable": 1.5},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        World().budget(**spec)


def test_what_is_owned_goes_with_its_last_owner_and_what_it_owns_too() -> None:
    world = World()
    job = world.server.create(JOBS, {"metadata": {"name": "j"}, "spec": {}}, namespace="default")
    case = world.server.create(GPU_CASES, {"metadata": {"name": "c"}})
    world.pods("both", ownerReferences=[{"uid": one["metadata"]["uid"]} for one in (job, case)])
    world.pods("child", **owned("Job", job["metadata"]["uid"]), finalizers=["a.b/c"])
    world.server.create(
        GPU_FAULTS,
        {"metadata": {"name": "f", "ownerReferences": [{"uid": world.get(PODS, "both")["metadata"]["uid"]}]}},
    )
    world.server.delete(JOBS, "j", namespace="default")
    assert controllers.collect_garbage(world.server) == 1
    assert "deletionTimestamp" in world.get(PODS, "child")["metadata"]
    world.server.delete(GPU_CASES, "c")
    assert controllers.collect_garbage(world.server) == 1, "the pod is ending, and lasts until its kubelet ends it"
    world.server.delete(PODS, "both", namespace="default", grace_seconds=0)
    assert controllers.collect_garbage(world.server) == 1
    assert world.server.get(GPU_FAULTS, "f") is None


def test_a_namespace_that_ends_takes_its_content_along() -> None:
    server = Server(now=PretendTime().now)
    server.create(NAMESPACES, {"metadata": {"name": "nn"}})
    server.create(NODES, {"metadata": {"name": "nn"}})
    spec = {"nodeName": "n", "containers": [{"name": "c"}]}
    server.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace="nn")
    server.delete(NAMESPACES, "nn")
    controllers.settle(server)
    assert server.get(NAMESPACES, "nn") is not None, "its pod has its grace"
    server.delete(PODS, "p", namespace="nn", grace_seconds=0)
    controllers.settle(server)
    assert server.get(NAMESPACES, "nn") is None
    assert server.get(NODES, "nn") is not None
