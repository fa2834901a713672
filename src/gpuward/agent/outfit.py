"""What an agent of one server is given: how far it goes, what else it sees, where it keeps things, a person's word."""

from dataclasses import dataclass, field

from gpuward.agent.survey import Known
from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.findings import Grading, by_row
from gpuward.model.case import Mode, Order
from gpuward.ports import Chronicle, Driver, Exporter, PodDevices, Store


@dataclass(frozen=True, slots=True)
class Plan:
    """How far and how fast the agent goes."""

    mode: Mode = Mode.OBSERVE
    brake: Brake = field(default_factory=Brake)
    budget: Budget = field(default_factory=Budget)
    probation_seconds: float = 1800.0
    poll_seconds: float = 30.0
    read_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Senses:
    """What else an agent may see of its server; each may be missing."""

    grading: Grading = by_row
    """How findings of readings are graded."""
    exporter: Exporter | None = None
    portraits: Store | None = None
    """Where the last `nvidia-smi -q` of each GPU is kept; None: none are taken."""
    painter: Driver | None = None
    """Who is asked for portraits, so that nobody else waits for one; None: who is asked for all."""
    known: Known = field(default_factory=Known)
    kubelet: PodDevices | None = None
    """By whom pods have their GPUs, on a node of a cluster."""
    host: str = ""
    """This machine's own name, where it is not the node's."""


NO_SENSES = Senses()


@dataclass(frozen=True, slots=True)
class Ordered:
    """A person's word on the case of a GPU. `forced`: the reset is wanted though it was never qualified."""

    gpu: str
    order: Order
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the agent keeps what must survive it."""

    cases: Store
    pauses: Store
    chronicle: Chronicle
