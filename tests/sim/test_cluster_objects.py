"""Objects of the pretend cluster, as they are created, changed and deleted; each answer was tried on version 1.36."""

import copy
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpuward.model.resource import EVENTS, GPU_CASES, JOBS, LEASES, NAMESPACES, NODES, PODS, Resource
from gpuward.ports import Conflict, Object, Refused, Unreachable
from gpuward.sim.cluster.server import Server
from tests.kit.pretend_time import PretendTime

TAINT = {"key": "k", "effect": "NoSchedule"}
POD = {"nodeName": "n1", "containers": [{"name": "main", "image": "it:1"}]}
EVENT = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "gpuward.io/c",
    "reportingInstance": "i",
    "action": "Fence",
    "reason": "Fenced",
    "type": "Warning",
    "note": "x",
    "regarding": {"kind": "Node", "name": "n1"},
}
LEASE = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000001Z"}


class World:
    """A server, and short ways to ask it."""

    def __init__(self, **options: Any) -> None:
        self.time = PretendTime()
        self.server = Server(now=self.time.now, **options)

    def make(self, resource: Resource, name: str, **body: Any) -> Object:
        """Create an object."""
        metadata = {"name": name, **body.pop("metadata", {})}
        space = "default" if resource.namespaced else None
        return self.server.create(resource, {"metadata": metadata, **body}, namespace=space)

    def patch(self, resource: Resource, name: str, *operations: Mapping[str, Any], subresource: str = "") -> Object:
        """Patch an object."""
        space = "default" if resource.namespaced else None
        return self.server.patch(resource, name, operations, namespace=space, subresource=subresource)

    def add(self, resource: Resource, name: str, path: str, value: Any, **more: Any) -> Object:
        """Patch an object by one operation."""
        return self.patch(resource, name, {"op": "add", "path": path, "value": value}, **more)

    def delete(self, resource: Resource, name: str, **more: Any) -> bool:
        """Delete an object."""
        return self.server.delete(resource, name, namespace="default" if resource.namespaced else None, **more)

    def get(self, resource: Resource, name: str) -> Object | None:
        """Return an object."""
        return self.server.get(resource, name, namespace="default" if resource.namespaced else None)


def test_a_new_node_keeps_its_status_and_is_tainted_until_it_is_ready() -> None:
    node = World().make(NODES, "n1", status={"capacity": {"cpu": "4"}})
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert node["status"] == {"capacity": {"cpu": "4"}}
    assert "generation" not in node["metadata"]
    assert (node["kind"], node["apiVersion"]) == ("Node", "v1")


def test_a_new_pod_is_pending_whatever_it_says_and_has_the_defaults() -> None:
    pod = World().make(PODS, "p", spec=POD, status={"phase": "Running"})
    assert pod["status"]["phase"] == "Pending"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert [one["key"].rpartition("/")[2] for one in pod["spec"]["tolerations"]] == ["not-ready", "unreachable"]
    assert pod["metadata"]["generation"] == 1


def test_a_list_of_a_native_kind_does_not_say_what_its_items_are_and_one_of_ours_does() -> None:
    world = World()
    world.make(NODES, "n1")
    world.make(GPU_CASES, "c")
    assert "kind" not in world.server.list(NODES).items[0]
    assert world.server.list(GPU_CASES).items[0]["kind"] == "GPUCase"


def test_a_list_of_taints_is_gone_with_its_last_taint_and_nothing_can_be_added_to_it() -> None:
    world = World()
    world.make(NODES, "n1")
    node = world.patch(NODES, "n1", {"op": "remove", "path": "/spec/taints/0"})
    assert node["spec"] == {}
    with pytest.raises(Conflict):
        world.add(NODES, "n1", "/spec/taints/-", TAINT)
    guard = {"op": "test", "path": "/spec/taints", "value": None}
    node = world.patch(NODES, "n1", guard, {"op": "add", "path": "/spec/taints", "value": [{**TAINT, "value": ""}]})
    assert node["spec"]["taints"] == [TAINT]


