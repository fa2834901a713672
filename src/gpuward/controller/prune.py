"""Takes away what nobody needs any more: faults past every window, cases that ended long ago, servers that are gone.

Its laws: a fault that was not judged stays; a fault of a case stays as long as the case; a case stays as long as a
fault is there that would open it anew; nothing is taken while the picture is old, nor of a node of which something
cannot be read.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from gpuward.controller.gather import Picture
from gpuward.controller.heed import Doubt, doubt_of, is_over
from gpuward.controller.mirror import Mirror
from gpuward.controller.outcomes import is_open
from gpuward.controller.pace import Pace
from gpuward.controller.perform import OLDEST_SECONDS
from gpuward.controller.terms import Terms
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.objects.owned import agent_lease
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, LEASES, NODES, Resource
from gpuward.ports import Cluster, Conflict, EdgeError, Object, Refused

MOST_OF_A_SWEEP = 200
"""So many objects are taken away at a time, one after the other."""
MOST_NODES_OF_A_SWEEP = 16
"""So many servers that are gone are looked at in a sweep."""
SWEEP_SECONDS = 600.0
SOON_SECONDS = 30.0
"""How long until the next sweep when one came to its bound."""
SLACK_SECONDS = 86_400.0
"""A fault stays for a day longer than the longest window: the clocks of nodes differ, and people look at faults."""
DAY_SECONDS = 86_400.0


class Pruner:
    """The housekeeping of one controller. `taken` counts what it has taken away, by the kind of object."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace, terms: Terms) -> None:
        self.trouble = ""
        self.taken: Counter[str] = Counter()
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._terms = terms
        self._not_before: dict[str, float] = {}
        self._asked: set[str] = set()
        """By UID, what was asked to go already: what others keep by a finalizer must not take the turn of the rest."""
        self._refused = ""

    async def run(self, leads: Callable[[], bool]) -> None:
        """Sweep now and then while leading, until cancelled. What goes wrong here ends nothing else."""
        waits = SWEEP_SECONDS
        while True:
            await self._pace.sleep(waits * (0.75 + self._pace.chance() / 2))
            waits = SWEEP_SECONDS
            if not leads():
                continue
            try:
                waits = SOON_SECONDS if await self.sweep() >= MOST_OF_A_SWEEP else SWEEP_SECONDS
                self.trouble = self._refused
            except Exception as error:  # noqa: BLE001  isolation goes on whatever becomes of old objects
                self.trouble = (
                    f"old objects cannot be taken away: {error if isinstance(error, EdgeError) else repr(error)}"
                )

    async def sweep(self) -> int:
        """Take away what is due, so many at most; return how many. Raises Unreachable."""
        taken, doubt, self._refused = 0, self._doubt(), ""
        faults, cases = self._picture.faults.objects.values(), self._picture.cases.objects.values()
        self._asked &= {one.head.uid for one in faults} | {one.head.uid for one in cases}
        if _are_fresh(self._picture.faults, self._picture.cases):
            now = self._pace.clock.now()
            spent = (one for one in self._spent(now, doubt) if one[2] not in self._asked)
            for resource, name, uid in islice(spent, MOST_OF_A_SWEEP):
                taken += await self._take(resource, name, uid)
        if taken < MOST_OF_A_SWEEP and _are_fresh(*self._picture.mirrors):
            taken += await self._gone(MOST_OF_A_SWEEP - taken, doubt)
        return taken

    def _doubt(self) -> Doubt:
        """Return the nodes of which something cannot be read: what is needed there is not known."""
        picture = self._picture
        return doubt_of(
            cases=picture.cases.unreadable,
            faults=picture.faults.unreadable,
            gpu_nodes=(*picture.gpu_nodes.unreadable, *picture.nodes.unreadable),
        )

    def _spent(self, now: float, doubt: Doubt) -> Iterator[tuple[Resource, str, str]]:
        """Yield the faults and cases that nobody needs; in one sweep a fault goes before its case, or stays with it."""
        cases = [one for one in self._picture.cases.objects.values() if not doubt.covers(one.spec.node)]
        faults = [one for one in self._picture.faults.objects.values() if not doubt.covers(one.spec.node_name)]
        needed = {name for case in cases for name in (case.spec.fault, *case.spec.faults)}
        for fault in faults:
            if fault.head.name not in needed and is_spent(fault, now=now, window_seconds=self._terms.fault_seconds):
                yield GPU_FAULTS, fault.head.name, fault.head.uid
        going = [fault for fault in faults if fault.is_due or not is_over(fault)]
        lively = {(fault.spec.node_name, fault.spec.gpu) for fault in going} | {fault.head.name for fault in going}
        for case in cases:
            old = ended_seconds(case, now=now)
            asks = {(case.spec.node, case.spec.gpu), case.spec.fault, *case.spec.faults}
            if old is not None and old >= self._terms.case_seconds and not asks & lively:
                yield GPU_CASES, case.head.name, case.head.uid

    async def _gone(self, most: int, doubt: Doubt) -> int:
        """Take away servers whose Node and agent are gone for as long as a case is kept, with all that is theirs."""
        taken, now = 0, self._pace.clock.monotonic()
        gone = self._picture.gpu_nodes.objects.keys() - self._picture.nodes.objects.keys()
        names = sorted(name for name in gone if not doubt.covers(name))
        self._not_before = {name: at for name, at in self._not_before.items() if name in names}
        due = (name for name in names if self._not_before.get(name, now) <= now)
        for name in islice(due, MOST_NODES_OF_A_SWEEP):
            if taken < most:
                taken += await self._gone_node(name, most - taken)
        return taken

    async def _gone_node(self, name: str, most: int) -> int:
        """Take away one server's objects, itself last, if it is gone for so long; return how many."""
        cases = [case for case in self._picture.cases.objects.values() if case.spec.node == name]
        faults = [fault for fault in self._picture.faults.objects.values() if fault.spec.node_name == name]
        found = await self._cluster.get(GPU_NODES, name)
        lease = await self._cluster.get(LEASES, agent_lease(name), namespace=self._terms.namespace)
        if found is None or any(is_open(as_case(case)) for case in cases) or any(fault.is_due for fault in faults):
            return 0
        signs = [_time_of(found["metadata"].get("creationTimestamp")), _renewed(lease)]
        signs += [self._pace.clock.now() - (ended_seconds(case, now=self._pace.clock.now()) or 0.0) for case in cases]
        signs += [newest_sign(fault) for fault in faults]
        left = max(signs) + self._terms.case_seconds - self._pace.clock.now()
        if left > 0 or await self._cluster.get(NODES, name) is not None:
            self._not_before[name] = self._pace.clock.monotonic() + min(max(left, SWEEP_SECONDS), DAY_SECONDS)
            return 0
        theirs = [(GPU_FAULTS, fault.head.name, fault.head.uid) for fault in faults]
        theirs += [(GPU_CASES, case.head.name, case.head.uid) for case in cases]
        theirs += [] if lease is None else [(LEASES, lease["metadata"]["name"], lease["metadata"]["uid"])]
        theirs += [(GPU_NODES, name, found["metadata"]["uid"])]
        return sum([await self._take(resource, one, uid) for resource, one, uid in theirs[:most]])

    async def _take(self, resource: Resource, name: str, uid: str) -> int:
        """Take one object away, if it is still the one that was looked at; return 1 when it was there."""
        namespace = self._terms.namespace if resource.namespaced else None
        self._asked.add(uid)
        try:
            was_there = await self._cluster.delete(resource, name, namespace=namespace, uid=uid)
        except Conflict:
            return 0
        except Refused as error:
            self._refused = f"{resource.kind} {name} cannot be taken away: {error}"
            return 0
        if was_there:
            self.taken[resource.plural] += 1
        return int(was_there)


