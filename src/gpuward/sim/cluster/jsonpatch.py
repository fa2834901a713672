"""JSON patches (RFC 6902) as the API server applies them. What an object may become is not here.

The server is laxer than the RFC, and so is this (json-patch.v4 4.12, tried on 1.36): `replace` of a key that is not
there adds it, `test` takes a key that is not there for null, `copy` of one gives null, and -1 is the last index.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuward.sim.cluster.frozen import FrozenDict, FrozenList, thaw

_INDEX = re.compile(r"[-+]?[0-9]{1,18}")
_ROOT = ""


class PatchFailed(Exception):
    """An operation does not apply: the document is not as it supposes. Nothing was done."""


def apply(document: FrozenDict, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return the document after all operations: a draft, frozen only where nothing changed.

    Neither the document nor the operations are changed. Raises PatchFailed.
    """
    box: dict[str, Any] = {_ROOT: document}
    for place, operation in enumerate(operations):
        act = _ACTS.get(operation.get("op", ""))
        if act is None:
            raise PatchFailed(f"operation {place} is none that is known: {operation.get('op')!r}")
        try:
            act(box, operation)
        except PatchFailed as failed:
            raise PatchFailed(f"operation {place} ({operation['op']} {operation.get('path')!r}): {failed}") from None
    return box[_ROOT]


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON; unlike in Python, 1 is neither true nor 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return _kind(one) is _kind(other) and bool(one == other)


def _kind(value: Any) -> type:
    return next((kind for kind in (bool, int, float, str, dict, list) if isinstance(value, kind)), type(None))


def _add(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    _put(box, _tokens(operation, "path"), thaw(operation.get("value")))


def _put(box: dict[str, Any], tokens: list[str], value: Any) -> None:
    parent, last = _opened(box, tokens)
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        parent.insert(_index(last, len(parent) + 1), value)


def _remove(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    _take(box, _tokens(operation, "path"))


def _take(box: dict[str, Any], tokens: list[str]) -> Any:
    parent, last = _opened(box, tokens)
    if isinstance(parent, list):
        return parent.pop(_index(last, len(parent)))
    if last not in parent:
        raise PatchFailed(f"there is no {last!r}")
    return parent.pop(last)


def _replace(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    value = thaw(operation.get("value"))
    if operation.get("path") == "":
        if not isinstance(value, dict | list):
            raise PatchFailed("the whole can be replaced only by an object or a list")
        box[_ROOT] = value
        return
    parent, last = _opened(box, _tokens(operation, "path"))
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent[_index(last, len(parent))] = value


def _move(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    source, target = _tokens(operation, "from"), _tokens(operation, "path")
    _put(box, target, _take(box, source))


def _copy(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    source, target = _tokens(operation, "from"), _tokens(operation, "path")
    _put(box, target, thaw(_found(box, source)))


def _test(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    found = box[_ROOT] if operation.get("path") == "" else _found(box, _tokens(operation, "path"))
    if not same(found, operation.get("value")):
        raise PatchFailed(f"it is {_short(found)} and not {_short(operation.get('value'))}")


_ACTS: Mapping[str, Callable[[dict[str, Any], Mapping[str, Any]], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _tokens(operation: Mapping[str, Any], field: str) -> list[str]:
    """Return the keys on the way, the first that of the root; the whole document itself has none to act on."""
    pointer = operation.get(field)
    if not isinstance(pointer, str) or "/" not in pointer:
        raise PatchFailed(f"`{field}` names nothing inside the document: {pointer!r}")
    return [_ROOT, *(_unescaped(token) for token in pointer.split("/")[1:])]


def _unescaped(token: str) -> str:
    return re.sub("~[01]", lambda found: "~" if found[0] == "~0" else "/", token) if "~" in token else token


def _opened(box: dict[str, Any], tokens: list[str]) -> tuple[dict[str, Any] | list[Any], str]:
    """Return what holds the last token, fit to be changed, and that token; what is frozen on the way is copied."""
    here: dict[str, Any] | list[Any] = box
    for token in tokens[:-1]:
        key: Any = _index(token, len(here)) if isinstance(here, list) else token
        if isinstance(here, dict) and token not in here:
            raise PatchFailed(f"there is no {token!r} on the way")
        child = here[key]
        if type(child) is FrozenDict:
            child = here[key] = dict(child)
        elif type(child) is FrozenList:
            child = here[key] = list(child)
        elif not isinstance(child, dict | list):
            raise PatchFailed(f"{token!r} on the way is neither an object nor a list")
        here = child
    return here, tokens[-1]


def _found(box: dict[str, Any], tokens: list[str]) -> Any:
    """Return what is there, None for a key that is not; the way to it must be there."""
    here: Any = box
    for token in tokens[:-1]:
        here = _child(here, token)
        if not isinstance(here, dict | list):
            raise PatchFailed(f"{token!r} on the way is neither an object nor a list")
    return _child(here, tokens[-1])


def _child(here: Any, token: str) -> Any:
    return here.get(token) if isinstance(here, dict) else here[_index(token, len(here))]


def _index(token: str, size: int) -> int:
    if _INDEX.fullmatch(token) is None:
        raise PatchFailed(f"{token!r} is no index of a list")
    index = int(token)
    if not -size <= index < size:
        raise PatchFailed(f"the list has no place {token}")
    return index + size if index < 0 else index


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  the length itself
