"""What became of the effects of a case, told from what is seen now. Nothing is done here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuward.controller.pausing import Answer, Clients, outcome_of
from gpuward.controller.terms import Terms
from gpuward.controller.views import GpuNodeView, NodeView
from gpuward.isolation.evacuation import EvictionTerms
from gpuward.isolation.machine import settle
from gpuward.isolation.tainting import is_tainted, taint_operations, value_of
from gpuward.model.case import ENDED, ON_A_SERVER, Case, CaseState, Effect, EffectKind, Order, Outcome
from gpuward.model.objects.gpu_case import GpuCase, Victim
from gpuward.model.objects.gpu_node import NO_BOOT, Health
from gpuward.model.objects.owned import read_owned
from gpuward.model.objects.values import ObjectError
from gpuward.model.pod import PodSight
from gpuward.model.scene import ANSWERS, NodeSight
from gpuward.ports import Evicted, Eviction, Object

NO_POOL = "no pool keeps nodes of its shape standing by"
GONE_SECONDS = 600.0
"""So long an agent is waited for on a node that has left the cluster: one that lives answers within seconds."""
GONE = "there is no such node any more, and no agent answers; if it comes back without a boot, it is undone then"
"""Kept in the case: by it is known that nobody has undone it (is_taken_for_undone)."""
LEFT = "the node has left the cluster, and no agent answers"
"""Why what an agent was ordered failed. What it may have done all the same stays a mark, which a release undoes."""
UNDOES = frozenset({EffectKind.UNDRAIN, EffectKind.RESTORE})
_BEFORE_REPAIR = frozenset(
    {CaseState.SUSPECT, CaseState.FENCED, CaseState.SAVING, CaseState.EVACUATING, CaseState.VACATED}
)
"""Where an undo ends the case, or its GPU stays drained: no proof rests on it."""
REHEARSED = "it was rehearsed: nothing was done"


@dataclass(slots=True)
class Heard:
    """What calls answered that no later look shows; lost with the process, for asking again does no harm."""

    refused: dict[tuple[str, int], str] = field(default_factory=dict)
    """By case and effect, why the API server will never allow it."""
    evictions: dict[str, Eviction] = field(default_factory=dict)
    """By the pod's UID, the newest answer."""
    asked_at: dict[str, float] = field(default_factory=dict)
    """By the pod's UID, when its eviction was asked for last, on the monotonic clock."""
    first_asked_at: dict[str, float] = field(default_factory=dict)
    """By the pod's UID, when it was asked for first, in seconds since 1970 UTC."""
    untold: dict[tuple[str, str], str] = field(default_factory=dict)
    """By case and the pod's UID, why it cannot be given the notice."""
    posted: set[tuple[str, str]] = field(default_factory=set)
    """The cases and the UIDs of pods whose notice the server has taken, or not, for the pod had changed."""
    unsure: dict[tuple[str, str | None], tuple[Object, float]] = field(default_factory=dict)
    """By node and GPU, the case that was to be opened, and when: nobody knows whether it was."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What is seen of one node; `pods` None: nobody could look, or nobody had to."""

    now: float
    name: str
    node: NodeView | None
    gpus: GpuNodeView | None
    pods: Mapping[str, PodSight] | None
    cases: Sequence[Case]
    victims: Mapping[str, tuple[Victim, ...]]
    """By case, the pods that it lists."""
    standby: Mapping[str, str]
    """By case, the node that was chosen to take its place, and is seen to be released; or empty."""
    no_standby: Mapping[str, str]
    """By case, why no node could be chosen."""
    eviction: EvictionTerms
    """How pods are evicted from the node."""
    told: Mapping[str, "Answer"]
    """By case, what became of its notice."""
    evict_from: Mapping[str, float]
    """By case, until when its pods are given that time: from then on the deadline of an eviction counts."""
    whole: NodeSight = ANSWERS
    clients: Clients = field(default_factory=Clients)
    """The GPU Operator's programs on the node."""
    agents_living: frozenset[str] = frozenset()
    """The cases that wait for the node's proof, and whose agent has shown since that it lives."""


def settled(case: Case, looked: Looked, heard: Heard, terms: Terms) -> Case:
    """Return the case with every outcome that can be told now."""
    for effect in case.effects:
        if effect.outcome is not Outcome.ASKED:
            continue
        told = _answer(case, effect, looked, heard=heard, terms=terms)
        if told is not None:
            at, boot = _ended_at(case, effect, looked), _ordered_on(case, effect, looked)
            case = settle(case, effect.number, told[0], at=at, why=told[1], boot=boot)
    return case


