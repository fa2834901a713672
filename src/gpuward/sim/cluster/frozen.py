"""JSON that cannot be changed: what the pretend API server keeps and hands out. What the values mean is not here.

An object that is handed out is the very one that is kept, so that a list of 10,000 nodes copies nothing, and a change
shares all that it leaves alone. Whoever tries to write into one is told so at once; `dict` of it, `copy` and `deepcopy`
give ordinary dicts to write into.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

EMPTY_IF_UNSET = frozenset({"value", "nodeName", "phase", "reason", "generateName", "schedulerName", "timeAdded"})
FALSE_IF_UNSET = frozenset({"unschedulable", "hostNetwork", "hostPID", "hostIPC"})
MAPS = frozenset(
    {"labels", "annotations", "nodeSelector", "matchLabels", "capacity", "allocatable", "limits", "requests"}
    | {"disruptedPods", "data"}
)
"""Fields whose keys are the user's own, so that an empty value in one says something."""


def _no(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"this {type(self).__name__} belongs to the cluster: change a copy of it, and patch the object")


class FrozenDict(dict[str, Any]):
    """A dict that nobody changes; equal to an ordinary one, and written as JSON like one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _no

    def copy(self) -> dict[str, Any]:
        """Return an ordinary dict; what is in it stays frozen."""
        return dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return {key: thaw(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that nobody changes; equal to an ordinary one, and written as JSON like one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _no
    append = clear = extend = insert = pop = remove = reverse = sort = _no

    def copy(self) -> list[Any]:
        """Return an ordinary list; what is in it stays frozen."""
        return list(self)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [thaw(value) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


NOTHING = FrozenDict()


def freeze(value: Any) -> Any:
    """Return JSON frozen; what is frozen already is taken as it stands. Raises TypeError for what is no JSON."""
    kind = type(value)
    if kind is str or kind is int or kind is FrozenDict or kind is FrozenList or value is None or kind is bool:
        return value
    if isinstance(value, (dict, Mapping)):
        return FrozenDict({_key(key): freeze(child) for key, child in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([freeze(child) for child in value])
    return _scalar(value)


def freeze_native(value: Mapping[str, Any]) -> FrozenDict:
    """Return an object of a kind that the server itself knows, as it writes one: unset and empty fields are left out.

    So `taints` is no more when the last one is taken away, and a patch that adds to it fails (tried on 1.36).
    """
    kept: dict[str, Any] = {}
    for key, child in value.items():
        if child is None or (child == "" and key in EMPTY_IF_UNSET) or (child is False and key in FALSE_IF_UNSET):
            continue
        if type(child) is FrozenDict or type(child) is FrozenList:
            if child or key not in MAPS:
                kept[_key(key)] = child
        elif isinstance(child, (dict, Mapping)):
            if key not in MAPS:
                kept[_key(key)] = freeze_native(child)
            elif child:
                kept[_key(key)] = freeze(child)
        elif isinstance(child, list | tuple):
            if child:
                kept[_key(key)] = FrozenList([_native_item(item) for item in child])
        else:
            kept[_key(key)] = freeze(child)
    return FrozenDict(kept)


def thaw(value: Any) -> Any:
    """Return JSON as ordinary dicts and lists, all of it copied."""
    if type(value) is str:
        return value
    if isinstance(value, (dict, Mapping)):
        return {key: thaw(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(child) for child in value]
    return value


def _native_item(item: Any) -> Any:
    return freeze_native(item) if isinstance(item, (dict, Mapping)) and type(item) is not FrozenDict else freeze(item)


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    raise TypeError(f"{key!r} is no key of a JSON object")


def _scalar(value: Any) -> Any:
    for plain in (str, int, float):  # an enum of these is written as what it is
        if isinstance(value, plain):
            return plain.__str__(value) if plain is str else plain(value)
    raise TypeError(f"{value!r} is no JSON")
