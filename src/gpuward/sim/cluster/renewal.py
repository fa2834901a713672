"""What an object becomes when it is written: what is asked, less what is not the asker's; refused if wrong."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from gpuward.model.resource import PODS, Resource
from gpuward.sim.cluster import admission, answers, pods
from gpuward.sim.cluster.frozen import NOTHING, FrozenDict, freeze, freeze_native
from gpuward.sim.cluster.kinds import Kind, Status, kind_of
from gpuward.sim.cluster.schema import Schema, complaints, pruned

STATUS = "status"
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")
"""Metadata that only the server writes."""
_BY_STATUS = ("labels", "annotations", "finalizers")
"""Metadata that a status patch of a native kind may change."""
_OWN = frozenset({"apiVersion", "kind", "metadata"})


def newborn(resource: Resource, draft: dict[str, Any], schema: Schema | None) -> FrozenDict:
    """Return a new object as it is kept; `draft` has its metadata as a dict of its own. Raises Refused."""
    kind = kind_of(resource)
    _start_status(kind, draft)
    admission.fill_in(resource, draft)
    if kind.counted:
        draft["metadata"]["generation"] = 1
    new = _frozen(resource, draft, NOTHING, schema)
    _judge(resource, new, None, schema)
    return new


def renewed(
    resource: Resource, old: FrozenDict, draft: Any, *, subresource: str = "", schema: Schema | None = None
) -> FrozenDict:
    """Return an object as it is kept after a patch; the very `old` when that changes nothing.

    Raises Refused for what it may not be, Conflict where the draft has another version than the object.
    """
    if not isinstance(draft, dict) or not isinstance(draft.get("metadata"), dict):
        raise answers.bad(resource, "what the patch makes of it is no object any more")
    draft = dict(draft)  # where nothing was asked it is the very object
    _check_kind(resource, old, draft)
    metadata = _metadata(resource, old["metadata"], draft["metadata"])
    whole = _by_status(resource, old, draft, metadata) if subresource == STATUS else _by_main(resource, old, draft)
    if subresource != STATUS:
        whole["metadata"] = metadata
    new = _frozen(resource, whole, old, schema)
    if new == old:
        return old
    new = _counted(resource, old, new)
    _judge(resource, new, old, schema)
    return new


def is_over(obj: Mapping[str, Any]) -> bool:
    """Return whether an object that is being deleted has nothing left to wait for."""
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or _holds(obj)
    return metadata.get("deletionTimestamp") is not None and not waits


def _holds(obj: Mapping[str, Any]) -> bool:
    """Return whether the object is a namespace that may still have content: their finalizers are in the spec."""
    return bool(obj.get("spec", NOTHING).get("finalizers"))


def _start_status(kind: Kind, draft: dict[str, Any]) -> None:
    if kind.status is Status.DROPPED:
        draft.pop(STATUS, None)
        if kind.first_status:
            draft[STATUS] = dict(kind.first_status)


def _check_kind(resource: Resource, old: FrozenDict, draft: dict[str, Any]) -> None:
    """Check what the object says that it is, and take that away where it is not kept."""
    for field, is_so in (("kind", resource.kind), ("apiVersion", resource.api_version)):
        if draft.get(field) != is_so:
            raise answers.invalid(resource, old["metadata"]["name"], f"{field}: Invalid value: must be {is_so}")
        if kind_of(resource).native:
            del draft[field]


def _metadata(resource: Resource, old: FrozenDict, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata as they may become; the very `old` when nothing is asked of them."""
    if asked is old:
        return old
    for field in ("name", "namespace"):
        if asked.get(field) != old.get(field):
            raise answers.bad(resource, f"the {field} of the object does not match the one on the URL")
    if asked.get("resourceVersion") not in (None, "", old["resourceVersion"]):
        raise answers.modified(resource, old["name"])
    for field in ("uid", "deletionTimestamp"):
        if asked.get(field) not in (None, "", old.get(field)) and (field == "uid" or field not in old):
            raise answers.invalid(resource, old["name"], f"metadata.{field}: Invalid value: field is immutable")
    kept = {key: value for key, value in asked.items() if key not in _KEPT}
    return _tidy(kept) | {key: old[key] for key in _KEPT if key in old}


