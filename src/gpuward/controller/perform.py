"""Does what the saved cases ask for. Every call may be made again: it changes nothing that is so already.

What became of it is not told from here: the next look shows it. Only what no look can show is kept in `Heard`.
"""

from collections.abc import Callable, Mapping, Sequence

from gpuward.controller.budgets import covering
from gpuward.controller.census import Berths
from gpuward.controller.gather import Gathered, Picture
from gpuward.controller.gating import Gating, is_gated
from gpuward.controller.heed import borne
from gpuward.controller.latecomers import goes_on
from gpuward.controller.letters import Letters
from gpuward.controller.notices import saves_until
from gpuward.controller.outcomes import Heard, is_taken_off, order_id, wanted_value
from gpuward.controller.pace import Pace
from gpuward.controller.pausing import Clients, may_order
from gpuward.controller.presence import Presence
from gpuward.controller.promote import Promoter
from gpuward.controller.reboot import Rebooter
from gpuward.controller.record import Tell
from gpuward.controller.returned import Returned
from gpuward.controller.terms import Terms
from gpuward.controller.views import GpuNodeView, NodeView, node_view
from gpuward.isolation.evacuation import ALWAYS_EXCLUDED, grace_of
from gpuward.isolation.tainting import taint_operations
from gpuward.model.case import ON_A_SERVER, Case, Effect, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_case import GpuCase, Victim, as_case
from gpuward.model.objects.gpu_node import MOST_ORDERS, GpuOrder, NodeSpec
from gpuward.model.objects.owned import OWNED, has_note, read_owned
from gpuward.model.objects.values import ObjectError, write
from gpuward.model.pod import PodSight
from gpuward.model.resource import DISRUPTION_BUDGETS, GPU_CASES, GPU_NODES, NODES, PODS
from gpuward.ports import Cluster, Conflict, EdgeError, Evicted, Eviction, Refused
from gpuward.settings.pools import PoolTerms

_OF_PAUSE = frozenset({EffectKind.PAUSE, EffectKind.RESTORE})
_OF_TAINT = frozenset({EffectKind.TAINT, EffectKind.UNTAINT})
OLDEST_SECONDS = 150.0
"""A picture of the cases that is older is not swept by: a server says every minute on a watch that it is there."""