def test_an_empty_label_stays_and_a_field_that_is_not_set_goes() -> None:
    world = World()
    world.make(NODES, "n1", metadata={"labels": {"a": ""}, "annotations": {}})
    node = world.add(NODES, "n1", "/spec/unschedulable", value=False)
    assert node["metadata"]["labels"] == {"a": ""}
    assert "annotations" not in node["metadata"]
    assert "unschedulable" not in node["spec"]
    assert world.add(NODES, "n1", "/metadata/labels/b", None)["metadata"]["labels"] == {"a": "", "b": ""}


def test_a_patch_that_changes_nothing_makes_no_new_version() -> None:
    world = World()
    world.make(NODES, "n1")
    before, version = world.get(NODES, "n1"), world.server.state.version
    assert world.patch(NODES, "n1") == before
    assert world.add(NODES, "n1", "/status", {"capacity": {"cpu": "9"}}) == before
    assert world.add(NODES, "n1", "/metadata/creationTimestamp", "2020-01-01T00:00:00Z") == before
    assert world.patch(NODES, "n1", {"op": "remove", "path": "/metadata/uid"}) == before
    assert world.server.state.version == version


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("/metadata/resourceVersion", "1", Conflict),
        ("/metadata/uid", "x", Refused),
        ("/metadata/name", "x", Refused),
        ("/metadata/deletionTimestamp", "2020-01-01T00:00:00Z", Refused),
        ("/kind", "Pod", Refused),
        ("/metadata", 3, Refused),
        ("/metadata/labels", {"a": "b c"}, Refused),
        ("/metadata/labels", {"a": 3}, Refused),
        ("/metadata/labels", {"a b": "c"}, Refused),
        ("/metadata/annotations", {"a b": "x"}, Refused),
        ("/metadata/annotations", {"a": 3}, Refused),
        ("/metadata/annotations", {"a": "x" * 300_000}, Refused),
        ("/metadata/finalizers", ["abc"], Refused),
        ("/spec/taints/-", {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "value": "x"}, Conflict),
        ("/spec/taints/-", {"key": "k", "effect": "Never"}, Refused),
        ("/spec/taints/-", {"key": "k"}, Refused),
        ("/spec/taints/-", {"effect": "NoSchedule"}, Refused),
        ("/spec/taints/-", {**TAINT, "value": "a b"}, Refused),
        ("/spec/taints/-", "taint", Refused),
        ("/spec/taints", {"a": "b"}, Refused),
    ],
)
def test_what_a_node_may_not_become_is_refused_and_nothing_changes(path: str, value: Any, error: type) -> None:
    world = World()
    world.make(NODES, "n1")
    before = world.get(NODES, "n1")
    with pytest.raises(error):
        world.patch(
            NODES,
            "n1",
            {"op": "add", "path": "/metadata/labels", "value": {"z": "1"}},
            {"op": "add", "path": path, "value": value},
        )
    assert world.get(NODES, "n1") == before


def test_a_status_patch_of_a_native_kind_may_change_labels_and_of_ours_nothing_but_the_status() -> None:
    world = World()
    world.make(NODES, "n1")
    world.make(GPU_CASES, "c", spec={"a": 1})
    asked = [
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "add", "path": "/spec", "value": {"a": 2}},
        {"op": "add", "path": "/status", "value": {"s": 1}},
    ]
    node = world.patch(NODES, "n1", *asked, subresource="status")
    assert (node["metadata"]["labels"], node["status"], "taints" in node["spec"]) == ({"a": "b"}, {"s": 1}, True)
    case = world.patch(GPU_CASES, "c", *asked, subresource="status")
    assert ("labels" in case["metadata"], case["status"], case["spec"]) == (False, {"s": 1}, {"a": 1})


