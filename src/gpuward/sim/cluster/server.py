"""The pretend API server: what is asked of it is done at once and answered as a real one answers. It awaits nothing.

The way to it, with its delays and losses, is in cluster.py; evictions are in eviction.py. Errors are those of the port.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuward.model.resource import NAMESPACES, PODS, Resource
from gpuward.ports import Listed, Object, Project
from gpuward.sim.cluster import admission, answers, jsonpatch, pods
from gpuward.sim.cluster.frozen import FrozenDict
from gpuward.sim.cluster.kinds import kind_of
from gpuward.sim.cluster.renewal import STATUS, is_over, newborn, renewed
from gpuward.sim.cluster.schema import Schema
from gpuward.sim.cluster.selection import select
from gpuward.sim.cluster.shelf import Watcher, key_of
from gpuward.sim.cluster.state import State, stamp_before

NAMES = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that every cluster has."""
_IMMORTAL = frozenset(NAMES[:3])
MOST_CHANGES = 10_000
"""How many changes of a kind are kept for watches, unless told otherwise."""
_NOT_TAKEN = frozenset({"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"})
"""Metadata that a CREATE brings in vain."""
_NO_SEGMENTS = frozenset({".", ".."})
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


class Server:
    """Holds the objects of a cluster. The same calls at the same times give the same state, byte for byte."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        seed: int = 0,
        schemas: Mapping[str, Schema] | None = None,
        most_changes: int = MOST_CHANGES,
    ) -> None:
        self.state = State(seed=seed, now=now, most_changes=most_changes)
        self.schemas = dict(schemas or {})
        """The OpenAPI schemas of custom kinds by their plural; without one anything goes."""
        for name in NAMES:
            self.create(NAMESPACES, {"metadata": {"name": name}})

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        time: float | None = None,
    ) -> Listed:
        """Return what is there, or was at a `time` in the past so far as that is known."""
        selection = select(resource, _space(resource, namespace), labels, fields)
        shelf = self.state.shelf(resource)
        if time is None:
            return Listed(tuple(map(project, shelf.selected(selection))), str(self.state.version))
        found, version = shelf.at(time, selection)
        return Listed(tuple(map(project, found)), str(self.state.version if version is None else version))

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        """Return an object, None when there is none."""
        found = self.state.shelf(resource).objects.get(place(resource, namespace, name))
        return None if found is None else shown(resource, found)

    def watch(
        self,
        resource: Resource,
        *,
        since: str,
        ring: Callable[[], None],
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Watcher:
        """Begin to tell what happens after a version; 0 or none begins with all that is there. End it by `leave`."""
        selection = select(resource, _space(resource, namespace), labels, fields)
        if since and not (since.isascii() and since.isdigit()):
            raise answers.broken(resource, f"resourceVersion: Invalid value: {since!r}")
        shelf, version = self.state.shelf(resource), int(since or 0)
        if 0 < version < shelf.floor:
            raise answers.too_old(resource, since)
        watcher = Watcher(selection, version or self.state.version, ring)
        if not version:
            watcher.begin_with(shelf.selected(selection))
        shelf.follow(watcher)
        return watcher

    def leave(self, resource: Resource, watcher: Watcher) -> None:
        """End a watch; once more is as good."""
        self.state.shelf(resource).leave(watcher)

    def create(self, resource: Resource, body: Object, *, namespace: str | None = None) -> Object:
        """Create an object."""
        draft, name = self._draft(resource, body, _space(resource, namespace))
        new = newborn(resource, draft, self.schemas.get(resource.plural))
        key = place(resource, namespace, name)
        if key in self.state.shelf(resource).objects:
            raise answers.exists(resource, name)
        return shown(resource, self.state.put(resource, key, new))

    def patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Object:
        """Change an object by a JSON patch, or its status."""
        if subresource and not (subresource == STATUS and kind_of(resource).has_status):
            raise answers.not_served(resource, subresource)
        _check_operations(resource, operations)
        key, old = self.there(resource, namespace, name)
        try:
            draft = jsonpatch.apply(shown(resource, old), operations)
        except jsonpatch.PatchFailed as error:
            raise answers.does_not_apply(resource, name, error) from error
        schema = self.schemas.get(resource.plural)
        new = renewed(resource, old, draft, subresource=subresource, schema=schema)
        return shown(resource, self.keep(resource, key, new))

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object, or let it end; False when there is none, or none of this uid."""
        key = place(resource, namespace, name)
        old = self.state.shelf(resource).objects.get(key)
        if old is None or uid not in (None, old["metadata"]["uid"]):
            return False
        if resource == NAMESPACES:
            self._end_namespace(key, old)
        elif resource == PODS and "deletionTimestamp" in old["metadata"]:
            self._shorten(key, old, grace_seconds)
        elif "deletionTimestamp" not in old["metadata"]:
            grace = pods.grace_seconds(old, grace_seconds) if resource == PODS else 0
            self._end(resource, key, old, grace=grace)
        return True

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Put a pod on a node, as a scheduler does. Raises Conflict when it is on one, or gone."""
        key, old = self.there(PODS, namespace, pod)
        if old["spec"].get("nodeName"):
            raise answers.modified(PODS, pod)
        spec = FrozenDict({**old["spec"], "nodeName": node})
        self.state.put(PODS, key, FrozenDict({**old, "spec": spec}))

    def keep(self, resource: Resource, key: str, new: FrozenDict) -> FrozenDict:
        """Keep an object in its new form; what is over by that is no more."""
        if new is self.state.shelf(resource).objects[key]:
            return new
        if is_over(new):
            self.state.drop(resource, key)
            return new
        return self.state.put(resource, key, new)

    def compact(self) -> None:
        """Forget all that happened: a watch from before must list again."""
        self.state.compact()

    def _draft(self, resource: Resource, body: Object, namespace: str | None) -> tuple[dict[str, Any], str]:
        """Return a new object with the metadata that it starts with, and its name."""
        asked = body.get("metadata") or {}
        _check_new(resource, body, asked, namespace)
        name = str(asked.get("name") or "")
        if not name and asked.get("generateName"):
            name = f"{asked['generateName']}{self.state.new_suffix()}"
        if namespace is not None:
            self._check_namespace(resource, name, namespace)
        if (complaint := admission.name_complaint(resource, name)) is not None:
            raise answers.invalid(resource, name, complaint)
        metadata = {
            **{key: value for key, value in asked.items() if key not in _NOT_TAKEN and value not in (None, {}, [], "")},
            "name": name,
            **({} if namespace is None else {"namespace": namespace}),
            "uid": self.state.new_uid(),
            "creationTimestamp": self.state.stamp(),
        }
        draft = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        if not kind_of(resource).native:
            draft = {"apiVersion": resource.api_version, "kind": resource.kind, **draft}
        return {**draft, "metadata": metadata}, name

    def _check_namespace(self, resource: Resource, name: str, namespace: str) -> None:
        found = self.state.shelf(NAMESPACES).objects.get(namespace)
        if found is None:
            raise answers.not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in found["metadata"]:
            raise answers.forbidden(resource, name, f"namespace {namespace} is being terminated")

    def there(self, resource: Resource, namespace: str | None, name: str) -> tuple[str, FrozenDict]:
        """Return where an object is kept, and the object. Raises Conflict when there is none."""
        key = place(resource, namespace, name)
        found = self.state.shelf(resource).objects.get(key)
        if found is None:
            raise answers.not_found(resource, name)
        return key, found

    def _end(self, resource: Resource, key: str, old: FrozenDict, *, grace: int) -> None:
        """Begin the end of an object: at once when nothing holds it, else marked until that is gone."""
        if not grace and not old["metadata"].get("finalizers"):
            self.state.drop(resource, key)
            return
        marks: dict[str, Any] = {
            "deletionTimestamp": self.state.stamp(grace),
            "deletionGracePeriodSeconds": grace,
        }
        if "generation" in old["metadata"]:
            marks["generation"] = old["metadata"]["generation"] + 1
        self.state.put(resource, key, _marked(old, marks))

    def _shorten(self, key: str, old: FrozenDict, asked: int | None) -> None:
        """Let a pod that is ending end sooner; never later."""
        current = old["metadata"]["deletionGracePeriodSeconds"]
        grace = current if asked is None else (1 if asked < 0 else asked)
        if grace >= current:
            return
        marks = {
            "deletionTimestamp": stamp_before(old["metadata"]["deletionTimestamp"], current - grace),
            "deletionGracePeriodSeconds": grace,
        }
        self.keep(PODS, key, _marked(old, marks))

    def _end_namespace(self, key: str, old: FrozenDict) -> None:
        if key in _IMMORTAL:
            raise answers.forbidden(NAMESPACES, key, "this namespace may not be deleted")
        if "deletionTimestamp" not in old["metadata"]:
            status = FrozenDict({**old["status"], "phase": "Terminating"})
            ending = FrozenDict({**old, "status": status})
            self.keep(NAMESPACES, key, _marked(ending, {"deletionTimestamp": self.state.stamp()}))


def shown(resource: Resource, obj: FrozenDict) -> FrozenDict:
    """Return an object as it is answered: one of a native kind is kept, and listed, without saying what it is."""
    if not kind_of(resource).native:
        return obj
    return FrozenDict({"kind": resource.kind, "apiVersion": resource.api_version, **obj})


def place(resource: Resource, namespace: str | None, name: str) -> str:
    """Return where an object is kept. Raises Refused without a name, or a namespace where one is needed."""
    if not name or (resource.namespaced and not namespace):
        raise answers.bad(resource, f"a {resource.kind} is asked for by its name and namespace; name them")
    if name in _NO_SEGMENTS or "/" in name or "%" in name or not name.isprintable():
        raise answers.bad(resource, f"{name!r} is no name that an object can have")
    return key_of(_space(resource, namespace), name)


def _space(resource: Resource, namespace: str | None) -> str | None:
    """Return the namespace, none for a kind that is in none."""
    return (namespace or None) if resource.namespaced else None


def _check_new(resource: Resource, body: Object, metadata: Mapping[str, Any], namespace: str | None) -> None:
    if resource.namespaced and namespace is None:
        raise answers.bad(resource, f"a {resource.kind} is in a namespace; name that")
    if metadata.get("resourceVersion"):
        raise answers.broken(resource, "resourceVersion should not be set on objects to be created")
    if metadata.get("namespace") not in (None, "", namespace):
        raise answers.bad(resource, "the namespace of the object does not match the namespace on the request")
    if body.get("kind", resource.kind) != resource.kind or (
        body.get("apiVersion", resource.api_version) != resource.api_version
    ):
        raise answers.bad(resource, f"the object is a {body.get('kind')} of {body.get('apiVersion')}")


def _check_operations(resource: Resource, operations: Sequence[Mapping[str, Any]]) -> None:
    for one in operations:
        path = one.get("path")
        if one.get("op") not in _OPERATIONS or not isinstance(path, str) or not (not path or path.startswith("/")):
            raise answers.bad(resource, f"{one.get('op')!r} {path!r} is no operation of a JSON patch")


def _marked(obj: FrozenDict, marks: Mapping[str, Any]) -> FrozenDict:
    return FrozenDict({**obj, "metadata": FrozenDict({**obj["metadata"], **marks})})
