"""A picture of all objects of one kind, kept up to date by a watch. What the objects mean is not here."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from gpuward.controller.heed import DEFECT
from gpuward.controller.pace import Pace
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import Resource
from gpuward.ports import Cluster, Conflict, EdgeError, Happened, Object, Watched

_T = TypeVar("_T")
WATCH_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    """An object as it is kept; `value` is None where it could not be read, and `why` says so."""

    name: str
    version: str
    value: _T | None
    why: str = ""


class Mirror(Generic[_T]):
    """Holds the objects of one kind by name (`namespace/name` where the kind has namespaces), each as it was read.

    While the API server is away the last picture stays, and its age tells how old it is. An object that cannot be read
    is not among them; `unreadable` says why. `changed` collects names until the loop takes them. With `group` those of
    one group are found without a look at all others. Where `same` holds for what was and what is, only the version
    of an object has changed: the new one is kept, and nobody is told.
    """

    def __init__(  # noqa: PLR0913  what may be asked for, as Cluster.watch
        self,
        cluster: Cluster,
        resource: Resource,
        read: Callable[[Object], _T],
        *,
        pace: Pace,
        fields: str = "",
        namespace: str | None = None,
        group: Callable[[_T], str] | None = None,
        same: Callable[[_T, _T], bool] = lambda _was, _is: False,
    ) -> None:
        self.objects: dict[str, _T] = {}
        self._group = group
        self._same = same
        self._grouped: dict[str, dict[str, _T]] = {}
        self.unreadable: dict[str, str] = {}
        self.changed: set[str] = set()
        self.trouble = ""
        self.ring: Callable[[], None] = _nobody
        self.ring_for_new: Callable[[], None] = _nobody
        """Rings, before `ring` does, when an object came that was not there."""
        self.resource = resource
        self._cluster = cluster
        self._read = read
        self._pace = pace
        self._fields = fields
        self._namespace = namespace
        self._versions: dict[str, str] = {}
        self._since: str | None = None
        self._seen_at: float | None = None

    def of(self, group: str) -> list[_T]:
        """Return the objects of a group, such as the cases of a node, in order of their names."""
        found = self._grouped.get(group, {})
        return [found[name] for name in sorted(found)] if len(found) > 1 else list(found.values())

    def groups(self) -> list[str]:
        """Return the names of the groups that have objects."""
        return list(self._grouped)

    @property
    def is_complete(self) -> bool:
        """Whether all objects were listed once."""
        return self._seen_at is not None

    def age_seconds(self) -> float | None:
        """Return for how long nothing was heard of the kind; None before it was listed for the first time."""
        return None if self._seen_at is None else self._pace.clock.monotonic() - self._seen_at

    def take_changed(self) -> frozenset[str]:
        """Return the names of what changed since the last call."""
        changed, self.changed = frozenset(self.changed), set()
        return changed

    def learn(self, found: Object) -> None:
        """Take in an object that an own write returned, unless a newer one is here, or its end was told meanwhile."""
        kept = self._kept(found)
        is_told = kept.version == self._since or _is_older(kept.version, self._since)
        if kept.name in self._versions or not is_told:
            self._take(kept)

    async def run(self) -> None:
        """Follow the kind until cancelled. Errors of the cluster are borne: `trouble` holds the last one's sentence."""
        failures = 0
        while True:
            try:
                began = self._pace.clock.monotonic()
                heard = await self._follow()
                # A server that ends each watch at once must not be asked in a circle.
                failures = 0 if heard or self._pace.clock.monotonic() - began > 1.0 else failures + 1
                self.trouble = ""
            except EdgeError as error:
                self.trouble = str(error)
                if isinstance(error, Conflict):
                    self._since = None
                failures += 1
            if failures:
                await self._pace.back_off(failures)

    async def _follow(self) -> bool:
        """List if need be, then watch until the watch ends; return whether anything was heard."""
        heard = False
        if self._since is None:
            await self._list()
            heard = True
        watch = self._cluster.watch(
            self.resource,
            since=self._since or "",
            namespace=self._namespace,
            fields=self._fields,
            project=self._kept,
            timeout_seconds=WATCH_SECONDS,
        )
        async with aclosing(cast("AsyncGenerator[Watched, None]", watch)) as told:
            async for one in told:
                heard = True
                self._hear(one)
        return heard

    async def _list(self) -> None:
        listed = await self._cluster.list(
            self.resource, namespace=self._namespace, fields=self._fields, project=self._kept
        )
        there = {kept.name for kept in listed.items}
        for name in self._versions.keys() - there:
            self._forget(name)
        for kept in listed.items:
            self._take(kept)
        self._since = listed.version
        self._seen_at = self._pace.clock.monotonic()
        self.ring()

    def _hear(self, one: Watched) -> None:
        self._since = one.version
        self._seen_at = self._pace.clock.monotonic()
        self.trouble = ""
        if one.happened is Happened.BOOKMARK:
            return
        if one.item.name not in self._versions:
            self.ring_for_new()
        if one.happened is not Happened.DELETED:
            if not self._take(one.item):
                return
        elif not _is_older(one.item.version, self._versions.get(one.item.name)):
            self._forget(one.item.name)
        self.ring()

    def _take(self, kept: _Kept[_T]) -> bool:
        """Take in an object; return False where it is as before but for its version."""
        known, former = self._versions.get(kept.name), self.objects.get(kept.name)
        if known == kept.version or _is_older(kept.version, known):
            return True
        self._drop(kept.name)
        self._versions[kept.name] = kept.version
        if kept.value is None:
            self.unreadable[kept.name] = kept.why
        else:
            self.objects[kept.name] = kept.value
            if self._group is not None:
                self._grouped.setdefault(self._group(kept.value), {})[kept.name] = kept.value
        is_same = former is not None and kept.value is not None and self._same(former, kept.value)
        if not is_same:
            self.changed.add(kept.name)
        return not is_same

    def _forget(self, name: str) -> None:
        self._drop(name)
        self.changed.add(name)

    def _drop(self, name: str) -> None:
        self._versions.pop(name, None)
        former = self.objects.pop(name, None)
        if former is not None and self._group is not None:
            group = self._group(former)
            del self._grouped[group][name]
            if not self._grouped[group]:
                del self._grouped[group]
        self.unreadable.pop(name, None)

    def _kept(self, found: Object) -> _Kept[_T]:
        metadata: Mapping[str, Any] = found.get("metadata") or {}
        space, name = metadata.get("namespace"), str(metadata.get("name", ""))
        whole, version = f"{space}/{name}" if space else name, str(metadata.get("resourceVersion", ""))
        if version and self._versions.get(whole) == version:
            return _Kept(whole, version, None)  # an own write comes back on the watch: it is here already
        try:
            return _Kept(whole, version, self._read(found))
        except ObjectError as error:
            return _Kept(whole, version, None, str(error))
        except Exception as error:  # noqa: BLE001  one object, whoever wrote it, must not end the picture of all others
            return _Kept(whole, version, None, f"{DEFECT}: {error!r}")


def _is_older(version: str, known: str | None) -> bool:
    """Return whether a version is from before another; those of one kind are compared as numbers (KEP 5504)."""
    return known is not None and version.isdecimal() and known.isdecimal() and int(version) < int(known)


def _nobody() -> None:
    """Ring for nobody."""