def test_a_generation_counts_changes_of_the_spec_alone() -> None:
    world = World()

    def generation(found: Object) -> int:
        return int(found["metadata"]["generation"])

    assert generation(world.make(GPU_CASES, "c", spec={"a": 1}, metadata={"generation": 7})) == 1
    assert generation(world.add(GPU_CASES, "c", "/status", {"s": 1}, subresource="status")) == 1
    assert generation(world.add(GPU_CASES, "c", "/metadata/labels", {"a": "b"})) == 1
    assert generation(world.add(GPU_CASES, "c", "/spec/a", 2)) == 2
    assert generation(world.patch(GPU_CASES, "c", {"op": "remove", "path": "/spec"})) == 3


@pytest.mark.parametrize("resource", [LEASES, EVENTS])
def test_a_kind_without_a_status_of_its_own_refuses_a_patch_of_it(resource: Resource) -> None:
    world = World()
    world.make(resource, "x", **({"spec": LEASE} if resource == LEASES else EVENT))
    with pytest.raises(Refused):
        world.patch(resource, "x", subresource="status")
    with pytest.raises(Refused):
        world.patch(resource, "x", subresource="scale")


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"name": "A_b"}, Refused),
        ({"name": "a" * 254}, Refused),
        ({}, Refused),
        ({"name": "a", "resourceVersion": "5"}, Unreachable),
        ({"name": "a", "labels": {"a": "b c"}}, Refused),
        ({"name": "a", "namespace": "kube-system"}, Refused),
        ({"name": "taken"}, Conflict),
    ],
)
def test_what_cannot_be_created_says_why(metadata: dict[str, Any], error: type) -> None:
    world = World()
    world.make(PODS, "taken", spec=POD)
    with pytest.raises(error):
        world.server.create(PODS, {"metadata": metadata, "spec": POD}, namespace="default")
    assert len(world.server.list(PODS).items) == 1


def test_the_name_of_a_namespace_has_no_dots_and_others_may() -> None:
    world = World()
    assert world.make(GPU_CASES, "n.n")["metadata"]["name"] == "n.n"
    with pytest.raises(Refused):
        world.make(NAMESPACES, "n.n")


def test_a_generated_name_is_made_of_what_is_given_and_is_new_each_time() -> None:
    server = World().server
    names = {server.create(NODES, {"metadata": {"generateName": "gen-"}})["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


def test_an_object_of_another_kind_or_without_its_namespace_is_refused() -> None:
    server = World().server
    for body in ({"kind": "Pod"}, {"apiVersion": "v2"}):
        with pytest.raises(Refused):
            server.create(NODES, {"metadata": {"name": "a"}, **body})
    asks: list[Callable[[], Any]] = [
        lambda: server.create(PODS, {"metadata": {"name": "a"}, "spec": POD}),
        lambda: server.get(PODS, "a"),
        lambda: server.create(NODES, {"metadata": {"name": "a"}, "spec": {"x": object()}}),
    ]
    for ask in asks:
        with pytest.raises(Refused):
            ask()


@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"containers": [{"image": "i"}]}, {"containers": "x"}])
def test_a_pod_without_containers_is_refused(spec: Mapping[str, Any]) -> None:
    with pytest.raises(Refused):
        World().make(PODS, "p", spec=spec)


@pytest.mark.parametrize(
    ("path", "value", "good"),
    [
        ("/spec/tolerations/-", {"key": "x", "operator": "Exists"}, True),
        ("/spec/tolerations/0/tolerationSeconds", 5, True),
        ("/spec/tolerations/0/key", "other", False),
        ("/spec/containers/0/image", "it:2", True),
        ("/spec/containers/0/name", "other", False),
        ("/spec/nodeName", "n2", False),
        ("/spec/terminationGracePeriodSeconds", 5, False),
        ("/spec/activeDeadlineSeconds", 5, True),
        ("/spec/activeDeadlineSeconds", 500, False),
        ("/metadata/labels", {"a": "b"}, True),
    ],
)
def test_of_a_pod_only_some_things_may_change(path: str, value: Any, good: bool) -> None:  # noqa: FBT001  a table
    world = World()
    world.make(
        PODS, "p", spec={**POD, "tolerations": [{"key": "mine", "operator": "Exists"}], "activeDeadlineSeconds": 50}
    )
    try:
        world.add(PODS, "p", path, value)
        changed = True
    except Refused:
        changed = False
    assert changed is good