class Performer:
    """Brings the cluster to what the saved cases ask for. Errors: Unreachable; what is refused ends its effect."""

    def __init__(
        self, cluster: Cluster, picture: Picture, heard: Heard, *, pace: Pace, terms: Terms, tell: Tell
    ) -> None:
        self._cluster = cluster
        self._picture = picture
        self._heard = heard
        self._pace = pace
        self._terms = terms
        self._berths = Berths(terms)
        self._rebooter = Rebooter(cluster, heard, namespace=terms.namespace, terms=terms.reboot)
        self._promoter = Promoter(cluster, picture, pace=pace, mode_of=self._mode, tell=tell)
        self._presence = Presence(cluster, picture)
        self._returned = Returned(cluster, picture, pace=pace, tell=tell)
        self._gating = Gating(cluster, picture, pace=pace, keys=terms.labels)
        self._held: dict[str, str] = {}
        self._letters = Letters(cluster, picture.cases, heard, pace=pace)

    async def perform(self, gathered: Gathered) -> None:
        """Do what the saved cases of a node ask for and is not done, but for the taint."""
        name = gathered.snapshot.node
        found = self._picture.open_cases_of(name)
        await self._gating.keep(name, found, self._refuse_pause)
        await self.order(name, gathered.clients)
        for one in found:
            case = as_case(one)
            if case.drill is None:
                await self._evict(one, _asked(case, EffectKind.EVICT), gathered)
                await self._clear(one, _asked(case, EffectKind.CLEAR), gathered)
                await self._rebooter.reboot(
                    case, _asked(case, EffectKind.REBOOT), self._picture.nodes.objects.get(name)
                )
                await self._promoter.promote(one, _asked(case, EffectKind.PROMOTE))
                await self._letters.send(one, gathered.telling.letters.get(case.id, ()))
        for late in self._picture.late_cases_of(name):
            await self._cluster.delete(GPU_CASES, late.head.name, uid=late.head.uid)

    async def sweep(self, held: Callable[[str], str]) -> list[str]:
        """Give every agent its mode, take back orders and taints that no case asks for, free what was reserved.

        `held` says by the name of a node why a brake holds there. Return what went wrong, each for itself, in
        sentences. Raises Unreachable.
        """
        troubles = []
        age = self._picture.cases.age_seconds()
        is_known, doubt = age is not None and age < OLDEST_SECONDS, self._picture.doubt()
        for name, view in sorted(self._picture.gpu_nodes.objects.items()):
            orders = () if view.spec is None else view.spec.orders
            self._held[name] = held(name)
            is_told = view.spec is not None and (view.spec.mode, view.spec.held) == (self._mode(name), self._held[name])
            is_sure = is_known and not doubt.covers(name)
            owed = self._returned.owed(name, view) if is_sure else []
            if owed:
                troubles.append(await borne(name, self._returned.settle(name, view)))
            if (is_sure and (orders or owed)) or not (orders or is_told):
                troubles.append(await borne(name, self.order(name)))
        noted = [(name, node) for name, node in self._picture.nodes.objects.items() if has_note(node.kept)]
        for name, node in sorted(noted, key=lambda one: one[0]) if is_known else ():
            if doubt.covers(name):
                continue  # what a case that cannot be read has asked for stays
            if self._is_ours(node):
                troubles.append(await borne(name, self.taint(name)))
            if is_gated(node):
                kept = self._gating.keep(name, self._picture.open_cases_of(name), self._refuse_pause)
                troubles.append(await borne(name, kept))
        troubles += await self._letters.sweep()
        troubles += await self._promoter.sweep()
        troubles.append(await borne("the labels of nodes", self._presence.sweep(self._mode)))
        self._forget()
        return [trouble for trouble in troubles if trouble]

    async def order(self, name: str, clients: Clients | None = None) -> None:
        """Give a node's agent the orders of its open cases, and its mode; an order that was given stays as it is.

        The agent stops the services of its host only once the GPU Operator's programs are seen to be gone.
        """
        view = self._picture.gpu_nodes.objects.get(name)
        cases = [as_case(one) for one in self._picture.open_cases_of(name)]
        if view is None:
            return
        orders = _orders([*cases, *self._returned.owed(name, view)], view, clients or Clients())
        wanted = NodeSpec(mode=self._mode(name), orders=orders, held=self._held.get(name, ""))
        if view.spec == wanted:
            return
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": view.version}
        try:
            operations = (version, {"op": "add", "path": "/spec", "value": write(wanted)})
            self._picture.gpu_nodes.learn(await self._cluster.patch(GPU_NODES, name, operations))
        except Conflict:
            return
        except (Refused, ObjectError) as error:
            self._refuse(cases, ON_A_SERVER, str(error))

    async def taint(self, name: str) -> None:
        """Give a node the taint that its open cases ask for, or take ours away."""
        node = self._picture.nodes.objects.get(name)
        if node is None:
            return
        cases = [as_case(one) for one in self._picture.open_cases_of(name)]
        try:
            try:
                await self._taint(node, cases)
            except Conflict:
                # A node changes often: what its kubelet wrote is no reason to wait.
                fresh = await self._cluster.get(NODES, name)
                if fresh is not None:
                    await self._taint(node_view(fresh, self._terms.labels), cases)
        except Conflict:
            return
        except (Refused, ObjectError) as error:
            self._refuse(cases, _OF_TAINT, str(error))

    async def _taint(self, node: NodeView, cases: Sequence[Case]) -> None:
        value = wanted_value(cases, self._terms)
        asked = any(_asked(case, EffectKind.TAINT) for case in cases)
        if value is not None and not asked and is_taken_off(node, self._terms):
            return  # a person's doing, and not to be undone
        operations = taint_operations(node.kept, value, at=self._pace.clock.now(), taint=self._terms.taint)
        if operations:
            self._picture.nodes.learn(await self._cluster.patch(NODES, node.name, operations))

    async def _evict(self, found: GpuCase, effect: Effect | None, gathered: Gathered) -> None:
        if effect is None or found.status is None or gathered.pods is None:
            return
        listed = frozenset(gathered.snapshot.victims.get(found.head.name) or ())
        for victim in found.status.victims:
            pod = gathered.pods.get(victim.pod)
            if pod is not None and _may_evict(victim, pod, listed) and pod.uid not in gathered.telling.waiting:
                await self._evict_pod(pod, since=max(effect.asked_at, saves_until(found)))

    async def _clear(self, found: GpuCase, effect: Effect | None, gathered: Gathered) -> None:
        """Delete the listed pods of a node that is off, unless it answers after all."""
        node = self._picture.nodes.objects.get(found.spec.node)
        if effect is None or found.status is None or gathered.pods is None or (node is not None and node.ready):
            return
        listed = frozenset(gathered.snapshot.victims.get(found.head.name) or ())
        for victim in found.status.victims:
            pod = gathered.pods.get(victim.pod)
            if pod is not None and _is_named(victim, pod, listed):
                await self._cluster.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)

    async def _evict_pod(self, pod: PodSight, *, since: float) -> None:
        terms, heard, now = self._pool(pod.node).eviction, self._heard, self._pace.clock.monotonic()
        again_at = heard.asked_at.get(pod.uid, -self._terms.evict_again_seconds) + self._terms.evict_again_seconds
        if now < again_at:
            return
        left = since + terms.deadline_seconds - self._pace.clock.now()
        before = heard.evictions.get(pod.uid)
        # Near the deadline a pod still gets the least grace of all: less would kill what may yet end well.
        grace = grace_of(pod, terms, left_seconds=max(left, float(terms.grace_seconds)))
        heard.asked_at[pod.uid] = now
        heard.first_asked_at.setdefault(pod.uid, self._pace.clock.now())
        try:
            if left <= 0 and terms.force and before is not None and before.outcome is Evicted.HELD:
                await self._cluster.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=grace)
                return
            answer = await self._cluster.evict(pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=grace)
        except Conflict:
            return
        except Refused as error:
            answer = Eviction(Evicted.HELD, str(error))
        if answer.outcome is Evicted.TANGLED:
            answer = Eviction(Evicted.TANGLED, await self._tangle_of(pod, answer.why))
        heard.evictions[pod.uid] = answer

    async def _tangle_of(self, pod: PodSight, why: str) -> str:
        """Return which budgets keep each other and the pod: the server says only that there is more than one."""
        try:
            listed = await self._cluster.list(DISRUPTION_BUDGETS, namespace=pod.namespace)
        except EdgeError:
            return why
        names = covering(listed.items, pod.labels)
        return f"{why} They are {', '.join(names)}: delete one, or change what it selects." if names else why

    def _refuse(self, cases: Sequence[Case], kinds: frozenset[EffectKind], why: str) -> None:
        for case in cases:
            for effect in case.effects:
                if effect.kind in kinds and effect.outcome is Outcome.ASKED:
                    self._heard.refused[(case.id, effect.number)] = why

    def _forget(self) -> None:
        """Keep of what was heard only what an open case may still ask about."""
        cases = [case for case in self._picture.cases.objects.values() if goes_on(case)]
        names = {case.head.name for case in cases}
        pods = {victim.uid for case in cases if case.status is not None for victim in case.status.victims}
        heard = self._heard
        heard.refused = {key: why for key, why in heard.refused.items() if key[0] in names}
        heard.evictions = {uid: answer for uid, answer in heard.evictions.items() if uid in pods}
        heard.asked_at = {uid: at for uid, at in heard.asked_at.items() if uid in pods}
        heard.first_asked_at = {uid: at for uid, at in heard.first_asked_at.items() if uid in pods}
        heard.untold = {key: why for key, why in heard.untold.items() if key[0] in self._picture.cases.objects}
        heard.unsure = {
            key: (body, at) for key, (body, at) in heard.unsure.items() if key[0] in self._picture.gpu_nodes.objects
        }
        heard.posted = {key for key in heard.posted if key[0] in names}

    def _pool(self, node: str) -> PoolTerms:
        return self._berths.pool(node, self._picture.nodes.objects.get(node))

    def _mode(self, node: str) -> Mode:
        return self._pool(node).mode

    def _refuse_pause(self, cases: Sequence[Case], why: str) -> None:
        self._refuse(cases, _OF_PAUSE, why)

    def _is_ours(self, node: NodeView) -> bool:
        if self._terms.taint.key not in str(node.kept["metadata"]["annotations"].get(OWNED, "")):
            return False  # most nodes have a note of their label alone, and reading it costs
        try:
            return self._terms.taint in read_owned(node.kept).taints
        except ObjectError:
            return False


