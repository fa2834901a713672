"""A small structural validator of OpenAPI schemas, as the API server runs one over objects of a CRD.

Of CEL only `self == oldSelf` is understood. As on a real server that forbids to change a value, not to take it away and
put another: for that the field must also be required.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

Schema = Mapping[str, Any]
IMMUTABLE = "self == oldSelf"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def pruned(value: Any, schema: Schema) -> Any:
    """Return a value without the fields that its schema does not know, with defaults, and whole numbers as such.

    A null that may not be is taken for a field that was not given.
    """
    if isinstance(value, dict) and (schema.get("properties") or not schema.get(_PRESERVE)):
        return _pruned_object(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [pruned(item, schema["items"]) for item in value]
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _pruned_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    more = schema.get("additionalProperties")
    kept: dict[str, Any] = {}
    for key, child in value.items():
        below = known.get(key, more)
        if isinstance(below, dict):
            if child is not None or below.get("nullable"):
                kept[key] = pruned(child, below)
        elif below is True or schema.get(_PRESERVE):
            kept[key] = child
    for key, below in known.items():
        if key not in kept and "default" in below:
            kept[key] = pruned(below["default"], below)
    return kept


def complaints(value: Any, schema: Schema, *, old: Any = None, path: str = "") -> Iterator[str]:
    """Yield what is wrong with a value, each with its path; `old` is what was there before, None when nothing was."""
    if value is None and schema.get("nullable"):
        return
    if not _is_of(value, schema):
        yield f"{path}: Invalid value: must be of type {schema.get('type', 'integer or string')}"
        return
    if old is not None and value != old and _is_immutable(schema):
        yield f"{path}: Invalid value: {_rule_message(schema)}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: Unsupported value: {value!r}: supported values: {', '.join(map(repr, schema['enum']))}"
    if isinstance(value, dict):
        yield from _of_object(value, schema, old=old, path=path)
    elif isinstance(value, list):
        yield from _of_array(value, schema, old=old, path=path)
    elif isinstance(value, str):
        yield from _of_string(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(value, schema, path)


def _is_of(value: Any, schema: Schema) -> bool:
    if schema.get(_INT_OR_STRING):
        return isinstance(value, int | str) and not isinstance(value, bool)
    kinds = _TYPES.get(schema.get("type", ""))
    return kinds is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)))


def _is_immutable(schema: Schema) -> bool:
    return any(rule.get("rule") == IMMUTABLE for rule in schema.get("x-kubernetes-validations", ()))


def _rule_message(schema: Schema) -> str:
    rule = next(rule for rule in schema["x-kubernetes-validations"] if rule.get("rule") == IMMUTABLE)
    return str(rule.get("message", f"failed rule: {IMMUTABLE}"))


def _of_object(value: dict[str, Any], schema: Schema, *, old: Any, path: str) -> Iterator[str]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    more = schema.get("additionalProperties")
    was = old if isinstance(old, dict) else {}
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{path}.{key}: Required value"
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield f"{path}: Invalid value: must have between minProperties and maxProperties fields"
    for key, child in value.items():
        below = known.get(key, more)
        if isinstance(below, dict):
            yield from complaints(child, below, old=was.get(key), path=f"{path}.{key}")


def _of_array(value: list[Any], schema: Schema, *, old: Any, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path}: Too many: {len(value)}: must have at most {schema['maxItems']} items"
    if len(value) < schema.get("minItems", 0):
        yield f"{path}: Invalid value: must have at least {schema['minItems']} items"
    name, was = _names(schema), {}
    if name is not None and isinstance(old, list):
        was = {name(item): item for item in old}
    seen = set()
    for place, item in enumerate(value):
        key = name(item) if name is not None else None
        if key is not None and key in seen:
            yield f"{path}[{place}]: Duplicate value: {key}"
        seen.add(key)
        below = schema.get("items")
        if isinstance(below, dict):
            yield from complaints(item, below, old=was.get(key), path=f"{path}[{place}]")


def _names(schema: Schema) -> Any:
    """Return what tells the items of a list apart, None when they may repeat."""
    match schema.get("x-kubernetes-list-type"):
        case "map":
            keys = schema["x-kubernetes-list-map-keys"]
            return lambda item: repr([item.get(key) for key in keys]) if isinstance(item, dict) else repr(item)
        case "set":
            return repr
        case _:
            return None


def _of_string(value: str, schema: Schema, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: Too long: may not be more than {schema['maxLength']} characters"
    if len(value) < schema.get("minLength", 0):
        yield f"{path}: Invalid value: {value!r}: should be at least {schema['minLength']} chars long"
    pattern = schema.get("pattern")
    if pattern is not None and _compiled(pattern).search(value) is None:
        yield f"{path}: Invalid value: {value!r}: should match '{pattern}'"


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern whose `$` is the end, as Go has it, and not before a last newline."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _of_number(value: float, schema: Schema, path: str) -> Iterator[str]:
    if value > schema.get("maximum", value):
        yield f"{path}: Invalid value: {value}: should be less than or equal to {schema['maximum']}"
    if value < schema.get("minimum", value):
        yield f"{path}: Invalid value: {value}: should be greater than or equal to {schema['minimum']}"