def test_the_tolerations_of_every_pod_come_back_when_they_are_taken_away() -> None:
    world = World()
    world.make(PODS, "p", spec=POD)
    pod = world.patch(PODS, "p", {"op": "remove", "path": "/spec/tolerations/0"})
    assert [one["key"].rpartition("/")[2] for one in pod["spec"]["tolerations"]] == ["unreachable", "not-ready"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("renewTime", "2026-01-01T00:00:00Z"),
        ("renewTime", "2026-01-01T00:00:00.123Z"),
        ("renewTime", 5),
        ("leaseDurationSeconds", 0),
        ("leaseDurationSeconds", 1.5),
        ("leaseTransitions", -1),
    ],
)
def test_a_lease_that_is_none_is_refused(field: str, value: Any) -> None:
    world = World()
    world.make(LEASES, "l", spec=LEASE)
    with pytest.raises(Refused, match=field):
        world.add(LEASES, "l", f"/spec/{field}", value)
    assert world.add(LEASES, "l", "/spec/holderIdentity", "")["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("field", ["eventTime", "reportingController", "reportingInstance", "action", "reason", "type"])
def test_an_event_without_what_it_needs_is_refused(field: str) -> None:
    with pytest.raises(Refused, match=field):
        World().make(EVENTS, "e", **{key: value for key, value in EVENT.items() if key != field})


@pytest.mark.parametrize(
    "changed", [{"note": "x" * 1025}, {"reason": "x" * 129}, {"type": "Odd"}, {"eventTime": "now"}]
)
def test_an_event_that_says_too_much_or_nonsense_is_refused(changed: Mapping[str, Any]) -> None:
    with pytest.raises(Refused):
        World().make(EVENTS, "e", **{**EVENT, **changed})


def test_of_an_event_only_the_series_goes_on() -> None:
    world = World()
    world.make(EVENTS, "e", **EVENT)
    assert world.add(EVENTS, "e", "/series", {"count": 2})["series"] == {"count": 2}
    for path, value in (("/note", "y"), ("/series/count", 1)):
        with pytest.raises(Refused):
            world.add(EVENTS, "e", path, value)


def test_the_template_of_a_job_stays_and_its_suspension_may_change() -> None:
    world = World()
    world.make(JOBS, "j", spec={"template": {"spec": {"containers": []}}}, status={"active": 1})
    assert world.add(JOBS, "j", "/spec/suspend", value=True)["spec"]["suspend"] is True
    assert "status" not in (world.get(JOBS, "j") or {})
    with pytest.raises(Refused):
        world.add(JOBS, "j", "/spec/template", {})


def test_a_pod_ends_in_its_grace_and_a_second_deletion_can_only_shorten_that() -> None:
    world = World()
    world.make(PODS, "p", spec=POD)

    def grace(asked: int | None) -> tuple[int, str]:
        assert world.delete(PODS, "p", grace_seconds=asked)
        metadata = (world.get(PODS, "p") or {})["metadata"]
        return metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]

    assert grace(None) == (30, "2023-11-14T22:13:50Z")
    world.time.sleep(5)
    assert grace(40) == (30, "2023-11-14T22:13:50Z")
    assert grace(None) == (30, "2023-11-14T22:13:50Z")
    assert grace(10) == (10, "2023-11-14T22:13:30Z")
    assert grace(-1) == (1, "2023-11-14T22:13:21Z")
    assert world.delete(PODS, "p", grace_seconds=0)
    assert world.get(PODS, "p") is None
    assert world.delete(PODS, "p") is False


