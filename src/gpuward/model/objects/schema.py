"""From a shape to the OpenAPI v3 schema by which an API server checks an object. The one place where schemas are made.

Structural schemas as apiextensions.k8s.io/v1 wants them: a type everywhere, limits on every text and list.
"""

from typing import Any

from gpuward.model.objects.limits import Items, Json, Name, OneOf, Text, Time, Whole
from gpuward.model.objects.shapes import Fields, Listed, Member, Real, Shape

_LONGEST_TIME = 64


def schema_of(shape: Shape) -> dict[str, Any]:
    """Return the schema of a shape."""
    schema: dict[str, Any] = {"type": "boolean"}
    match shape:
        case Fields():
            schema = _fields(shape)
        case Listed(each, items):
            schema = {"type": "array", "maxItems": items.most, "items": schema_of(each), **_told_apart(items)}
        case Text(most) | Json(most):
            schema = {"type": "string", "maxLength": most}
        case Name(most, pattern, least):
            schema = {"type": "string", "minLength": least, "maxLength": most} | (
                {"pattern": pattern} if pattern else {}
            )
        case Whole(least, most):
            schema = {"type": "integer", "format": "int64", "minimum": least, "maximum": most}
        case Real():
            schema = {"type": "number"}
        case Time():
            schema = {"type": "string", "format": "date-time", "maxLength": _LONGEST_TIME}
        case OneOf(members):
            schema = {"type": "string", "enum": [str(member) for member in members]}
    return schema


def immutable_rules(shape: Fields, *, but: frozenset[str] = frozenset()) -> list[dict[str, str]]:
    """Return the CEL rules by which the fields of a record stay as they were at its creation, `but` some."""
    kept = [member for member in shape.members if member.spelled not in but]
    return [{"rule": _unchanged(one), "message": f"{one.spelled} stays as it was written"} for one in kept]


def _unchanged(member: Member) -> str:
    """Return that a field is as it was. API server 1.36 refuses `self.?x == oldSelf.?x`: its cost has no bound."""
    name = member.spelled
    same = f"self.{name} == oldSelf.{name}"
    return same if member.required else f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"


def _told_apart(items: Items) -> dict[str, Any]:
    """Return how two writers of a list come together: item by item where these have a key, else the list is one."""
    if not items.key:
        return {"x-kubernetes-list-type": "atomic"}
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [items.key]}


def _fields(shape: Fields) -> dict[str, Any]:
    required = [member.spelled for member in shape.members if member.required]
    return {
        "type": "object",
        "description": shape.says,
        "properties": {member.spelled: _member(member) for member in shape.members},
    } | ({"required": required} if required else {})


def _member(member: Member) -> dict[str, Any]:
    schema = schema_of(member.shape)
    return {**schema, "description": member.says} if member.says else schema