def _ordered_on(case: Case, effect: Effect, looked: Looked) -> str:
    """Return the boot on which an agent was ordered to do it: on a later one it may not stand any more."""
    return "" if looked.gpus is None else looked.gpus.ordered_on(order_id(case, effect))


def _ended_at(case: Case, effect: Effect, looked: Looked) -> float:
    """Return when an effect ended: what an agent did by its machine's clock, by which lines are stamped too."""
    answers = {} if effect.kind not in ON_A_SERVER or looked.gpus is None else looked.gpus.answers
    answer = answers.get(order_id(case, effect))
    return looked.now if answer is None else answer.at


def order_id(case: Case, effect: Effect) -> str:
    """Return by what an order to an agent is known, whoever gives it and however often.

    An undo that nobody did is another order when it is given again: the first may have reached its agent, which
    does none twice, and answers none that was taken away.
    """
    again = ".again" if effect.why == GONE else ""
    return f"{case.id}.{effect.number}{again}"


def wanted_value(cases: Sequence[Case], terms: Terms) -> str | None:
    """Return the value that the taint of a node shall have; a case that has its taint taken away counts no more."""
    return value_of((case for case in cases if not is_untainting(case)), terms.kinds)


def is_untainting(case: Case) -> bool:
    """Return whether the taint of a case is to be taken away."""
    newest = next((one for one in reversed(case.effects) if one.kind in _OF_TAINT), None)
    return newest is not None and newest.kind is EffectKind.UNTAINT


def is_taken_off(node: NodeView | None, terms: Terms) -> bool:
    """Return whether somebody took our taint off: our note says that it is there, and it is not."""
    if node is None or is_tainted(node.kept, terms.taint):
        return False
    try:
        return terms.taint in read_owned(node.kept).taints
    except ObjectError:
        return False


_OF_TAINT = frozenset({EffectKind.TAINT, EffectKind.UNTAINT})


def _answer(case: Case, effect: Effect, looked: Looked, *, heard: Heard, terms: Terms) -> Answer | None:
    refused = heard.refused.get((case.id, effect.number))
    if refused is not None:
        return Outcome.FAILED, refused
    if effect.kind in ON_A_SERVER:
        return _proven(case, effect, looked, terms) if case.of_node else _done_on_the_node(case, effect, looked)
    if case.drill is not None:
        return Outcome.DONE, REHEARSED
    return _SEEN[effect.kind](case, effect, looked, heard, terms)


def _done_on_the_node(case: Case, effect: Effect, looked: Looked) -> Answer | None:
    told = _told_by_agent(case, effect, looked)
    if told is None and looked.node is None and looked.now - effect.asked_at >= GONE_SECONDS:
        return _left_undone(case, effect)
    if case.drill is not None or effect.kind not in {EffectKind.PAUSE, EffectKind.RESTORE}:
        return told
    waited = looked.now - _begun_at(case, effect, looked)
    return outcome_of(case, effect, looked.clients, cases=looked.cases, waited=waited, told=told)


def _begun_at(case: Case, effect: Effect, looked: Looked) -> float:
    """Return since when it is waited: since the agent's answer, for it may have been off for long; by a sane clock."""
    answer = None if looked.gpus is None else looked.gpus.answers.get(order_id(case, effect))
    is_sane = answer is not None and effect.asked_at <= answer.at <= looked.now
    return answer.at if answer is not None and is_sane else effect.asked_at


def _left_undone(case: Case, effect: Effect) -> Answer:
    """Return what became of an effect on a node that has left the cluster: an undo that ends the case is not missed.

    One that a repair, or its proof, goes on with has failed: nobody knows how the node is.
    """
    ends = case.order is Order.RELEASE or case.state in _BEFORE_REPAIR
    return (Outcome.DONE, GONE) if ends and effect.kind in UNDOES else (Outcome.FAILED, LEFT)


def is_taken_for_undone(effect: Effect) -> bool:
    """Return whether an undo ended because its node had left the cluster, and nobody did it."""
    return effect.kind in UNDOES and effect.outcome is Outcome.DONE and effect.why == GONE


