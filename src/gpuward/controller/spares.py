"""Which standby node takes the place of a sick one, and which was released: looked at only, nothing is changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuward.controller.outcomes import NO_POOL, is_open
from gpuward.controller.views import GpuNodeView, NodeView, shape_of_node
from gpuward.isolation.fabric import FABRIC_KEYS
from gpuward.isolation.standby import Choice, StandbyNode, choose, claim_on, is_alike, words_of
from gpuward.model.case import Case, EffectKind, Outcome
from gpuward.model.job import JobRef
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.objects.owned import FAULT_TAINT, RESERVED, Taint, read_owned
from gpuward.model.objects.standby_pool import StandbyPool, StandbyTaint
from gpuward.model.objects.values import ObjectError
from gpuward.model.pod import PodSight


class Spares:
    """The pools and the nodes that stand by, at one moment. `given`: nodes that are a case's already, each once."""

    def __init__(
        self,
        nodes: Mapping[str, NodeView],
        gpus: Mapping[str, GpuNodeView],
        pools: Mapping[str, StandbyPool],
        *,
        given: Mapping[str, str],
        fabric: Sequence[str] = FABRIC_KEYS,
        fault_taint: str = FAULT_TAINT,
    ) -> None:
        self.given = dict(given)
        self._fabric = fabric
        self._fault_taint = fault_taint
        self._nodes = nodes
        self._gpus = gpus
        self._pools = pools
        self._worn: dict[tuple[str, str], list[str]] = {}

    def pool_of(self, node: str) -> StandbyPool | None:
        """Return the pool whose shape a node has; the first by name of several."""
        gpus = self._gpus.get(node)
        shape = None if gpus is None else shape_of_node(self._nodes.get(node), gpus, self._fabric)
        if shape is None:
            return None
        alike = (pool for _, pool in sorted(self._pools.items()) if is_alike(pool.spec.shape, shape))
        return next(alike, None)

    def standing_by(self, taint: StandbyTaint, *, but: str = "") -> list[StandbyNode]:
        """Return the nodes that wear a pool's taint, each with its shape and why it must not be used."""
        found = []
        for name in self._wearing(taint):
            node, gpus = self._nodes.get(name), self._gpus.get(name)
            if name == but or node is None or gpus is None or not wears(node, taint.key, taint.effect):
                continue
            shape = shape_of_node(node, gpus, self._fabric)
            if shape is not None:
                found.append(
                    StandbyNode(name, shape, unfit=self._unfit(node, gpus, Taint(taint.key, str(taint.effect))))
                )
        return found

    def of_pool(self, pool: StandbyPool) -> list[StandbyNode]:
        """Return the nodes that stand by for a pool; those that wear its taint in vain with why, another pool's not."""
        found = []
        for node in self.standing_by(pool.spec.taint):
            owner = self.pool_of(node.name)
            if owner is None:
                found.append(replace(node, unfit=f"has no pool's shape: {words_of(node.shape)}"))
            elif owner.head.name == pool.head.name:
                found.append(node)
            elif is_alike(pool.spec.shape, node.shape):
                found.append(
                    replace(node, unfit=f"is of StandbyPool {owner.head.name}, the first by name of its shape")
                )
        return found

    def claim_on(self, pool: StandbyPool) -> str:
        """Return why no node can be of a pool, in a sentence's part; empty where some can."""
        claim = claim_on(pool.head.name, {name: one.spec.shape for name, one in self._pools.items()})
        return (
            f"StandbyPool {claim.pool}, the first by name, has every node of its shape" if claim and claim.whole else ""
        )

    def _wearing(self, taint: StandbyTaint) -> list[str]:
        """Return the nodes that wore a pool's taint when they were first asked for; looked for once."""
        key = (taint.key, taint.effect)
        if key not in self._worn:
            self._worn[key] = sorted(name for name, node in self._nodes.items() if wears(node, *key))
        return self._worn[key]

    def why_none(self, node: str) -> str:
        """Return why no node could take the place of this one; empty when one could, or nobody keeps any."""
        return "" if self.pool_of(node) is None else self._choice(node).why

    def chosen_for(
        self, node: str, cases: Sequence[Case], saved: Mapping[str, GpuCase], *, job: JobRef | None
    ) -> tuple[dict[str, tuple[str, JobRef | None]], dict[str, str]]:
        """Return by case the node chosen for it with the job it is for, and why none was for those that got none."""
        chosen: dict[str, tuple[str, JobRef | None]] = {}
        none: dict[str, str] = {}
        if any(is_open(case) and _standby_of(saved[case.id]) for case in cases):
            return {}, {}  # what took the place of the node serves all its cases
        for case in cases:
            if not is_open(case) or not _is_promoting(case):
                continue
            if chosen:
                break
            choice = self._choice(node)
            if choice.node is None:
                none[case.id] = choice.why
            else:
                self.given[choice.node] = case.id
                chosen[case.id] = (choice.node, job)
        return chosen, none

    def released(self, saved: Mapping[str, GpuCase]) -> dict[str, str]:
        """Return by case the node that was chosen for it, once it is seen to be released and noted in its pool.

        One that was chosen for a case stands for the whole node, and so for the others that are open there.
        """
        found = {}
        for name, case in saved.items():
            node = None if case.status is None else self._nodes.get(case.status.standby)
            if node is None:
                continue
            pool = self.pool_of(node.name)
            if pool is None or (_is_noted(pool, name) and not wears(node, pool.spec.taint.key, pool.spec.taint.effect)):
                found[name] = node.name
        going = [name for name, case in saved.items() if is_open(as_case(case))]
        shared = next((found[name] for name in sorted(going) if name in found), "")
        return found | ({name: shared for name in going if not _standby_of(saved[name])} if shared else {})

    def _choice(self, node: str) -> Choice:
        pool, gpus = self.pool_of(node), self._gpus.get(node)
        shape = None if gpus is None else shape_of_node(self._nodes.get(node), gpus, self._fabric)
        if pool is None or shape is None:
            return Choice(None, why=NO_POOL)
        return choose(shape, self.standing_by(pool.spec.taint, but=node))

    def _unfit(self, node: NodeView, gpus: GpuNodeView, taint: Taint) -> str:
        if wears(node, self._fault_taint) or wears(node, RESERVED) or owned_taints(node) - {taint}:
            return "wears another taint of ours"
        return self.ails(node, gpus)

    def ails(self, node: NodeView, gpus: GpuNodeView) -> str:
        """Return what is amiss with a node itself, whatever taints of ours it wears; empty when nothing is seen."""
        if node.name in self.given:
            return f"is given to {self.given[node.name]}"
        if not node.ready:
            return "is not ready"
        if node.unschedulable:
            return "is cordoned"
        sick = next((gpu.pci for gpu in gpus.gpus if gpu.sight.lost or gpu.sight.present is not True), "")
        return f"has a GPU that is not seen to be well: {sick}" if sick else ""


