"""Which nodes have stopped answering with work on their GPUs, and which answer again. What is done then is not here.

How long a node has not been Ready is measured on this process's own monotonic clock, from when it saw it so. The time
in the node's condition is no measure: a kubelet writes it by its own clock, the cluster's node controller by another,
and one that is wrong would have the pods of a node evicted that has been away for a second. The price is that a
controller that has just started waits the whole minute; one that stands by for election has looked all along.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import floor

from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.controller.views import GpuNodeView, NodeView, node_view
from gpuward.isolation.decide import NODE_LOST
from gpuward.isolation.rebooting import is_rebooting, is_work
from gpuward.model.case import Case, EffectKind, Outcome
from gpuward.model.fault import Fault, Verdict
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_fault import fault_name, safe_part
from gpuward.model.objects.limits import PART_OF_NAME
from gpuward.model.objects.owned import agent_lease
from gpuward.model.pod import pod_of
from gpuward.model.resource import LEASES, NODES, PODS
from gpuward.model.scene import NodeSight
from gpuward.model.signal import Moment
from gpuward.ports import Cluster, EdgeError

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which a person says that a node is off (Kubernetes: non-graceful node shutdown)."""
LOOK_SECONDS = 1.0
"""So long one look at all nodes is good."""
LOOK_AGAIN_SECONDS = 10.0
"""How long after a look at a node that is away, and has no work, its pods are looked at again."""
DOUBT_SHARE = 0.5
"""When more nodes than these do not answer at once, none of them is taken for lost, not even for a trial."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a Node, which another of its name is not, is seen to stand, and since when on our own monotonic clock."""

    uid: str
    ready: bool
    since: float


def _seen(node: NodeView, before: _Seen | None, now: float) -> _Seen:
    same = before is not None and (before.uid, before.ready) == (node.uid, node.ready)
    return before if before is not None and same else _Seen(node.uid, node.ready, now)