def _told_by_agent(case: Case, effect: Effect, looked: Looked) -> Answer | None:
    answer = None if looked.gpus is None else looked.gpus.answers.get(order_id(case, effect))
    if answer is None or answer.outcome is Outcome.ASKED:
        return None
    return answer.outcome, answer.why


def _tainted(_case: Case, _effect: Effect, looked: Looked, _heard: Heard, terms: Terms) -> Answer | None:
    if looked.node is None:
        return Outcome.FAILED, f"there is no node {looked.name} any more"
    if not is_tainted(looked.node.kept, terms.taint):
        return None
    return Outcome.DONE, ""


def _untainted(_case: Case, _effect: Effect, looked: Looked, _heard: Heard, terms: Terms) -> Answer | None:
    if looked.node is None:
        return Outcome.DONE, f"there is no node {looked.name} any more"
    try:
        left = taint_operations(looked.node.kept, wanted_value(looked.cases, terms), at=looked.now, taint=terms.taint)
    except ObjectError as error:
        return Outcome.FAILED, f"{error}; put it right by hand"
    return None if left else (Outcome.DONE, "")


def _promoted(case: Case, _effect: Effect, looked: Looked, _heard: Heard, _terms: Terms) -> Answer | None:
    why = looked.no_standby.get(case.id)
    if why is not None:
        return Outcome.REFUSED if why == NO_POOL else Outcome.FAILED, why
    node = looked.standby.get(case.id)
    return (Outcome.DONE, f"node {node} was released for its work") if node else None


def _noticed(case: Case, _effect: Effect, looked: Looked, _heard: Heard, _terms: Terms) -> Answer | None:
    return looked.told.get(case.id)


def _evicted(case: Case, effect: Effect, looked: Looked, heard: Heard, _terms: Terms) -> Answer | None:
    if looked.pods is None:
        return None
    left = [pod for one in looked.victims.get(case.id, ()) if (pod := victim_pod(one, looked.pods)) is not None]
    if not left:
        return Outcome.DONE, ""
    why = _hopeless(case, left, looked, heard)
    asked_for = looked.now - max(effect.asked_at, looked.evict_from.get(case.id, 0.0))
    # With force, what a budget still holds is deleted, for as long again as the deadline is.
    if not why and asked_for < looked.eviction.deadline_seconds * (2 if looked.eviction.force else 1):
        return None
    return Outcome.FAILED, why or _shortened([_why_left(pod, heard.evictions.get(pod.uid)) for pod in left])


def _hopeless(case: Case, left: Sequence[PodSight], looked: Looked, heard: Heard) -> str:
    """Return why the pods that are left will not go, or shall not, however long they are waited for."""
    if case.order is Order.RELEASE:
        return "it was released: no more pods are asked to go"
    whys = [(pod, heard.evictions.get(pod.uid)) for pod in left]
    tangled = [f"{pod.ref}: {why.why}" for pod, why in whys if why is not None and why.outcome is Evicted.TANGLED]
    if not tangled and case.of_node and not looked.whole.answers and all(pod.ending for pod in left):
        tangled = [_why_left(pod, None) for pod in left]
    return _shortened(tangled)


def _cleared(case: Case, effect: Effect, looked: Looked, _heard: Heard, _terms: Terms) -> Answer | None:
    if looked.whole.answers:
        return Outcome.FAILED, "the node answers again: its pods may run"
    if looked.pods is None:
        return None
    left = [pod for one in looked.victims.get(case.id, ()) if (pod := victim_pod(one, looked.pods)) is not None]
    if not left:
        return Outcome.DONE, ""
    if looked.now - effect.asked_at < looked.eviction.deadline_seconds:
        return None
    return Outcome.FAILED, _shortened([_why_left(pod, None) for pod in left])


def _rebooted(case: Case, effect: Effect, looked: Looked, _heard: Heard, terms: Terms) -> Answer | None:
    """Return whether the node answers on another boot, and its agent too."""
    if looked.whole.gone:
        return Outcome.FAILED, f"node {looked.name} has left the cluster"
    boot = looked.whole.boot
    is_another = bool(boot) and boot != case.boot
    agents = "" if looked.gpus is None else looked.gpus.boot
    if is_another and looked.whole.answers and agents in {boot, NO_BOOT}:
        return Outcome.DONE, ""
    if looked.now - effect.asked_at < terms.reboot.deadline_seconds:
        return None
    minutes = f"{terms.reboot.deadline_seconds / 60:.0f} min"
    if not is_another:
        return Outcome.FAILED, f"it was not rebooted within {minutes}: look at the Job, and at its console"
    what = "its agent does not tell of its GPUs" if looked.whole.answers else "it does not answer"
    return Outcome.FAILED, f"it was rebooted, and {what} after {minutes}"