def _are_fresh(*mirrors: Mirror[Any]) -> bool:
    """Return whether these are seen as they are now."""
    ages = [mirror.age_seconds() for mirror in mirrors]
    return all(age is not None and age < OLDEST_SECONDS for age in ages)


def newest_sign(fault: GpuFault) -> float:
    """Return when a fault was last heard of, or judged, whichever is later."""
    judged = None if fault.status is None else fault.status.judged
    newest = fault.newest
    times = (
        fault.spec.first.wall,
        fault.spec.last.wall,
        None if newest is None else newest.last.wall,
        None if newest is None else newest.at,
        None if judged is None else judged.at,
    )
    return max((at for at in times if at is not None), default=0.0)


def is_spent(fault: GpuFault, *, now: float, window_seconds: float) -> bool:
    """Return whether a fault was judged as it is, is over, and is past every window in which a rule may look back."""
    if fault.is_due or not is_over(fault):
        return False
    return now - newest_sign(fault) >= window_seconds + SLACK_SECONDS


def ended_seconds(case: GpuCase, *, now: float) -> float | None:
    """Return for how long a case has ended; None while it goes on."""
    seen = as_case(case)
    return None if is_open(seen) else now - max(seen.since, seen.opened_at)


def _renewed(lease: Object | None) -> float:
    return 0.0 if lease is None else _time_of((lease.get("spec") or {}).get("renewTime"))


def _time_of(text: Any) -> float:
    """Return the time that an object spells; 0 for one that it does not."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
