"""The programs of the GPU Operator during a repair: kept off the node before, let back after it, by labels of the node.

What the saved cases ask for is derived here, and told what became of it; several cases of a node share the labels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuward.controller.pace import Pace
from gpuward.controller.views import GpuNodeView
from gpuward.isolation.clients import GATES, NodeClients, is_client
from gpuward.model.case import ENDED, Case, Effect, EffectKind, Outcome
from gpuward.model.daemon_set import DaemonSetSight, daemon_set_of
from gpuward.model.objects.gpu_case import Former
from gpuward.model.objects.gpu_node import NodeGpu
from gpuward.model.objects.owned import PAUSED
from gpuward.model.objects.values import ObjectError
from gpuward.model.pod import PodSight
from gpuward.model.resource import DAEMON_SETS
from gpuward.model.scene import GpuSight
from gpuward.ports import Cluster, EdgeError

GONE_SECONDS = 300.0
"""How long the pods of these programs may take to end."""
BACK_SECONDS = 600.0
"""How long they may take to run again; both as NVSentinel has them."""
HANDOVER_SECONDS = 120.0
"""How long the labels wait for the agent to put back what it had stopped: one that is gone must not hold them up."""
KEPT_SECONDS = 2.0
MOST_KNOWN = 20_000
_OF_PAUSE = frozenset({EffectKind.PAUSE, EffectKind.RESTORE})
Answer = tuple[Outcome, str]
"""What became of an effect, and why."""


@dataclass(frozen=True, slots=True)
class Clients:
    """What is seen of these programs on one node. `seen` None: nobody could look, or nobody had to."""

    seen: NodeClients | None = None
    formers: Mapping[str, tuple[Former, ...]] = field(default_factory=dict)
    """By case, the labels that it has written down to be put back."""
    holders: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By the address of a GPU, the UIDs of the pods whose processes hold it."""


class Daemons:
    """The DaemonSets of the cluster, read when they are needed and kept for a moment."""

    def __init__(self, cluster: Cluster, pace: Pace) -> None:
        self._cluster = cluster
        self._pace = pace
        self._seen: tuple[float, tuple[DaemonSetSight, ...]] | None = None

    async def listed(self) -> tuple[DaemonSetSight, ...] | None:
        """Return all of them, None when they cannot be read."""
        now = self._pace.clock.monotonic()
        if self._seen is None or now - self._seen[0] >= KEPT_SECONDS:
            try:
                found = await self._cluster.list(DAEMON_SETS, project=daemon_set_of)
            except EdgeError:
                return None
            self._seen = (now, found.items)
        return self._seen[1]


class ClientBook:
    """Which pods were seen to be no work, by their UID: a pod changes neither its owner nor what it asked for."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def learn(self, pods: Iterable[PodSight]) -> None:
        """Take in what pods are."""
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known.update((pod.uid, is_client(pod)) for pod in pods)

    def knows(self, gpu: NodeGpu | None) -> bool:
        """Return whether it is known of all pods that hold a GPU what they are."""
        return gpu is None or all(hold.uid in self._known for hold in gpu.holds)

    def seen(self, view: GpuNodeView | None) -> GpuNodeView | None:
        """Return the GPUs of a node as a decision sees them: a program that only looks at one is no work."""
        if view is None or not any(gpu.holds for gpu in view.gpus):
            return view
        return replace(view, gpus=tuple(replace(gpu, sight=self._sight(gpu)) for gpu in view.gpus))

    def _sight(self, gpu: NodeGpu) -> GpuSight:
        looking = {hold.words for hold in gpu.holds if self._known.get(hold.uid)}
        if not looking or gpu.sight.work is None:
            return gpu.sight
        return replace(gpu.sight, work=tuple(words for words in gpu.sight.work if words not in looking))


def is_asking(case: Case) -> bool:
    """Return whether it must be seen now which of these programs are on the node."""
    asked = any(one.kind in _OF_PAUSE and one.outcome is Outcome.ASKED for one in case.effects)
    return asked and _counts(case)


def is_pausing(case: Case) -> bool:
    """Return whether a case wants these programs away: nothing was put back, or is to be, since it had them stopped."""
    newest = _newest(case)
    stands = newest is not None and newest.outcome in {Outcome.ASKED, Outcome.DONE}
    return stands and newest is not None and newest.kind is EffectKind.PAUSE and _counts(case)


def holding_pods(gpus: GpuNodeView | None) -> dict[str, frozenset[str]]:
    """Return by address the UIDs of the pods whose processes hold each GPU."""
    return {} if gpus is None else {gpu.pci: frozenset(hold.uid for hold in gpu.holds) for gpu in gpus.gpus}


def formers_for(case: Case, clients: Clients) -> tuple[Former, ...]:
    """Return the labels that a case must have written down before they are changed; those it has where none must."""
    known = clients.formers.get(case.id, ())
    newest = _newest(case)
    seen = clients.seen
    if seen is None or newest is None or newest.kind is not EffectKind.PAUSE or not is_asking(case):
        return known
    try:
        found = {} if seen.why_not(_holders(case, clients)) else seen.to_pause()
    except ObjectError:
        return known
    return tuple(Former(gate, value) for gate, value in sorted(found.items())) or known


def wanted_labels(
    cases: Sequence[Case],
    formers: Mapping[str, tuple[Former, ...]],
    labels: Mapping[str, str],
    *,
    waits: frozenset[str],
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the labels that shall say that these programs are away, and those that shall say what they said before.

    A label is changed only while it still says what the case has written down.
    `waits`: the cases whose agent is still to put back what it had stopped, by their ids.
    """
    away = [case for case in cases if is_pausing(case) or case.id in waits]
    noted = [one for case in away for one in formers.get(case.id, ()) if one.label in GATES]
    put = {one.label: PAUSED for one in noted if labels.get(one.label) == one.value}
    return put, GATES - {one.label for one in noted}