def wears(node: NodeView, key: str, effect: str | None = None) -> bool:
    """Return whether a node wears a taint of this key, and of this effect where one is given."""
    taints = node.kept["spec"]["taints"]
    return any(one.get("key") == key and effect in {None, one.get("effect")} for one in taints)


def owned_taints(node: NodeView) -> frozenset[Taint]:
    """Return the taints that our note on a node says are ours; none where somebody has broken it."""
    try:
        return read_owned(node.kept).taints
    except ObjectError:
        return frozenset()


def job_of(pods: Mapping[str, PodSight], jobs: Mapping[str, JobRef]) -> JobRef | None:
    """Return the job whose pods have most of a node's GPUs; None where none has any that would come again."""
    gpus: dict[JobRef, int] = {}
    for pod in pods.values():
        job = jobs.get(pod.uid)
        if pod.gpus and not pod.ended and job is not None and job.uid and pod.owner is not None:
            gpus[job] = gpus.get(job, 0) + pod.gpus
    return max(sorted(gpus, key=lambda job: job.uid), key=lambda job: gpus[job], default=None)


def _standby_of(case: GpuCase) -> str:
    return "" if case.status is None else case.status.standby


def _is_promoting(case: Case) -> bool:
    asked = any(one.kind is EffectKind.PROMOTE and one.outcome is Outcome.ASKED for one in case.effects)
    return asked and case.drill is None


def _is_noted(pool: StandbyPool, case: str) -> bool:
    return pool.status is not None and any(one.case == case for one in pool.status.promoted)
