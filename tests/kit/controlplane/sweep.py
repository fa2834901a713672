"""Takes away what a test left on an API server, whatever kind it is of. Changes to what was there before stay."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.kit.controlplane.rest import MERGE_PATCH, Api, Reply

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_PROJECTED = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_AT_ONCE = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_PATIENCE_SECONDS = 60.0
_TICK_SECONDS = 0.05
_THREADS = 4
_PAGE = 500

_OWN = frozenset(
    {
        ("apiservices", ""),  # the server makes one for each group of a definition, and takes it away with that
        ("configmaps", "kube-root-ca.crt"),  # the controllers put one, and the next, into every namespace
        ("serviceaccounts", "default"),
        ("leases", "kube-scheduler"),
        ("leases", "kube-controller-manager"),
        ("services", "kubernetes"),
        ("servicecidrs", "kubernetes"),
        ("ipaddresses", "10.0.0.1"),
    }
)
"""What the cluster makes by itself, at any time: a resource, and a name or any."""
_ORDER = {"validatingadmissionpolicybindings": 0, "validatingwebhookconfigurations": 0, "namespaces": 2}
"""First what may forbid a deletion, last what holds other things; the rest between."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource that can be listed and deleted: `base` is the path of its group and version."""

    base: str
    resource: str
    namespaced: bool

    def path(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.base}{where}/{self.resource}/{name}"


@dataclass(frozen=True, slots=True)
class Found:
    """An object that is there."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    finalizers: bool

    @property
    def path(self) -> str:
        """Return where it is."""
        return self.kind.path(self.namespace, self.name)


def seen(api: Api) -> frozenset[str]:
    """Return the uids of all objects that are there."""
    return frozenset(one.uid for one in _all(api, _kinds(api)))


def sweep(api: Api, before: frozenset[str]) -> None:
    """Delete every object that is not among `before`, finalizers and all; fail with the names of what does not go."""
    end = time.monotonic() + _PATIENCE_SECONDS
    kinds = _kinds(api)
    while left := [one for one in _all(api, kinds) if one.uid not in before and not _is_own(one)]:
        assert time.monotonic() < end, f"still there after the test: {', '.join(one.path for one in left[:10])}"
        for rank in range(3):
            with ThreadPoolExecutor(_THREADS) as threads:
                list(threads.map(lambda one: _delete(api, one), [one for one in left if _rank(one) == rank]))
        kinds = {one.kind for one in left} | set(_defined(api))
        time.sleep(_TICK_SECONDS)


def _rank(one: Found) -> int:
    return _ORDER.get(one.kind.resource, 1)


def _is_own(one: Found) -> bool:
    return not _OWN.isdisjoint({(one.kind.resource, one.name), (one.kind.resource, "")})


def _kinds(api: Api) -> set[Kind]:
    """Return all resources that can be listed and deleted, each in the version that its group prefers."""
    return {*_kinds_under(api, "/api"), *_kinds_under(api, "/apis"), *_defined(api)}


def _defined(api: Api) -> Iterator[Kind]:
    """Return the resources of all definitions; those of a fresh one are served before discovery tells of them."""
    for one in api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").ok()["items"]:
        spec = one["spec"]
        version = next(version["name"] for version in spec["versions"] if version["served"])
        base = f"/apis/{spec['group']}/{version}"
        yield Kind(base, spec["names"]["plural"], namespaced=spec["scope"] == "Namespaced")


def _kinds_under(api: Api, root: str) -> Iterator[Kind]:
    for group in api.request("GET", root, accept=_DISCOVERY).ok()["items"]:
        version = group["versions"][0]
        base = "/".join(filter(None, (root, group["metadata"].get("name"), version["version"])))
        for one in version.get("resources", []):
            if {"list", "delete"} <= set(one["verbs"]):
                yield Kind(base, one["resource"], namespaced=one["scope"] == "Namespaced")


def _all(api: Api, kinds: Iterable[Kind]) -> list[Found]:
    with ThreadPoolExecutor(_THREADS) as threads:
        return [one for found in threads.map(lambda kind: list(_objects(api, kind)), kinds) for one in found]


def _objects(api: Api, kind: Kind) -> Iterator[Found]:
    token = ""
    while True:
        path = f"{kind.base}/{kind.resource}?limit={_PAGE}" + (f"&continue={token}" if token else "")
        reply = api.request("GET", path, accept=_PROJECTED)
        if reply.code == 404:
            return  # its definition went away
        page = reply.ok()
        yield from (_found(kind, one["metadata"]) for one in page["items"] or [])  # an empty list may be null
        token = page["metadata"].get("continue", "")
        if not token:
            return


def _found(kind: Kind, metadata: dict[str, Any]) -> Found:
    return Found(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        finalizers=bool(metadata.get("finalizers")),
    )


def _delete(api: Api, one: Found) -> Reply:
    """Delete an object by its uid, or do what it waits for; what fails is tried again."""
    ask = {**_AT_ONCE, "preconditions": {"uid": one.uid}}
    reply = api.delete(one.path, options=ask)
    if one.kind.resource == "namespaces":
        # Its content was deleted before; no controller may run that would say so.
        return api.put(f"{one.path}/finalize", {"metadata": {"name": one.name}, "spec": {"finalizers": []}})
    if one.finalizers and one.kind.resource != "customresourcedefinitions":  # the server's own, it is quick
        return api.patch(one.path, {"metadata": {"finalizers": None, "uid": one.uid}}, content=MERGE_PATCH)
    return reply
