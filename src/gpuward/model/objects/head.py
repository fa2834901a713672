"""What all objects of ours have in common: a name, and what the API server knows them by. Their content is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.objects.values import ObjectError, write
from gpuward.model.resource import Resource


@dataclass(frozen=True, slots=True)
class Head:
    """The name of an object; `uid` and `version` are the API server's, empty before it was created."""

    name: str
    uid: str = ""
    version: str = ""


def read_head(found: Mapping[str, Any], resource: Resource) -> Head:
    """Return the head of an object. Raises ObjectError when it is of another kind, or no object at all.

    An item of a list carries no kind, and is taken.
    """
    kind = found.get("kind", resource.kind)
    if kind != resource.kind:
        raise ObjectError(f"kind must be {resource.kind}, but is {ascii(kind)[:80]}")
    metadata = found.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise ObjectError("metadata.name is missing")
    return Head(name, str(metadata.get("uid", "")), str(metadata.get("resourceVersion", "")))


def write_object(head: Head, resource: Resource, *, spec: Any, status: Any = None) -> dict[str, Any]:
    """Return an object of a kind as it is created or replaced; the API server drops the status of one it creates.

    Raises ObjectError when a name or number in it does not fit its limit.
    """
    metadata = {"name": head.name} | ({"resourceVersion": head.version} if head.version else {})
    written: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    for name, part in (("spec", spec), ("status", status)):
        if part is not None:
            written[name] = write(part)
    return written