def _proven(case: Case, effect: Effect, looked: Looked, terms: Terms) -> Answer | None:
    """Return whether a node that answers again is well: its agent lives, and tells so of every GPU without a case."""
    if looked.whole.lost or looked.whole.gone:
        return Outcome.FAILED, "the node stopped answering again"
    why = _unproven(case, looked)
    if not why and looked.whole.answers:
        return Outcome.DONE, ""
    return (Outcome.FAILED, why) if looked.now - effect.asked_at >= terms.proof_seconds else None


def _unproven(case: Case, looked: Looked) -> str:
    if case.id not in looked.agents_living:
        return "its agent has not renewed its Lease since the node answers again"
    gpus, node = looked.gpus, looked.node
    if gpus is None or not gpus.gpus:
        return "its agent tells of no GPU"
    if node is not None and node.boot and gpus.boot not in {node.boot, "", NO_BOOT}:
        return "its agent tells of the GPUs as they were before the node was started again"
    cased = {one.gpu for one in looked.cases if is_open(one)}
    sick = (gpu for gpu in gpus.gpus if gpu.health is not Health.HEALTHY and gpu.pci not in cased)
    return next((f"GPU {gpu.pci} is {gpu.health}{f': {gpu.because}' if gpu.because else ''}" for gpu in sick), "")


def victim_pod(victim: Victim, pods: Mapping[str, PodSight]) -> PodSight | None:
    """Return the pod of a victim's name that is there and has not ended; one that came in its place has to go too."""
    pod = pods.get(victim.pod)
    return None if pod is None or pod.ended else pod


def returned_to(found: GpuCase, pods: Mapping[str, PodSight]) -> tuple[str, ...]:
    """Return the victims in whose place another pod is there, or whose eviction was never asked for."""
    victims = () if found.status is None else found.status.victims
    there = ((one, pod) for one in victims if (pod := victim_pod(one, pods)) is not None and not pod.ending)
    return tuple(one.pod for one, pod in there if one.uid != pod.uid or one.asked_at is None)


_OF_KUBERNETES = frozenset({"batch.kubernetes.io/job-tracking"})
"""On every pod of a Job: its controller takes it off by itself, when it has counted the pod."""


def why_there(pod: PodSight, answer: Eviction | None) -> str:
    """Return why a pod that was asked to go is still there; empty while nothing keeps it but its own grace."""
    is_kept = bool(set(pod.finalizers) - _OF_KUBERNETES) if pod.ending else answer is not None and bool(answer.why)
    return _why_left(pod, answer) if is_kept else ""


def _why_left(pod: PodSight, answer: Eviction | None) -> str:
    if pod.ending and pod.finalizers:
        return f"{pod.ref} is ending, and waits for its finalizers: {', '.join(pod.finalizers)}"
    if pod.ending:
        return f"{pod.ref} was asked to end, and does not"
    return f"{pod.ref}: {answer.why}" if answer is not None and answer.why else f"{pod.ref} is still there"


def _shortened(whys: Sequence[str]) -> str:
    most = 3
    more = f"; and {len(whys) - most} more" if len(whys) > most else ""
    return "; ".join(whys[:most]) + more


_SEEN: Mapping[EffectKind, Callable[[Case, Effect, Looked, Heard, Terms], Answer | None]] = {
    EffectKind.TAINT: _tainted,
    EffectKind.UNTAINT: _untainted,
    EffectKind.PROMOTE: _promoted,
    EffectKind.NOTICE: _noticed,
    EffectKind.EVICT: _evicted,
    EffectKind.CLEAR: _cleared,
    EffectKind.REBOOT: _rebooted,
}
"""How each effect that the controller does itself is seen to be done."""


def wears_taint(case: Case) -> bool:
    """Return whether the taint was put there for the case, and nobody asked for the case's release yet."""
    done = any(one.kind is EffectKind.TAINT and one.outcome is Outcome.DONE for one in case.effects)
    return done and case.drill is None and case.order is not Order.RELEASE and not is_untainting(case)


def is_open(case: Case) -> bool:
    """Return whether the work on a case goes on."""
    return case.state not in ENDED