def _tidy(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata as every kind's are written: nothing empty, and no null in labels and annotations."""
    for field in ("labels", "annotations"):
        words = metadata.get(field)
        if isinstance(words, dict) and None in words.values():
            metadata[field] = {key: "" if value is None else value for key, value in words.items()}
    return {key: value for key, value in metadata.items() if value not in (None, "", {}, [])}


def _by_main(resource: Resource, old: FrozenDict, draft: dict[str, Any]) -> dict[str, Any]:
    if kind_of(resource).has_status:
        draft.pop(STATUS, None)
        if STATUS in old:
            draft[STATUS] = old[STATUS]
    if resource == PODS and draft.get("spec") is not old.get("spec") and isinstance(draft.get("spec"), dict):
        draft["spec"] = {**draft["spec"], "tolerations": pods.tolerated(draft["spec"])}
    return draft


def _by_status(resource: Resource, old: FrozenDict, draft: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    whole = dict(old)
    whole.pop(STATUS, None)
    if draft.get(STATUS) is not None:
        whole[STATUS] = draft[STATUS]
    if kind_of(resource).native and metadata is not old["metadata"]:
        kept = {key: value for key, value in old["metadata"].items() if key not in _BY_STATUS}
        whole["metadata"] = kept | {key: metadata[key] for key in _BY_STATUS if key in metadata}
    return whole


def _frozen(resource: Resource, draft: dict[str, Any], old: Mapping[str, Any], schema: Schema | None) -> FrozenDict:
    try:
        if kind_of(resource).native:
            return freeze_native(draft)
        if schema is not None:
            draft = _pruned(draft, old, schema)
        return cast("FrozenDict", freeze(draft))
    except (TypeError, AttributeError) as error:
        raise answers.bad(resource, error) from error


def _pruned(draft: dict[str, Any], old: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return the draft with only what its schema knows; what did not change was pruned before."""
    same = {key: value for key, value in draft.items() if key in _OWN or value is old.get(key)}
    rest = {key: value for key, value in draft.items() if key not in same}
    return {**same, **{key: value for key, value in pruned(rest, schema).items() if key not in same}}


def _counted(resource: Resource, old: FrozenDict, new: FrozenDict) -> FrozenDict:
    """Return the object with its generation counted up when more than metadata and status changed."""
    if not kind_of(resource).counted or all(
        new.get(key) == old.get(key) for key in new.keys() | old.keys() if key not in ("metadata", STATUS)
    ):
        return new
    metadata = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return FrozenDict({**new, "metadata": FrozenDict(metadata)})


def _judge(resource: Resource, new: FrozenDict, old: FrozenDict | None, schema: Schema | None) -> None:
    """Raise Refused with all that is wrong with an object, Conflict when it only has twice what may be there once."""
    try:
        found = list(_all_complaints(resource, new, old, schema))
    except (AttributeError, TypeError) as error:
        raise answers.bad(resource, f"a field has a value of another type: {error}") from error
    if not found:
        return
    if old is not None and all(admission.DUPLICATE in one for one in found):
        raise answers.duplicate(resource, new["metadata"]["name"], *found)
    raise answers.invalid(resource, new["metadata"]["name"], *found)


def _all_complaints(
    resource: Resource, new: FrozenDict, old: FrozenDict | None, schema: Schema | None
) -> Iterator[str]:
    was = NOTHING if old is None else old
    if new["metadata"] is not was.get("metadata"):
        yield from admission.metadata_complaints(new["metadata"], was.get("metadata", NOTHING))
    if kind_of(resource).native:
        yield from admission.complaints(resource, new, old)
    elif schema is not None:
        yield from _schema_complaints(schema, new, was)


def _schema_complaints(schema: Schema, new: FrozenDict, old: FrozenDict) -> Iterator[str]:
    for key in schema.get("required", ()):
        if key not in new:
            yield f"{key}: Required value"
    for key, below in schema.get("properties", {}).items():
        if key in new and key not in _OWN and new[key] is not old.get(key):
            yield from complaints(new[key], below, old=old.get(key), path=key)