def waiting_for_agents(cases: Sequence[Case], is_told: Callable[[Case, Effect], bool], *, now: float) -> frozenset[str]:
    """Return the cases whose labels wait for their agent, for a while."""
    found = ((case, _newest(case)) for case in cases if _counts(case))
    return frozenset(
        case.id
        for case, one in found
        if one is not None
        and (one.kind, one.outcome) == (EffectKind.RESTORE, Outcome.ASKED)
        and not is_told(case, one)
        and now - one.asked_at < HANDOVER_SECONDS
    )


def may_order(case: Case, clients: Clients) -> bool:
    """Return whether the agent may be told to stop the services of the host: these programs are gone from the node."""
    seen = clients.seen
    if seen is None:
        return False
    try:
        return not (seen.why_not(_holders(case, clients)) or seen.to_pause() or seen.still_there())
    except ObjectError:
        return False


def outcome_of(
    case: Case, effect: Effect, clients: Clients, *, cases: Sequence[Case], waited: float, told: Answer | None
) -> Answer | None:
    """Return what became of a pause or of its end, after so many seconds; `told` is what the agent said of its part."""
    try:
        if effect.kind is EffectKind.PAUSE:
            return told or _paused(case, clients, waited=waited)
        if told is None or told[0] is not Outcome.DONE:
            return told
        return _restored(case, clients, cases, waited=waited) or told
    except _NotYet:
        return None
    except ObjectError as error:
        return Outcome.FAILED, f"{error}; put it right by hand"


class _NotYet(Exception):
    """It is to be seen later."""


def _paused(case: Case, clients: Clients, *, waited: float) -> Answer | None:
    seen = clients.seen
    if seen is None:
        return _within(GONE_SECONDS, waited, "nobody could see which programs hold the GPU")
    refusal = seen.why_not(_holders(case, clients))
    if refusal:
        return Outcome.REFUSED, refusal
    back = [f"somebody set {label} back" for label in seen.to_pause() if label in seen.ours]
    left = [*back, *seen.still_there()]
    return _within(GONE_SECONDS, waited, f"still on the node: {', '.join(left)}") if left else None


def _restored(case: Case, clients: Clients, cases: Sequence[Case], *, waited: float) -> Answer | None:
    gates = frozenset(one.label for one in clients.formers.get(case.id, ()))
    if not gates:
        return None
    others = [other.id for other in cases if other.id != case.id and is_pausing(other)]
    if others:
        return Outcome.DONE, f"the GPU Operator's programs come back with the last that needs them away: {others[0]}"
    if clients.seen is None:
        return _within(BACK_SECONDS, waited, "nobody could see whether the GPU Operator's programs are back")
    ours = sorted(gates & clients.seen.ours.keys())
    missing = [f"the label {label} was not put back" for label in ours] or clients.seen.not_back(gates)
    return _within(BACK_SECONDS, waited, f"not back on the node: {', '.join(missing)}") if missing else None


def _within(seconds: float, waited: float, otherwise: str) -> Answer:
    """Return that it failed. Raises _NotYet while its time is not over."""
    if waited < seconds:
        raise _NotYet
    return Outcome.FAILED, f"{otherwise}, after {seconds:.0f} s"


def _holders(case: Case, clients: Clients) -> frozenset[str]:
    return clients.holders.get(case.gpu, frozenset())


def _newest(case: Case) -> Effect | None:
    return next((one for one in reversed(case.effects) if one.kind in _OF_PAUSE), None)


def _counts(case: Case) -> bool:
    return case.drill is None and not case.of_node and case.state not in ENDED