@pytest.mark.parametrize("case", ["on no node", "ended"])
def test_a_pod_that_runs_nowhere_is_gone_at_once(case: str) -> None:
    world = World()
    world.make(PODS, "p", spec=POD if case == "ended" else {"containers": POD["containers"]})
    if case == "ended":
        world.add(PODS, "p", "/status/phase", "Succeeded", subresource="status")
    assert world.delete(PODS, "p")
    assert world.get(PODS, "p") is None


def test_what_has_finalizers_waits_for_them_and_takes_no_new_ones() -> None:
    world = World()
    world.make(PODS, "p", spec=POD, metadata={"finalizers": ["a.b/c"]})
    world.make(GPU_CASES, "c", metadata={"finalizers": ["a.b/c"]})
    for resource, name in ((PODS, "p"), (GPU_CASES, "c")):
        assert world.delete(resource, name, grace_seconds=0)
        ending = world.get(resource, name)
        assert ending is not None
        assert ending["metadata"]["deletionGracePeriodSeconds"] == 0
        with pytest.raises(Refused):
            world.add(resource, name, "/metadata/finalizers/-", "a.b/d")
        world.add(resource, name, "/metadata/labels", {"still": "here"})
        world.patch(resource, name, {"op": "remove", "path": "/metadata/finalizers"})
        assert world.get(resource, name) is None


def test_a_deletion_meant_for_another_object_of_the_name_does_nothing() -> None:
    world = World()
    made = world.make(GPU_CASES, "c")
    assert world.delete(GPU_CASES, "c", uid="other") is False
    assert world.get(GPU_CASES, "c") == made
    assert world.delete(GPU_CASES, "c", uid=made["metadata"]["uid"]) is True


def test_a_namespace_that_is_ending_takes_nothing_new_and_the_first_ones_never_end() -> None:
    world = World()
    world.make(NAMESPACES, "nn")
    assert world.delete(NAMESPACES, "nn")
    ending = world.get(NAMESPACES, "nn")
    assert ending is not None
    assert ending["status"] == {"phase": "Terminating"}
    with pytest.raises(Refused, match="terminated"):
        world.server.create(PODS, {"metadata": {"name": "p"}, "spec": POD}, namespace="nn")
    with pytest.raises(Refused):
        world.delete(NAMESPACES, "default")


def test_a_scheduler_binds_a_pod_once() -> None:
    world = World()
    world.make(PODS, "p", spec={"containers": POD["containers"]})
    assert [one["metadata"]["name"] for one in world.server.list(PODS, fields="spec.nodeName=").items] == ["p"]
    world.server.bind("default", "p", "n7")
    assert world.server.list(PODS, fields="spec.nodeName=").items == ()
    assert len(world.server.list(PODS, fields="spec.nodeName=n7").items) == 1
    with pytest.raises(Conflict):
        world.server.bind("default", "p", "n8")


def test_lists_are_in_the_order_of_a_real_list() -> None:
    server = World().server
    for space in ("a-b", "a", "b"):
        server.create(NAMESPACES, {"metadata": {"name": space}})
        server.create(PODS, {"metadata": {"name": "p"}, "spec": POD}, namespace=space)

    def spaces(**chosen: Any) -> list[str]:
        return [one["metadata"]["namespace"] for one in server.list(PODS, **chosen).items]

    assert spaces() == ["a-b", "a", "b"]
    assert spaces(namespace="a") == ["a"]
    assert spaces(fields="metadata.name=p") == spaces(fields="spec.nodeName=n1") == ["a-b", "a", "b"]
    assert spaces(namespace="a-b", fields="spec.nodeName=n1") == ["a-b"]
    assert spaces(namespace="nowhere") == []


