"""Which pods have to go: every one of the node by default, never kube-system, static pods or those of DaemonSets."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.evacuation import EvictionTerms, Scope, evacuation_of, grace_of
from gpuward.model.pod import DEFAULT_GRACE_SECONDS, MIRROR, PodSight, pod_of


def a_pod(name: str = "train-0", namespace: str = "ml", **changes: Any) -> dict[str, Any]:
    """Return a pod's object with a GPU, controlled by a Job; changes are parts of it, by their path's first word."""
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u1", "controller": True}],
        },
        "spec": {
            "nodeName": "gpu-1",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
        "status": {"phase": "Running"},
    }
    for part, fields in changes.items():
        pod[part] = {**pod[part], **fields}
    return pod


def names(pods: tuple[PodSight, ...]) -> list[str]:
    return [pod.name for pod in pods]


DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "name": "dcgm", "uid": "u2", "controller": True}]}
NO_GPU = {"containers": [{"resources": {"limits": {"cpu": "1"}}}]}


def test_by_default_every_pod_of_the_node_has_to_go_but_those_that_are_never_touched() -> None:
    pods = [
        a_pod("train-0"),
        a_pod("web", spec=NO_GPU),
        a_pod("dns", "kube-system"),
        a_pod("dcgm", "gpu-operator", metadata=DAEMON),
        a_pod("etcd", "ml", metadata={"annotations": {MIRROR: "x"}}),
        a_pod("done", status={"phase": "Succeeded"}),
        a_pod("failed", status={"phase": "Failed"}),
    ]
    found = evacuation_of(map(pod_of, pods), EvictionTerms())
    assert names(found.victims) == ["train-0", "web"]
    told = {one.pod.name: one.why for one in found.spared}
    assert told.keys() == {"dns", "dcgm", "etcd", "done", "failed"}
    assert "DaemonSet" in told["dcgm"]
    assert "static pod" in told["etcd"]


@pytest.mark.parametrize(
    ("scope", "victims"),
    [(Scope.NODE, ["other", "train", "web"]), (Scope.GPU, ["other", "train"]), (Scope.SICK_GPU, ["train"])],
)
def test_a_pool_may_ask_for_less(scope: Scope, victims: list[str]) -> None:
    pods = [a_pod("train"), a_pod("other"), a_pod("web", spec=NO_GPU)]
    found = evacuation_of(map(pod_of, pods), EvictionTerms(scope=scope), holders=frozenset({"uid-ml-train"}))
    assert names(found.victims) == victims


@pytest.mark.parametrize("scope", Scope)
def test_kube_system_stays_whatever_the_settings_say(scope: Scope) -> None:
    terms = EvictionTerms(scope=scope, excluded=frozenset({"monitoring"}))
    pods = [pod_of(a_pod("a", "kube-system")), pod_of(a_pod("b", "monitoring"))]
    assert evacuation_of(pods, terms, holders=frozenset({"uid-kube-system-a"})).victims == ()


@pytest.mark.parametrize(
    ("own", "left", "grace"),
    [(30, 600.0, 60), (120, 600.0, 120), (3600, 600.0, 600), (30, 20.5, 20), (30, -5.0, 0)],
)
def test_a_pod_gets_at_least_a_minute_and_its_own_time_if_longer_within_the_deadline(
    own: int, left: float, grace: int
) -> None:
    pod = pod_of(a_pod(spec={"terminationGracePeriodSeconds": own}))
    assert grace_of(pod, EvictionTerms(), left_seconds=left) == grace


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}] * 2}, 4),
        ({"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 3}}}]}, 3),
        ({"initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}], "containers": []}, 4),
        (
            {
                "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
                "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            },
            2,
        ),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "many"}}}]}, 0),
        ({"containers": None}, 0),
        ({}, 0),
    ],
)
def test_the_gpus_of_a_pod_are_counted_as_the_scheduler_does(spec: dict[str, Any], gpus: int) -> None:
    assert pod_of({"spec": spec}).gpus == gpus


def test_a_pod_that_says_little_is_read_all_the_same() -> None:
    pod = pod_of({})
    assert (pod.name, pod.node, pod.gpus, pod.owner, pod.grace_seconds) == ("", "", 0, None, DEFAULT_GRACE_SECONDS)
    ending = pod_of(a_pod(metadata={"deletionTimestamp": "2026-11-30T03:12:07Z", "finalizers": ["a/b"]}))
    assert (ending.ending, ending.finalizers) == (True, ("a/b",))


@given(
    st.lists(
        st.builds(
            a_pod,
            name=st.text("abc", min_size=1, max_size=3),
            namespace=st.sampled_from(["ml", "kube-system", "web"]),
            status=st.fixed_dictionaries({"phase": st.sampled_from(["Running", "Pending", "Failed"])}),
            metadata=st.sampled_from([{}, DAEMON, {"annotations": {MIRROR: "1"}}]),
        ),
        max_size=8,
    ),
    st.sampled_from(Scope),
)
def test_every_pod_has_to_go_or_is_spared_for_a_reason(pods: list[dict[str, Any]], scope: Scope) -> None:
    seen = [pod_of(pod) for pod in pods]
    found = evacuation_of(seen, EvictionTerms(scope=scope), holders=frozenset())
    told = Counter(map(repr, [*found.victims, *(one.pod for one in found.spared)]))
    assert told == Counter(map(repr, seen))
    assert all(one.why for one in found.spared)
    assert all(pod.namespace != "kube-system" and not pod.mirror for pod in found.victims)