def _asked(case: Case, kind: EffectKind) -> Effect | None:
    return next((one for one in case.effects if one.kind is kind and one.outcome is Outcome.ASKED), None)


def _orders(cases: Sequence[Case], view: GpuNodeView, clients: Clients) -> tuple[GpuOrder, ...]:
    """Return the orders of all open cases; one that stands keeps its boot, so that it is not done on another."""
    given: Mapping[str, GpuOrder] = {} if view.spec is None else {order.id: order for order in view.spec.orders}
    uuids = {gpu.pci: gpu.uuid for gpu in view.gpus}
    orders = []
    for case in cases:
        for effect in case.effects:
            if effect.outcome is not Outcome.ASKED or effect.kind not in ON_A_SERVER:
                continue
            order = given.get(order_id(case, effect))
            if order is None and view.boot and case.gpu and _may_give(case, effect, clients):
                order = GpuOrder(
                    id=order_id(case, effect),
                    case=case.id,
                    boot=view.boot,
                    pci=case.gpu,
                    what=effect.kind,
                    asked_at=effect.asked_at,
                    uuid=case.gpu_uuid or uuids.get(case.gpu),
                    forced=case.forced,
                    drill=case.drill is not None,
                )
            orders += [] if order is None else [order]
    return tuple(orders[:MOST_ORDERS])


def _may_give(case: Case, effect: Effect, clients: Clients) -> bool:
    return effect.kind is not EffectKind.PAUSE or case.drill is not None or may_order(case, clients)


def _may_evict(victim: Victim, pod: PodSight, listed: frozenset[str]) -> bool:
    """Return whether a pod is the one that was named, still has to go, and was not asked yet."""
    return _is_named(victim, pod, listed) and not pod.ending


def _is_named(victim: Victim, pod: PodSight, listed: frozenset[str]) -> bool:
    """Return whether a pod is the one that was named, and still has to go."""
    if pod.namespace in ALWAYS_EXCLUDED or pod.ref not in listed:
        return False
    return bool(victim.uid) and victim.uid == pod.uid and not pod.ended
