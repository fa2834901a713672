"""The port Cluster on the pretend API server: each call on its way through the weather, with the rights of its user.

What the server does is in server.py; nothing here knows an object.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from gpuward.model.resource import PODS, SELF_REVIEWS, Resource
from gpuward.ports import (
    Clock,
    Conflict,
    EdgeError,
    Eviction,
    Listed,
    Object,
    Project,
    Refused,
    Unreachable,
    Watched,
)
from gpuward.sim.cluster import controllers, eviction, selectors
from gpuward.sim.cluster.network import Network, Presence, Sleep
from gpuward.sim.cluster.schema import Schema
from gpuward.sim.cluster.server import Server
from gpuward.sim.cluster.users import ADMIN, Asked, Rule, User
from gpuward.sim.cluster.watching import USUAL, Line, Patience
from gpuward.sim.cluster.weather import Calm, Spell, Trouble, Weather

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PretendCluster:
    """Implements Cluster. Views of other users share the server, the network and the weather.

    What it hands out is frozen: the very objects that the server keeps (frozen.py). With `counts_budgets` an eviction
    finds the status of the budgets as the disruption controller would have left it by then, else as it was written.
    """

    server: Server
    network: Network
    weather: Weather
    user: User = ADMIN
    patience: Patience = USUAL
    counts_budgets: bool = True

    def as_user(self, name: str, rules: Sequence[Rule]) -> "PretendCluster":
        """Return the same cluster as one sees it who may do only what the rules allow."""
        return replace(self, user=User(name, tuple(rules)))

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        deadline_seconds: float = 30.0,
    ) -> Listed:
        """Return all objects of a kind, or of a namespace, by label and field selector, as they are at one moment."""
        asked = Asked("list", resource, namespace, _name_in(fields))
        spell = self.weather.spell(self.user.name, asked)
        time = self.network.clock.now() - spell.behind_seconds if spell.behind_seconds else None

        def act() -> Listed:
            return self.server.list(
                resource, namespace=namespace, labels=labels, fields=fields, project=project, time=time
            )

        return await self._call(asked, spell, act, deadline_seconds=deadline_seconds)

    async def watch(  # noqa: PLR0913  what may be asked for
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        timeout_seconds: float = 300.0,
    ) -> AsyncIterator[Watched]:
        """Yield what happens after `since` until the timeout; what is told is projected as it is told."""
        asked = Asked("watch", resource, namespace, _name_in(fields))
        spell = self.weather.spell(self.user.name, asked)
        clock, bell = self.network.clock, self.network.bell()
        begun = clock.monotonic()
        try:
            watcher = await self._call(
                asked,
                spell,
                lambda: self.server.watch(
                    resource, since=since, ring=bell.ring, namespace=namespace, labels=labels, fields=fields
                ),
                deadline_seconds=min(self.patience.silence_seconds, timeout_seconds),
            )
            line = Line(
                server=self.server,
                network=self.network,
                resource=resource,
                watcher=watcher,
                bell=bell,
                spell=spell,
                patience=self.patience,
                end=begun + timeout_seconds,
                heard=clock.monotonic(),
            )
            try:
                async for told in line.told(project):
                    yield told
            finally:
                self.server.leave(resource, watcher)
        finally:
            self.network.silence(bell)

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None, deadline_seconds: float = 10.0
    ) -> Object | None:
        """Return an object, None when there is none."""
        asked = Asked("get", resource, namespace, name)
        spell = self.weather.spell(self.user.name, asked)
        if spell.trouble is Trouble.CONFLICT:
            spell = replace(spell, trouble=None)
        return await self._call(
            asked,
            spell,
            lambda: self.server.get(resource, name, namespace=namespace),
            deadline_seconds=deadline_seconds,
        )

    async def create(
        self, resource: Resource, body: Object, *, namespace: str | None = None, deadline_seconds: float = 10.0
    ) -> Object:
        """Create an object and return it. Raises Conflict when one of its name is there."""
        asked = Asked("create", resource, namespace)
        spell = self.weather.spell(self.user.name, asked)
        if resource == SELF_REVIEWS:
            return await self._call(asked, spell, self._review, deadline_seconds=deadline_seconds)
        return await self._call(
            asked,
            spell,
            lambda: self.server.create(resource, body, namespace=namespace),
            deadline_seconds=deadline_seconds,
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str = "",
        deadline_seconds: float = 10.0,
    ) -> Object:
        """Change an object by a JSON patch (RFC 6902) and return it; all operations are done or none."""
        asked = Asked("patch", resource, namespace, name, subresource)
        return await self._call(
            asked,
            self.weather.spell(self.user.name, asked),
            lambda: self.server.patch(resource, name, operations, namespace=namespace, subresource=subresource),
            deadline_seconds=deadline_seconds,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
        deadline_seconds: float = 10.0,
    ) -> bool:
        """Delete an object, only the one with this uid when one is given; False when there was none any more."""
        asked = Asked("delete", resource, namespace, name)
        return await self._call(
            asked,
            self.weather.spell(self.user.name, asked),
            lambda: self.server.delete(resource, name, namespace=namespace, uid=uid, grace_seconds=grace_seconds),
            deadline_seconds=deadline_seconds,
        )

    async def evict(
        self, pod: str, *, namespace: str, uid: str, grace_seconds: int | None = None, deadline_seconds: float = 10.0
    ) -> Eviction:
        """Ask for the eviction of the pod with this uid; `grace_seconds` None is the pod's own."""
        asked = Asked("create", PODS, namespace, pod, "eviction")

        def act() -> Eviction:
            if self.counts_budgets:
                controllers.count_budgets(self.server, namespace)
            return eviction.evict(self.server, pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)

        spell = self.weather.spell(self.user.name, asked)
        return await self._call(asked, spell, act, deadline_seconds=deadline_seconds)

    async def close(self) -> None:
        """Give back nothing: nothing is held."""

    def _review(self) -> Object:
        """Return who asks, and the server's time; nothing is kept of it."""
        stamp = datetime.fromtimestamp(self.network.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        user = {"userInfo": {"username": self.user.name}}
        head = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
        return {**head, "metadata": {"creationTimestamp": stamp}, "status": user}

    async def _call(self, asked: Asked, spell: Spell, act: Callable[[], _T], *, deadline_seconds: float) -> _T:
        """Do one call as the weather has it; `act` is what the server does."""
        what = asked.doing
        await self._arrive(what, spell, deadline_seconds)
        if not self.user.may(asked):
            raise Refused(f"cannot {what}: {self.user.name} is forbidden to; see the RBAC rules of this user")
        match spell.trouble:
            case Trouble.LOST:
                raise Unreachable(f"cannot {what}: the connection broke; try again later")
            case Trouble.CONFLICT:
                raise Conflict(f"cannot {what}: someone else was first; read again")
            case Trouble.BROKEN:
                raise Unreachable(f"cannot {what}: the server answered 503; try again later")
            case Trouble.LATE:
                self.network.later(spell.late_seconds, lambda: _done_late(act))
                raise Unreachable(f"cannot {what}: no answer came in time; whether it was done is not known")
            case Trouble.UNANSWERED:
                act()
                raise Unreachable(f"cannot {what}: the answer was lost; whether it was done is not known")
            case _:
                return act()

    async def _arrive(self, what: str, spell: Spell, deadline_seconds: float) -> None:
        """Come to the server. Raises Unreachable when it is away, or does not answer by the deadline."""
        network = self.network
        deadline = network.clock.monotonic() + deadline_seconds
        if spell.delay_seconds:
            await network.sleep(min(spell.delay_seconds, deadline_seconds))
        on_time = spell.delay_seconds < deadline_seconds and await network.thawed(deadline)
        if not on_time:
            raise Unreachable(f"cannot {what}: no answer came within {deadline_seconds:g} s; try again later")
        if network.presence is Presence.AWAY:
            raise Unreachable(f"cannot {what}: nobody takes the connection; try again later")


def pretend_cluster(  # noqa: PLR0913  all that a world may choose
    clock: Clock,
    sleep: Sleep,
    *,
    seed: int = 0,
    schemas: Mapping[str, Schema] | None = None,
    weather: Weather | None = None,
    patience: Patience = USUAL,
    counts_budgets: bool = True,
) -> PretendCluster:
    """Return a cluster with its four namespaces and nothing else, as one sees it who may do everything."""
    return PretendCluster(
        server=Server(now=clock.now, seed=seed, schemas=schemas),
        network=Network(clock, sleep),
        weather=weather or Calm(),
        patience=patience,
        counts_budgets=counts_budgets,
    )


def _done_late(act: Callable[[], object]) -> None:
    """Do what nobody waits for; that it is refused nobody hears."""
    try:
        act()
    except EdgeError:
        return


def _name_in(fields: str) -> str:
    """Return the one name that a field selector asks for, as RBAC looks at it; none when it asks for more."""
    try:
        terms = selectors.field_terms(fields)
    except selectors.Unreadable:
        return ""
    return next((term.value for term in terms if term.path == "metadata.name" and term.equal), "")
