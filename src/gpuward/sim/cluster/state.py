"""All that a pretend cluster holds: the shelves, the one version that counts up, the clock, and the dice for uids."""

import random
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from gpuward.model.resource import Resource
from gpuward.sim.cluster.frozen import FrozenDict
from gpuward.sim.cluster.shelf import Change, Shelf, with_version

FIRST_VERSION = 1
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5


class State:
    """The objects of a cluster. Each change has a version of its own, as in etcd."""

    def __init__(self, *, seed: int, now: Callable[[], float], most_changes: int) -> None:
        self.version = FIRST_VERSION
        self.now = now
        self._most_changes = most_changes
        self._dice = random.Random(seed)  # noqa: S311  the same seed must give the same cluster
        self._shelves: dict[Resource, Shelf] = {}
        self._forgotten = 0
        self._second = (-1, "")

    def shelf(self, resource: Resource) -> Shelf:
        """Return the shelf of a kind."""
        found = self._shelves.get(resource)
        if found is None:
            found = self._shelves[resource] = Shelf(resource, self._most_changes)
            found.forget(self._forgotten)
        return found

    def shelves(self) -> Iterator[tuple[Resource, Shelf]]:
        """Yield all kinds of which there ever were objects, in the order in which they came."""
        yield from list(self._shelves.items())

    def put(self, resource: Resource, key: str, obj: FrozenDict) -> FrozenDict:
        """Keep an object at the next version and return it so."""
        self.version += 1
        shelf, kept = self.shelf(resource), with_version(obj, self.version)
        shelf.take(Change(self.version, self.now(), key, before=shelf.objects.get(key), after=kept, last=kept))
        return kept

    def drop(self, resource: Resource, key: str) -> FrozenDict:
        """Take an object away and return it as watches are told of it."""
        self.version += 1
        shelf = self.shelf(resource)
        before = shelf.objects[key]
        last = with_version(before, self.version)
        shelf.take(Change(self.version, self.now(), key, before=before, after=None, last=last))
        return last

    def compact(self) -> None:
        """Forget what happened up to now, so that a watch from an older version must list again."""
        self._forgotten = self.version
        for shelf in self._shelves.values():
            shelf.forget(self.version)

    def new_uid(self) -> str:
        """Return a uid that nothing else has."""
        return str(uuid.UUID(int=self._dice.getrandbits(128), version=4))

    def new_suffix(self) -> str:
        """Return what a `generateName` is ended with."""
        return "".join(self._dice.choices(_LETTERS, k=_SUFFIX))

    def stamp(self, seconds_ahead: int = 0) -> str:
        """Return the time as objects have it, in whole seconds."""
        second = int(self.now()) + seconds_ahead
        if self._second[0] != second:
            self._second = (second, datetime.fromtimestamp(second, UTC).strftime(_FORMAT))
        return self._second[1]


def stamp_before(stamp: str, seconds: int) -> str:
    """Return a time as objects have it, so many seconds before another one."""
    return (datetime.strptime(stamp, _FORMAT).replace(tzinfo=UTC) - timedelta(seconds=seconds)).strftime(_FORMAT)


def seconds_of(stamp: str) -> float:
    """Return a time as objects have it in seconds since 1970."""
    return datetime.strptime(stamp, _FORMAT).replace(tzinfo=UTC).timestamp()
