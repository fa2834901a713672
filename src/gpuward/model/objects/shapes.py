"""From a dataclass to the shape that its object has in a cluster: reading, writing and the schema all go by it."""

import types
import typing
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from gpuward.model.objects.limits import REUSED, SENTENCE, Items, Json, Name, OneOf, Text, Time, Whole

_ANY_ITEMS = Items(64)
_UPPER = frozenset({"uuid", "uid", "id", "mib"})
"""Words that stand in capitals within a name, as Kubernetes spells them; `mib` is spelled MiB."""
_SPELLED = {"mib": "MiB"}
_RENAMED = {"fault_class": "class"}
"""The word of people and files where Python's own would clash."""


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Real:
    """A number."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list."""

    each: "Shape"
    items: Items


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a record. It is left out where it is None, or as it is without being told."""

    name: str
    spelled: str
    shape: "Shape"
    says: str
    required: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Fields:
    """A record, read to and written from a dataclass."""

    of: type
    says: str
    members: tuple[Member, ...]


Shape = Text | Name | Whole | Real | Flag | Time | Json | OneOf | Listed | Fields


@lru_cache(maxsize=256)
def shape_of(record: type) -> Fields:
    """Return the shape of a dataclass. Raises TypeError for a field of a type that objects cannot have."""
    hints = get_type_hints(record, include_extras=True)
    rows = REUSED.get(record, {})
    members = []
    for field in fields(record):
        try:
            members.append(_member(field, hints[field.name], rows.get(field.name)))
        except TypeError as error:
            raise TypeError(f"{record.__name__}.{field.name}: {error}") from error
    return Fields(of=record, says=_sentence(record), members=tuple(members))


def spelled(name: str) -> str:
    """Return the name of a field as objects spell it: `node_name` is nodeName, `gpu_uuid` gpuUUID."""
    first, *others = _RENAMED.get(name, name).split("_")
    return first + "".join(_SPELLED.get(word, word.upper()) if word in _UPPER else word.capitalize() for word in others)


def _member(field: Field[Any], hint: Any, row: Any) -> Member:
    kind, limit, says = _unwrapped(hint)
    kind, may_be_none = _without_none(kind)
    default = field.default if field.default is not MISSING else None
    if field.default_factory is not MISSING:
        default = field.default_factory()
    told = field.default is not MISSING or field.default_factory is not MISSING
    return Member(
        name=field.name,
        spelled=spelled(field.name),
        shape=_shape(kind, row or limit),
        says=says,
        required=not told and not may_be_none,
        default=default,
    )


def _unwrapped(hint: Any) -> tuple[Any, Any, str]:
    """Return a type, its limit and its description."""
    if get_origin(hint) is not Annotated:
        return hint, None, ""
    kind, *more = get_args(hint)
    says = next((one for one in more if isinstance(one, str)), "")
    return kind, next((one for one in more if not isinstance(one, str)), None), says


def _without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was among it."""
    if get_origin(kind) not in {types.UnionType, typing.Union}:
        return kind, False
    others = [one for one in get_args(kind) if one is not type(None)]
    if len(others) != 1:
        raise TypeError(f"an object's field is of one type, not of {kind}")
    return others[0], len(others) < len(get_args(kind))


def _shape(kind: Any, limit: Any) -> Shape:
    if get_origin(kind) is tuple:
        return _listed(kind, limit or _ANY_ITEMS)
    if isinstance(limit, (Text, Name, Whole, Time, Json, OneOf)):
        return limit
    if isinstance(kind, type) and issubclass(kind, Enum):
        return OneOf(tuple(kind))
    if is_dataclass(kind) and isinstance(kind, type):
        return shape_of(kind)
    plain: dict[Any, Shape] = {str: SENTENCE, int: Whole(), float: Real(), bool: Flag()}
    if kind not in plain:
        raise TypeError(f"an object cannot hold a {kind}")
    return plain[kind]


def _listed(kind: Any, items: Items) -> Listed:
    each, ellipsis = get_args(kind)
    if ellipsis is not Ellipsis:
        raise TypeError(f"an object's list is of one type, not {kind}")
    each, limit, _ = _unwrapped(each)
    return Listed(_shape(each, items.each or limit), items)


def _sentence(record: type) -> str:
    """Return what a class says of itself, in one line."""
    return " ".join((record.__doc__ or "").split())
