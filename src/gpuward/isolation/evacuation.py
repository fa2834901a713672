"""Which pods of a node have to go for a fault, which are spared and why, and how long each may take. It evicts none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpuward.model.pod import PodSight

ALWAYS_EXCLUDED = frozenset({"kube-system"})
"""The mission: never kube-system, whatever the settings say."""


class Scope(StrEnum):
    """Whose pods have to go."""

    NODE = "node"
    """Every pod of the node: the mission's default."""
    GPU = "gpu"
    """Those that have a GPU, or a part of one."""
    SICK_GPU = "sick-gpu"
    """Those that have the GPU of the case."""


@dataclass(frozen=True, slots=True)
class EvictionTerms:
    """How pods are evicted. Seconds; `excluded` adds to the namespaces that are always left alone."""

    scope: Scope = Scope.NODE
    excluded: frozenset[str] = frozenset()
    grace_seconds: int = 60
    """The least; a pod that asks for longer gets it, within the deadline."""
    deadline_seconds: float = 600.0
    """How long a PodDisruptionBudget is asked again before the case is parked."""
    save_seconds: float = 30.0
    """How long the pods of a job that asked to be told may take to save before they are evicted."""
    force: bool = False
    """After the deadline the pods that a budget still holds are deleted."""


@dataclass(frozen=True, slots=True)
class Spared:
    """A pod that stays, and the reason."""

    pod: PodSight
    why: str


@dataclass(frozen=True, slots=True)
class Evacuation:
    """The pods of a node told apart, each in the order of its name."""

    victims: tuple[PodSight, ...]
    spared: tuple[Spared, ...]


@dataclass(frozen=True, slots=True)
class _Reason:
    """One row: pods that it fits are spared. `holders` are the UIDs of the pods that have the GPU of the case."""

    fits: Callable[[PodSight, EvictionTerms, frozenset[str]], bool]
    why: str


REASONS: tuple[_Reason, ...] = (
    _Reason(lambda pod, _terms, _holders: pod.ended, "it has ended"),
    _Reason(lambda pod, _terms, _holders: pod.mirror, "it is a static pod of the node: nothing in the cluster ends it"),
    _Reason(
        lambda pod, _terms, _holders: pod.owner is not None and pod.owner.kind == "DaemonSet",
        "its DaemonSet would put it back, and the GPU's own software may be among them",
    ),
    _Reason(
        lambda pod, terms, _holders: pod.namespace in ALWAYS_EXCLUDED | terms.excluded,
        "its namespace is left alone",
    ),
    _Reason(lambda pod, terms, _holders: terms.scope is not Scope.NODE and pod.gpus == 0, "it has no GPU"),
    _Reason(
        lambda pod, terms, holders: terms.scope is Scope.SICK_GPU and pod.uid not in holders,
        "it does not have this GPU",
    ),
)
"""Why a pod stays; the first that fits is told."""


def evacuation_of(
    pods: Iterable[PodSight], terms: EvictionTerms, *, holders: frozenset[str] = frozenset()
) -> Evacuation:
    """Return which pods have to go. `holders`: UIDs of the pods that have the GPU of the case."""
    victims: list[PodSight] = []
    spared: list[Spared] = []
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid)):
        why = next((row.why for row in REASONS if row.fits(pod, terms, holders)), None)
        if why is None:
            victims.append(pod)
        else:
            spared.append(Spared(pod, why))
    return Evacuation(tuple(victims), tuple(spared))


def grace_of(pod: PodSight, terms: EvictionTerms, *, left_seconds: float) -> int:
    """Return how long the pod may take to end: at least the terms' grace, its own if longer, within what is left."""
    return max(0, min(max(terms.grace_seconds, pod.grace_seconds), int(left_seconds)))