def test_what_is_handed_out_or_handed_in_cannot_change_what_is_kept() -> None:
    world = World()
    body: Any = {"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": {"list": [{"x": 1}]}}
    made: Any = world.server.create(GPU_CASES, body)
    body["spec"]["list"].append({"x": 2})
    assert made["spec"] == {"list": [{"x": 1}]}
    (listed,) = world.server.list(GPU_CASES).items
    listed["spec"] = {}
    changes: list[Callable[[], Any]] = [
        lambda: made["spec"].update(a=1),
        lambda: made["spec"]["list"].append(1),
        lambda: made["spec"]["list"][0].pop("x"),
        lambda: listed["metadata"].setdefault("x", 1),
        lambda: made.update({}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="belongs to the cluster"):
            change()
    for own in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), json.loads(json.dumps(made))):  # noqa: S301  ours
        own["spec"]["list"].append(3)
        own["metadata"]["labels"]["a"] = "z"
    assert copy.copy(made)["spec"] is made["spec"]
    assert world.get(GPU_CASES, "c") == made


def test_the_same_calls_give_the_same_cluster_byte_for_byte_and_another_seed_another() -> None:
    def life(seed: int) -> str:
        world = World(seed=seed)
        world.make(NODES, "n1")
        world.time.sleep(3)
        world.server.create(PODS, {"metadata": {"generateName": "p-"}, "spec": POD}, namespace="default")
        world.add(NODES, "n1", "/spec/taints/-", TAINT)
        return json.dumps([world.server.list(kind).items for kind in (NAMESPACES, NODES, PODS)])

    assert life(1) == life(1)
    assert life(1) != life(2)


@pytest.mark.parametrize(("asked", "expected"), [(-1, 1), (-100, 1), (0, None), (7, 7)])
def test_a_grace_below_nothing_is_a_second(asked: int, expected: int | None) -> None:
    world = World()
    world.make(PODS, "p", spec=POD)
    assert world.delete(PODS, "p", grace_seconds=asked)
    pod = world.get(PODS, "p")
    assert (pod and pod["metadata"]["deletionGracePeriodSeconds"]) == expected


def test_who_patches_an_object_that_is_ending_cannot_put_that_off() -> None:
    world = World()
    world.make(PODS, "p", spec=POD)
    world.delete(PODS, "p")
    before = world.get(PODS, "p")
    assert world.add(PODS, "p", "/metadata/deletionTimestamp", "2030-01-01T00:00:00Z") == before
    assert world.patch(PODS, "p", {"op": "remove", "path": "/metadata/deletionTimestamp"}) == before


def test_a_watch_from_before_the_changes_that_are_kept_must_list_again_and_one_from_their_begin_not() -> None:
    world = World(most_changes=3)
    versions = [world.make(NODES, f"n{place}")["metadata"]["resourceVersion"] for place in range(5)]
    for since in versions[:1]:
        with pytest.raises(Conflict, match="too old"):
            world.server.watch(NODES, since=since, ring=lambda: None)
    told = world.server.watch(NODES, since=versions[1], ring=lambda: None).waiting
    assert [one.version for one in told] == versions[2:]


def test_what_a_watch_no_longer_selects_is_told_as_it_was_at_the_version_of_the_change() -> None:
    world = World()
    made = world.make(NODES, "n1", metadata={"labels": {"a": "1"}})
    watcher = world.server.watch(NODES, since=made["metadata"]["resourceVersion"], ring=lambda: None, labels="a=1")
    changed = world.add(NODES, "n1", "/metadata/labels/a", "2")
    (told,) = watcher.waiting
    assert told.obj["metadata"]["labels"] == {"a": "1"}
    assert told.obj["metadata"]["resourceVersion"] == told.version == changed["metadata"]["resourceVersion"]


def test_a_watch_that_nobody_reads_is_ended_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuward.sim.cluster.shelf.MOST_WAITING", 2)
    world = World()
    watcher = world.server.watch(NODES, since="1", ring=lambda: None)
    for place in range(3):
        world.make(NODES, f"n{place}")
    assert (len(watcher.waiting), watcher.closed) == (2, True)
    watcher.waiting.clear()
    world.make(NODES, "after-the-gap")
    assert not watcher.waiting
