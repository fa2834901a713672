"""What is known of a cluster when it is looked over, and what such a look finds. How it was seen is not here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpuward.model.daemon_set import DaemonSetSight
from gpuward.model.objects.owned import Taint
from gpuward.model.pod import PodSight


@dataclass(frozen=True, slots=True)
class GpuServer:
    """A node with GPUs. `agent` is the version that its GPUNode tells, empty where there is none."""

    name: str
    agent: str = ""
    silent_seconds: float | None = None
    """How long ago its agent renewed its Lease, by the clock of whoever looked; None: it has none."""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget. `least` and `most` are minAvailable and maxUnavailable as they stand there."""

    namespace: str
    name: str
    selector: Any
    least: int | str | None = None
    most: int | str | None = None
    expected: int | None = None
    """How many pods it counts on; None: nobody has counted."""

    @property
    def ref(self) -> str:
        """Its name with its namespace."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Program:
    """A Deployment, StatefulSet or DaemonSet, whoever's."""

    kind: str
    namespace: str
    name: str
    images: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """How people call it."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class OurTaint:
    """A taint that gpuward may put on a node; `value` None: it changes, so that only `Exists` tolerates it."""

    taint: Taint
    value: str | None = None

    def toleration(self) -> dict[str, str]:
        """Return what a pod says to bear it."""
        way = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.taint.key, **way, "effect": self.taint.effect}


@dataclass(frozen=True, slots=True)
class PoolFact:
    """A StandbyPool and how many nodes it lacks."""

    name: str
    size: int
    short: int
    because: str = ""
    first: str = ""
    """The pool before it, by name, that nodes of its shape are of; empty: all are its own."""
    wholly: bool = False
    """Whether `first` has every node of its shape."""


@dataclass(frozen=True, slots=True)
class Installed:
    """How the objects of an installation stand beside what this version brings, each as `Kind name`."""

    there: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All that a look over a cluster rests on, at one moment."""

    version: str
    """Of gpuward, whose objects `installed` was held against."""
    taints: tuple[OurTaint, ...]
    servers: tuple[GpuServer, ...] = ()
    daemon_sets: tuple[DaemonSetSight, ...] = ()
    pods: tuple[PodSight, ...] = ()
    """Those on nodes with GPUs."""
    budgets: tuple[DisruptionBudget, ...] = ()
    programs: tuple[Program, ...] = ()
    definitions: frozenset[str] = frozenset()
    """The kinds that were added to the cluster, by their full names."""
    installed: Installed = field(default_factory=Installed)
    leader: str = ""
    """Who leads; empty: nobody does."""
    pools: tuple[PoolFact, ...] = ()
    serves_policies: bool = True
    """The API server knows ValidatingAdmissionPolicy in version v1."""
    unseen: tuple[str, ...] = ()
    """What could not be looked at, in sentences."""


class Sure(StrEnum):
    """How a finding is known."""

    SEEN = "seen"
    """It stands in the cluster's objects, and what follows from it was tried on a real API server and controllers."""
    DOCUMENTED = "documentation"
    """It stands in the cluster's objects; what follows from it was read, not tried."""
    CLOCK = "clock"
    """It was seen, and rests on the clock of this machine being right."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a row fits. `words` fill in its sentences; `values` are to be put where the remedy says."""

    subject: str
    words: Mapping[str, str] = field(default_factory=dict)
    values: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What would go wrong, why that matters, and what to do. One that `blocks` keeps gpuward from its work."""

    id: str
    subject: str
    what: str
    why: str
    remedy: str
    values: tuple[Mapping[str, str], ...]
    blocks: bool
    sure: Sure
