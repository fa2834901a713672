"""A pod as far as an evacuation looks at it, and how an object of the cluster is read for that."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.found import is_name, part, parts, texts

MIRROR = "kubernetes.io/config.mirror"
"""On a pod that stands in the API for a static one of its node: deleting it ends nothing."""
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Owner:
    """Who made the pod: the owner that controls it."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class PodSight:
    """A pod on a node. `gpus` counts what it asks for of resources that are GPUs or parts of one."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    gpus: int
    grace_seconds: int
    owner: Owner | None
    mirror: bool
    ending: bool
    """It was asked to end already."""
    finalizers: tuple[str, ...]
    labels: Mapping[str, str]
    crash_looping: bool = False
    """Its work on GPUs has ended badly again and again, and waits to be started once more."""

    @property
    def ref(self) -> str:
        """Its name with its namespace."""
        return f"{self.namespace}/{self.name}"

    @property
    def ended(self) -> bool:
        """Whether all its containers have ended for good: nothing of it runs any more."""
        return self.phase in _ENDED


CRASH_LOOP = "CrashLoopBackOff"
CRASHES = 3
"""So many restarts make a container one that crashes again and again."""
DEFAULT_GRACE_SECONDS = 30
"""What Kubernetes takes when a pod says nothing (pod v1, terminationGracePeriodSeconds)."""
_KIND = re.compile("[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_UID = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""Also the value of a label or a taint, as which it is written."""
_VERSION = re.compile("([-a-z0-9.]{1,180}(/[-a-z0-9]{1,63})?)?")
_GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")


def pod_of(found: Mapping[str, Any]) -> PodSight:
    """Return what an object of kind Pod tells; what is missing or odd in it is taken for absent."""
    meta, spec = part(found, "metadata"), part(found, "spec")
    grace = spec.get("terminationGracePeriodSeconds")
    return PodSight(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        node=str(spec.get("nodeName") or ""),
        phase=str(part(found, "status").get("phase", "")),
        gpus=_gpus(spec),
        grace_seconds=grace if isinstance(grace, int) else DEFAULT_GRACE_SECONDS,
        owner=owner_of(found),
        mirror=MIRROR in part(meta, "annotations"),
        ending="deletionTimestamp" in meta,
        finalizers=tuple(map(str, meta.get("finalizers") or ())),
        labels=texts(part(meta, "labels")),
        crash_looping=_is_crash_looping(found),
    )


def owner_of(found: Mapping[str, Any]) -> Owner | None:
    """Return the owner that controls an object of any kind, None where nobody does, or nothing can be called so."""
    owners = parts(part(found, "metadata"), "ownerReferences")
    owner = next((one for one in owners if one.get("controller") is True), None)
    if owner is None:
        return None
    kind, name, uid = str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid"))
    version = str(owner.get("apiVersion", ""))
    return Owner(kind, name, uid, version) if is_name(name) and _is_one(kind, uid, version) else None


def _is_one(kind: str, uid: str, version: str) -> bool:
    """Return whether anything can be what a reference names: the API server takes them as anybody writes them."""
    return bool(_KIND.fullmatch(kind) and _UID.fullmatch(uid) and _VERSION.fullmatch(version))


def _is_crash_looping(found: Mapping[str, Any]) -> bool:
    """Return whether every container with GPUs has ended, and one of them waits for its start after many crashes."""
    with_gpus = {one.get("name") for one in parts(part(found, "spec"), "containers") if _asked(one)}
    states = [one for one in parts(part(found, "status"), "containerStatuses") if one.get("name") in with_gpus]
    crashing = [one for one in states if _crashes(one)]
    return bool(crashing) and all(one in crashing or "terminated" in part(one, "state") for one in states)


def _crashes(container: Mapping[str, Any]) -> bool:
    waiting, restarts = part(part(container, "state"), "waiting"), container.get("restartCount")
    return waiting.get("reason") == CRASH_LOOP and isinstance(restarts, int) and restarts >= CRASHES


def _gpus(spec: Mapping[str, Any]) -> int:
    """Return the most that its containers ask for at once: all main ones together, or one that goes before them."""
    main = sum(map(_asked, parts(spec, "containers")))
    # An init container that goes on, a sidecar, runs beside the main ones.
    first = parts(spec, "initContainers")
    beside = sum(_asked(one) for one in first if one.get("restartPolicy") == "Always")
    return max([main + beside, *(_asked(one) for one in first)])


def _asked(container: Mapping[str, Any]) -> int:
    limits = part(part(container, "resources"), "limits")
    return sum(_whole(value) for name, value in limits.items() if str(name).startswith(_GPU_RESOURCES))


def _whole(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0