class Losses:
    """Watches which nodes are Ready. `nodes` and `gpu_nodes` are what the mirrors hold."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Mapping[str, NodeView],
        gpu_nodes: Mapping[str, GpuNodeView],
        *,
        pace: Pace,
        terms: Terms,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._gpu_nodes = gpu_nodes
        self._clock = pace.clock
        self._terms = terms
        self._since: dict[str, _Seen] = {}
        self._renewals: dict[tuple[str, int], str] = {}
        self._without_work: dict[str, float] = {}
        self._looked_at: float | None = None

    def look(self) -> None:
        """Note which nodes answer now."""
        now = self._clock.monotonic()
        if self._looked_at is not None and 0 <= now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        since, self._since = self._since, {}
        for name in self._gpu_nodes:
            node = self._nodes.get(name)
            if node is not None:
                self._since[name] = _seen(node, since.get(name), now)
        self._without_work = {name: at for name, at in self._without_work.items() if name in self._since}

    def sight(self, name: str, cases: Iterable[Case]) -> NodeSight:
        """Return how a node stands. One that a person cordoned, or that we reboot for a case of it, is not lost."""
        node, view = self._nodes.get(name), self._gpu_nodes.get(name)
        told = "" if view is None else view.known_boot
        if node is None:
            return NodeSight(answers=False, gone=True, off="The cluster has no such node any more.", told=told)
        now = self._clock.monotonic()
        seconds = now - _seen(node, self._since.get(name), now).since
        if node.ready:
            return NodeSight(answers=True, back=seconds >= self._terms.back_seconds, boot=node.boot, told=told)
        is_long = seconds >= self._terms.lost_seconds and bool(node.ready_since)
        wears = any(one.get("key") == OUT_OF_SERVICE for one in node.kept["spec"]["taints"])
        return NodeSight(
            answers=False,
            lost=is_long and not node.unschedulable and not any(map(is_rebooting, cases)),
            boot=node.boot,
            told=told,
            off=f"It wears the taint {OUT_OF_SERVICE}." if wears else "",
        )

    def doubt(self) -> str:
        """Return why the loss of one node is not believed: too many do not answer at once; empty when it is."""
        # A node that was seen at the last look may have left the cluster since.
        seen = ((self._nodes.get(name), one.ready) for name, one in self._since.items())
        heeded = [ready for node, ready in seen if node is not None and not node.unschedulable]
        away = heeded.count(False)
        if away <= max(1, floor(DOUBT_SHARE * len(heeded))):
            return ""
        return (
            f"{away} of {len(heeded)} GPU nodes do not answer, more than looks like hardware: "
            "it may be the network, or how the cluster sees its nodes"
        )

    async def found(self, cases: Callable[[str], Iterable[Case]]) -> dict[str, Fault]:
        """Return the loss of each node that is lost, has work on its GPUs, and none of its `cases` is about that."""
        losses: dict[str, Fault] = {}
        for name, one in self._since.items():
            if not one.ready:
                loss = await self._loss(name, tuple(cases(name)))
                losses |= {} if loss is None else {name: loss}
        return losses

    async def agent_lives(self, name: str, case: Case, number: int) -> bool:
        """Return whether the agent of a node has renewed its Lease since it was first asked for this effect."""
        try:
            found = await self._cluster.get(LEASES, agent_lease(name), namespace=self._terms.namespace)
        except EdgeError:
            return False
        renewed = str(((found or {}).get("spec") or {}).get("renewTime", ""))
        return renewed != self._renewals.setdefault((case.id, number), renewed)

    def forget(self, cases: Iterable[str]) -> None:
        """Keep nothing of cases other than these."""
        names = frozenset(cases)
        self._renewals = {key: seen for key, seen in self._renewals.items() if key[0] in names}

    async def _loss(self, name: str, cases: tuple[Case, ...]) -> Fault | None:
        node, now = self._nodes.get(name), self._clock.monotonic()
        if node is None or not self.sight(name, cases).lost:
            return None
        loss = loss_of(node, (), at=self._clock.now(), seconds=self._terms.lost_seconds)
        known = any(case.fault == loss.id or (case.of_node and not case.ended) for case in cases)
        if known or now - self._without_work.get(name, -LOOK_AGAIN_SECONDS) < LOOK_AGAIN_SECONDS:
            return None
        pods = await self._work_on(name)
        if not pods:
            self._without_work[name] = now
            return None
        return loss_of(node, pods, at=self._clock.now(), seconds=self._terms.lost_seconds)

    async def _work_on(self, name: str) -> tuple[str, ...]:
        """Return the pods with GPUs on a node that is still away when it is asked anew; empty: none, or nobody knows.

        The picture may be old: a watch that broke tells nothing.
        """
        try:
            fresh = await self._cluster.get(NODES, name)
            if fresh is None or node_view(fresh).ready:
                return ()
            listed = await self._cluster.list(PODS, fields=f"spec.nodeName={name}", project=pod_of)
        except EdgeError:
            return ()
        return tuple(sorted(pod.ref for pod in listed.items if is_work(pod)))


def loss_of(node: NodeView, pods: tuple[str, ...], *, at: float, seconds: float) -> Fault:
    """Return the loss of a node as a fault. No object tells of it: who would write one is away, and the Node shows it.

    Its name is the same as long as the loss lasts, whoever sees it: it is made of the time in the node's condition.
    """
    boot = safe_part(node.boot, PART_OF_NAME)
    named = ", ".join(pods[:_NAMED]) + (f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else "")
    verdict = Verdict(
        level=Level.P0,
        fault_class=FaultClass.UNKNOWN,
        action="Take the node out of service.",
        because=f"The node has not been Ready for {seconds:.0f} s, and pods with GPUs are on it: {named}.",
        rules=(NODE_LOST,),
        waits=False,
        parks=False,
        explained_by=None,
    )
    return Fault(
        id=fault_name(node.name, boot, f"lost-{safe_part(node.ready_since, PART_OF_NAME)}"),
        kind=NODE_LOST,
        code=None,
        title="the node does not answer",
        node=node.name,
        boot=boot,
        pci=None,
        gpu_uuid=None,
        first=Moment(wall=at, uptime=None),
        last=Moment(wall=at, uptime=None),
        count=1,
        pid=None,
        process=None,
        mig=None,
        verdict=verdict,
        evidence=(),
        details={},
    )


def proof_of(case: Case) -> int | None:
    """Return the number of the proof that the case of a node waits for; None when it waits for none."""
    if not case.of_node:
        return None
    asked = (one for one in case.effects if one.kind is EffectKind.VERIFY and one.outcome is Outcome.ASKED)
    return next((one.number for one in asked), None)
