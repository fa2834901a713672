"""What the API server knows of pods beyond other kinds: what it fills in, what may change, how they end."""

from collections.abc import Mapping
from typing import Any

from gpuward.sim.cluster.frozen import NOTHING

DEFAULT_GRACE_SECONDS = 30
ENDED = frozenset({"Succeeded", "Failed"})
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVERY = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
_DEFAULTS: Mapping[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}


def filled_in(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a new pod with what the server adds to it, the two tolerations of every pod too."""
    return {**_DEFAULTS, **spec, "tolerations": tolerated(spec)}


def tolerated(spec: Mapping[str, Any]) -> list[Any]:
    """Return the tolerations and the two of every pod, which the server adds whenever one is written."""
    tolerations = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        if not any(_tolerates(one, key) for one in tolerations):
            tolerations.append({"key": key, **_EVERY})
    return tolerations


def new_complaint(spec: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the spec of a new pod, None when nothing is."""
    containers = spec.get("containers") or ()
    if not containers:
        return "spec.containers: Required value"
    names = [one.get("name", "") for one in containers]
    if not all(names):
        return "spec.containers[].name: Required value"
    return None if len(set(names)) == len(names) else "spec.containers[].name: Duplicate value"


def change_complaint(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Return why a spec may not become the other one, None when it may.

    Tolerations may come, and none may go, only their seconds change; images may change, and a deadline come or shrink.
    """
    if _fixed(old) != _fixed(new):
        return (
            "spec: Forbidden: pod updates may not change fields other than images, `spec.activeDeadlineSeconds` and "
            "`spec.tolerations` (only additions)"
        )
    kept = [_timeless(one) for one in new.get("tolerations", ())]
    if not all(_timeless(one) in kept for one in old.get("tolerations", ())):
        return "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or after > before):
        return "spec.activeDeadlineSeconds: Invalid value: must be less than or equal to previous value"
    return None


def grace_seconds(pod: Mapping[str, Any], asked: int | None) -> int:
    """Return how long a pod that is deleted may take; none when it does not run anywhere (any more)."""
    spec = pod.get("spec", NOTHING)
    if not spec.get("nodeName") or pod.get("status", NOTHING).get("phase") in ENDED:
        return 0
    grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS) if asked is None else asked
    return 1 if grace < 0 else int(grace)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod says that it is ready."""
    conditions = pod.get("status", NOTHING).get("conditions", ())
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    mine = toleration.get("key")
    everything = not mine and toleration.get("operator") == "Exists"
    return (everything or mine == key) and toleration.get("effect") in (None, "", "NoExecute")


def _timeless(toleration: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {key: value for key, value in spec.items() if key not in ("tolerations", "activeDeadlineSeconds")}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [{**container, "image": ""} for container in fixed[key]]
    return fixed
