"""What would go wrong with gpuward on a cluster, before it does, as rows. Looking at the cluster is not here.

Each row is one trouble: where it stands, why that matters, what to do, and how it is known.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpuward.audit.facts import ClusterFacts, DisruptionBudget, Finding, Hit, OurTaint, Sure
from gpuward.audit.rivals import rivals_of
from gpuward.audit.stack import Place, part_of, place_of
from gpuward.model.counted import many
from gpuward.model.daemon_set import NOT_AGAIN, DaemonSetSight
from gpuward.model.pod import PodSight
from gpuward.model.selector import selects

SILENT_SECONDS = 90.0
"""An agent says every 20 s that it lives, and is taken for dead after 60."""
_WHOLE = 100
_NAMED = 8
"""So many are named where one finding is about many; the others are counted."""
Find = Callable[[ClusterFacts], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Row:
    """One trouble. The sentences may name the words of the hit in braces; one that `blocks` keeps us from our work."""

    id: str
    what: str
    why: str
    remedy: str
    blocks: bool
    sure: Sure
    find: Find


def findings_of(facts: ClusterFacts) -> tuple[Finding, ...]:
    """Return what is found, what blocks first, in the order of the rows."""
    found = [_finding(row, hit) for row in ROWS for hit in row.find(facts)]
    return tuple(sorted(found, key=lambda one: not one.blocks))


def _finding(row: Row, hit: Hit) -> Finding:
    words = {"subject": hit.subject, **hit.words}
    return Finding(
        id=row.id,
        subject=hit.subject,
        what=row.what.format(**words),
        why=row.why.format(**words),
        remedy=row.remedy.format(**words),
        values=hit.values,
        blocks=row.blocks,
        sure=row.sure,
    )


def lacking(one: DaemonSetSight, taints: Sequence[OurTaint]) -> tuple[OurTaint, ...]:
    """Return which of these taints the pods of a DaemonSet do not bear."""
    return tuple(ours for ours in taints if not one.bears(ours.taint, ours.value))


def _unseen(facts: ClusterFacts) -> Iterator[Hit]:
    """Yield one hit for each reason: where nothing may be read, that is told once."""
    by_reason: dict[str, list[str]] = {}
    for said in facts.unseen:
        what, _, reason = said.partition(": ")
        by_reason.setdefault(reason, []).append(what)
    for reason, whats in by_reason.items():
        yield Hit("the cluster", {"why": f"{_named(whats)}{': ' if reason else ''}{reason}"})


def _policies_unknown(facts: ClusterFacts) -> Iterator[Hit]:
    if not facts.serves_policies:
        yield Hit("the API server")


def _is_installed(facts: ClusterFacts) -> bool:
    return bool(facts.installed.there)


def _not_installed(facts: ClusterFacts) -> Iterator[Hit]:
    if facts.installed.missing and not _is_installed(facts):
        yield Hit("the cluster", {"version": facts.version})


def _missing(facts: ClusterFacts) -> Iterator[Hit]:
    if facts.installed.missing and _is_installed(facts):
        yield Hit(_named(facts.installed.missing), {"version": facts.version})


def _differing(facts: ClusterFacts) -> Iterator[Hit]:
    if facts.installed.differing:
        yield Hit(_named(facts.installed.differing), {"version": facts.version})


def _stack_untolerating(facts: ClusterFacts) -> Iterator[Hit]:
    """Yield a hit for each place where tolerations are set, with the DaemonSets that it is for."""
    grouped: dict[tuple[Place, tuple[OurTaint, ...]], list[DaemonSetSight]] = {}
    for one in facts.daemon_sets:
        lacks = lacking(one, facts.taints)
        if lacks and part_of(one) is not None:
            grouped.setdefault((place_of(one), lacks), []).append(one)
    for (place, lacks), sets in grouped.items():
        without = dict.fromkeys(part.without for one in sets if (part := part_of(one)) is not None)
        words = {"place": place.says, "taints": _taints(lacks), "without": "; ".join(without)}
        yield Hit(_named([f"DaemonSet {one.ref}" for one in sets]), words, tuple(ours.toleration() for ours in lacks))


def _others_untolerating(facts: ClusterFacts) -> Iterator[Hit]:
    owners = {pod.owner.uid for pod in facts.pods if pod.owner is not None and pod.owner.kind == "DaemonSet"}
    for one in facts.daemon_sets:
        lacks = lacking(one, facts.taints)
        if lacks and one.uid in owners and part_of(one) is None:
            words = {"place": place_of(one).says, "taints": _taints(lacks)}
            yield Hit(f"DaemonSet {one.ref}", words, tuple(ours.toleration() for ours in lacks))


def _rivals(facts: ClusterFacts) -> Iterator[Hit]:
    for row, told_by in rivals_of(facts):
        yield Hit(row.name, {"told_by": told_by, "does": row.does, "remedy": row.remedy})


def _agentless(facts: ClusterFacts) -> Iterator[Hit]:
    nodes = [one.name for one in facts.servers if not one.agent]
    if nodes and _is_installed(facts):
        yield Hit(_named([f"node {name}" for name in nodes]), {"count": many(len(nodes), "node")})


def _silent_agents(facts: ClusterFacts) -> Iterator[Hit]:
    silent = [
        f"node {one.name}"
        for one in facts.servers
        if one.agent and (one.silent_seconds is None or one.silent_seconds > SILENT_SECONDS)
    ]
    if silent:
        yield Hit(_named(silent))


def _other_agents(facts: ClusterFacts) -> Iterator[Hit]:
    others = [f"node {one.name} ({one.agent})" for one in facts.servers if one.agent not in {"", facts.version}]
    if others:
        yield Hit(_named(others), {"version": facts.version})


def _budgets_never_met(facts: ClusterFacts) -> Iterator[Hit]:
    for budget in facts.budgets:
        why, covered = _never(budget), _covered(budget, facts.pods)
        if why and covered:
            words = {"reason": why, "pods": _named([pod.ref for pod in covered])}
            yield Hit(f"PodDisruptionBudget {budget.ref}", words)


def _pods_of_two_budgets(facts: ClusterFacts) -> Iterator[Hit]:
    tangled: dict[tuple[str, ...], list[str]] = {}
    for pod in filter(_is_evictable, facts.pods):
        names = tuple(sorted(one.ref for one in facts.budgets if _covers(one, pod)))
        if len(names) > 1:
            tangled.setdefault(names, []).append(f"pod {pod.ref}")
    for names, pods in tangled.items():
        yield Hit(_named(pods), {"budgets": " and ".join(names)})


def _leaderless(facts: ClusterFacts) -> Iterator[Hit]:
    if not facts.leader and _is_installed(facts):
        yield Hit("the controllers")


def _short_pools(facts: ClusterFacts) -> Iterator[Hit]:
    for pool in facts.pools:
        if pool.short:
            words = {"short": str(pool.short), "size": many(pool.size, "node"), "because": pool.because or "not said"}
            yield Hit(f"StandbyPool {pool.name}", words)


def _claimed_pools(facts: ClusterFacts) -> Iterator[Hit]:
    for pool in facts.pools:
        if pool.first:
            nodes = "every node of its shape" if pool.wholly else "a node of both shapes"
            yield Hit(f"StandbyPool {pool.name}", {"first": pool.first, "nodes": nodes})


def _never(budget: DisruptionBudget) -> str:
    """Return why a budget allows no eviction, however well its pods are; empty when it may allow one."""
    if budget.most in {0, "0", "0%"}:
        return f"maxUnavailable is {budget.most}"
    if isinstance(budget.least, str) and budget.least.rstrip("%") == str(_WHOLE):
        return f"minAvailable is {budget.least}"
    if isinstance(budget.least, int) and budget.expected and budget.least >= budget.expected:
        return f"minAvailable is {budget.least}, and it counts on {many(budget.expected, 'pod')}"
    return ""


def _covered(budget: DisruptionBudget, pods: Sequence[PodSight]) -> list[PodSight]:
    return [pod for pod in pods if _is_evictable(pod) and _covers(budget, pod)]


def _covers(budget: DisruptionBudget, pod: PodSight) -> bool:
    return budget.namespace == pod.namespace and selects(budget.selector, pod.labels)


def _is_evictable(pod: PodSight) -> bool:
    """Return whether a pod would be asked to leave a sick node."""
    of_daemon = pod.owner is not None and pod.owner.kind == "DaemonSet"
    return not (of_daemon or pod.mirror or pod.ended or pod.namespace == "kube-system")


def _taints(ours: Sequence[OurTaint]) -> str:
    return ", ".join(str(one.taint) for one in ours)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


ROWS: tuple[Row, ...] = (
    Row(
        "P-unseen",
        "A part of the cluster could not be looked at: {why}",
        "What nobody has seen is not in order.",
        "Look again with the rights to read it.",
        blocks=True,
        sure=Sure.SEEN,
        find=_unseen,
    ),
    Row(
        "P-policy",
        "The API server does not serve ValidatingAdmissionPolicy in version v1.",
        "Nothing would hold an agent to its own node: one that was broken into could write for all others.",
        "Use API server 1.30 or later, or switch admissionregistration.k8s.io/v1 on.",
        blocks=True,
        sure=Sure.SEEN,
        find=_policies_unknown,
    ),
    Row(
        "P-not-installed",
        "Nothing of gpuward is there.",
        "It is not installed yet, or in another namespace.",
        "Install it when nothing blocks: gpuward install, or say --namespace.",
        blocks=False,
        sure=Sure.SEEN,
        find=_not_installed,
    ),
    Row(
        "P-missing",
        "Of what version {version} needs, this is missing: {subject}.",
        "Without its kinds, policy, rights and lanes gpuward works in part, or less safely than it says.",
        "Apply the whole again: gpuward install.",
        blocks=True,
        sure=Sure.SEEN,
        find=_missing,
    ),
    Row(
        "P-other-version",
        "This is not as version {version} brings it: {subject}.",
        "Another version installed it, or somebody changed it; agents and controllers may be refused what they need.",
        "Apply the objects of this version: gpuward install. Or look with the version that runs there.",
        blocks=True,
        sure=Sure.SEEN,
        find=_differing,
    ),
    Row(
        "P-stack-taint",
        "{subject}: no toleration of {taints}.",
        f"{NOT_AGAIN} Then {{without}}.",
        "Add these to {place}",
        blocks=True,
        sure=Sure.SEEN,
        find=_stack_untolerating,
    ),
    Row(
        "P-daemon-taint",
        "{subject}: it runs on nodes with GPUs and has no toleration of {taints}.",
        NOT_AGAIN,
        "If the node needs it, add these to {place}",
        blocks=False,
        sure=Sure.SEEN,
        find=_others_untolerating,
    ),
    Row(
        "P-rival",
        "{subject} is there ({told_by}): it {does}.",
        "Two that act on one node may undo or hinder each other.",
        "Settle who acts: {remedy}.",
        blocks=False,
        sure=Sure.DOCUMENTED,
        find=_rivals,
    ),
    Row(
        "P-no-agent",
        "No agent is on {count} with GPUs: {subject}.",
        "Their faults are not seen.",
        "See whether the DaemonSet of the agent wants a pod there and why it has none; the label "
        "gpuward.io/gpus=present puts it on a node that feature discovery does not know.",
        blocks=True,
        sure=Sure.SEEN,
        find=_agentless,
    ),
    Row(
        "P-silent-agent",
        "Agents that were there say nothing any more: {subject}.",
        "The faults of these nodes are not seen, and orders are not done.",
        "Look at the log of the agent's pod there; if it is not so, see that the clocks agree.",
        blocks=True,
        sure=Sure.CLOCK,
        find=_silent_agents,
    ),
    Row(
        "P-agent-version",
        "Agents of another version than {version}: {subject}.",
        "During an upgrade that passes; afterwards they may not know an order.",
        "Let the DaemonSet finish its roll-out, or use the version of gpuward that runs there.",
        blocks=False,
        sure=Sure.SEEN,
        find=_other_agents,
    ),
    Row(
        "P-budget-never",
        "{subject} allows no eviction at all: {reason}. It covers {pods}.",
        "On a sick node these pods stay until the deadline, and the case is parked.",
        "Let at least one pod be away, or delete the budget.",
        blocks=True,
        sure=Sure.SEEN,
        find=_budgets_never_met,
    ),
    Row(
        "P-budget-two",
        "{subject}: covered by more than one PodDisruptionBudget, {budgets}.",
        "The API server evicts no such pod, whatever the budgets say, and the case is parked at once.",
        "Delete one of the budgets, or change what it selects.",
        blocks=True,
        sure=Sure.SEEN,
        find=_pods_of_two_budgets,
    ),
    Row(
        "P-no-leader",
        "No controller leads.",
        "Faults open no cases; an agent alone takes out one GPU with a hardware fault at P0, and no more.",
        "Look at the Deployment of the controller and its log; its nodes must be without GPUs.",
        blocks=True,
        sure=Sure.CLOCK,
        find=_leaderless,
    ),
    Row(
        "P-pool-short",
        "{subject} lacks {short} of {size}: {because}.",
        "A patient fault waits until a node stands by; the work of an urgent one may find no place.",
        "Add nodes of its shape with its taint, or make it smaller.",
        blocks=False,
        sure=Sure.SEEN,
        find=_short_pools,
    ),
    Row(
        "P-pool-claimed",
        "{subject} overlaps StandbyPool {first}: {nodes} is of StandbyPool {first}, the first by name.",
        "A node is of one pool; what stands by under the taint of the other takes no place there, and is not counted.",
        "Make one pool of both, or give their shapes something that differs.",
        blocks=False,
        sure=Sure.SEEN,
        find=_claimed_pools,
    ),
)
