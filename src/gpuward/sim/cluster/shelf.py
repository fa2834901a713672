"""All objects of one kind, what happened to them, and who watches. What may happen is decided in server.py."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from gpuward.model.resource import PODS, Resource
from gpuward.ports import Happened
from gpuward.sim.cluster.frozen import NOTHING, FrozenDict
from gpuward.sim.cluster.selection import Selection

MOST_WAITING = 100_000
"""How many changes may wait for a watch that nobody reads, until it is ended as a real server ends a slow one."""


def key_of(namespace: str | None, name: str) -> str:
    """Return where an object is kept; sorted by these, objects are in the order of a real list."""
    return f"{namespace}/{name}" if namespace else name


@dataclass(frozen=True, slots=True)
class Change:
    """One change: at which version and time, and the object before and after it; `after` is None when it is gone.

    `last` is what a watch tells of it: for an object that is gone its last state, with the version of its end.
    """

    version: int
    time: float
    key: str
    before: FrozenDict | None
    after: FrozenDict | None
    last: FrozenDict


class Told(NamedTuple):
    """One thing that a watch is to be told, and when it happened."""

    happened: Happened
    obj: FrozenDict
    version: str
    time: float


class Watcher:
    """What waits to be told to one watch. `ring` is called when something comes."""

    __slots__ = ("closed", "ring", "selection", "since", "waiting")

    def __init__(self, selection: Selection, since: int, ring: Callable[[], None]) -> None:
        self.selection = selection
        self.since = since
        self.ring = ring
        self.waiting: deque[Told] = deque()
        self.closed = False

    def begin_with(self, objects: Iterable[FrozenDict]) -> None:
        """Tell first of what is there."""
        for obj in objects:
            self.waiting.append(Told(Happened.ADDED, obj, obj["metadata"]["resourceVersion"], -inf))

    def tell(self, change: Change) -> None:
        """Take a change, as far as it is one for this selection: what it no longer selects is told as deleted."""
        if self.closed or change.version <= self.since:
            return  # what comes after a gap must not be told
        was, now = self.selection.has(change.before), self.selection.has(change.after)
        if not (was or now):
            return
        if len(self.waiting) >= MOST_WAITING:
            self.closed = True
        else:
            happened = (Happened.MODIFIED if was else Happened.ADDED) if now else Happened.DELETED
            self.waiting.append(Told(happened, _told(change, now=now), str(change.version), change.time))
        self.ring()


def _told(change: Change, *, now: bool) -> FrozenDict:
    """Return the object that a watch is told: one that is no longer selected as it was before, at the new version."""
    if now or change.after is None or change.before is None:
        return change.last
    return with_version(change.before, change.version)


def with_version(obj: FrozenDict, version: int) -> FrozenDict:
    """Return an object at a version."""
    metadata = FrozenDict({**obj["metadata"], "resourceVersion": str(version)})
    return FrozenDict({**obj, "metadata": metadata})


class Shelf:
    """The objects of a kind by key, their recent changes, and the watchers."""

    def __init__(self, resource: Resource, most_changes: int) -> None:
        self.objects: dict[str, FrozenDict] = {}
        self.changes: deque[Change] = deque()
        self.floor = 0
        """Changes up to this version are forgotten."""
        self._resource = resource
        self._most_changes = most_changes
        self._order: list[str] = []
        self._on_node: dict[str, set[str]] = {}
        self._by_name: dict[str, dict[Watcher, None]] = {}
        self._others: dict[Watcher, None] = {}

    def take(self, change: Change) -> None:
        """Make a change so, keep it, and tell it to the watchers."""
        self._place(change)
        self.changes.append(change)
        if len(self.changes) > self._most_changes:
            self.floor = self.changes.popleft().version
        for watcher in list(self._by_name.get(change.last["metadata"]["name"], ())):
            watcher.tell(change)
        for watcher in list(self._others):
            watcher.tell(change)

    def selected(self, selection: Selection) -> Iterator[FrozenDict]:
        """Yield the objects that are selected, in order."""
        objects, matches = self.objects, selection.matches
        return (found for key in self._keys(selection) if matches(found := objects[key]))

    def at(self, time: float, selection: Selection) -> tuple[list[FrozenDict], int | None]:
        """Return what was selected at a time in the past, and the version then, None where that is the newest one.

        Where the changes since are forgotten it is as far back as they are known.
        """
        objects: dict[str, FrozenDict] = dict(self.objects)
        undone = 0
        for change in reversed(self.changes):
            if change.time <= time:
                return _in_order(objects, selection), change.version if undone else None
            undone += 1
            if change.before is None:
                del objects[change.key]
            else:
                objects[change.key] = change.before
        return _in_order(objects, selection), max(1, self.floor) if undone else None

    def follow(self, watcher: Watcher) -> None:
        """Let a watcher be told all that is known to have happened after its version, and what will."""
        for change in self.changes:
            watcher.tell(change)
        self._watchers(watcher)[watcher] = None

    def leave(self, watcher: Watcher) -> None:
        """Tell a watcher no more; once more is as good."""
        group = self._watchers(watcher)
        group.pop(watcher, None)
        name = watcher.selection.name
        if name is not None and not group:
            self._by_name.pop(name, None)

    def forget(self, version: int) -> None:
        """Forget all changes up to a version; who watches already misses nothing by that."""
        self.floor = max(self.floor, version)
        while self.changes and self.changes[0].version <= version:
            self.changes.popleft()

    def _watchers(self, watcher: Watcher) -> dict[Watcher, None]:
        name = watcher.selection.name
        return self._others if name is None else self._by_name.setdefault(name, {})

    def _keys(self, selection: Selection) -> list[str]:
        space = selection.namespace
        if selection.name is not None and space is not None:
            key = key_of(space, selection.name)
            return [key] if key in self.objects else []
        if selection.node is not None:
            keys = sorted(self._on_node.get(selection.node, ()))
            return keys if space is None else [key for key in keys if key.startswith(f"{space}/")]
        if selection.name is not None and not self._resource.namespaced:
            return [selection.name] if selection.name in self.objects else []
        if space is None:
            return self._order
        return self._order[bisect_left(self._order, f"{space}/") : bisect_left(self._order, f"{space}0")]

    def _place(self, change: Change) -> None:
        if change.after is None:
            del self.objects[change.key]
            del self._order[bisect_left(self._order, change.key)]
        else:
            if change.before is None:
                insort(self._order, change.key)
            self.objects[change.key] = change.after
        if self._resource == PODS:
            self._bind(change)

    def _bind(self, change: Change) -> None:
        before, after = _node(change.before), _node(change.after)
        if before != after:
            if before is not None:
                self._on_node[before].discard(change.key)
            if after is not None:
                self._on_node.setdefault(after, set()).add(change.key)


def _node(obj: FrozenDict | None) -> str | None:
    """Return where a pod is to run; for a pod on no node that is the empty word, as a field selector asks for it."""
    return None if obj is None else obj.get("spec", NOTHING).get("nodeName", "")


def _in_order(objects: dict[str, FrozenDict], selection: Selection) -> list[FrozenDict]:
    return [objects[key] for key in sorted(objects) if selection.has(objects[key])]
