"""What people have settled for a whole cluster, and for the pools of it. How it is kept to is in the other files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.evacuation import EvictionTerms
from gpuward.isolation.fabric import FABRIC_KEYS
from gpuward.isolation.fleet import FleetBrakes
from gpuward.isolation.tainting import OURS
from gpuward.model.case import Mode
from gpuward.model.objects.owned import MODE, Taint
from gpuward.settings.pools import RACK, PoolTerms
from gpuward.settings.reboot import RebootTerms


@dataclass(frozen=True, slots=True)
class Terms:
    """How far the controller goes. Seconds; `kinds` are the taint's words of faults that are no Xid (policy_other)."""

    mode: Mode = Mode.OBSERVE
    namespace: str = "gpuward"
    """Where gpuward's own objects are, the pause and the agents' Leases among them."""
    approval: bool = False
    """Nothing is done without a person's word."""
    probation_seconds: float = 1800.0
    eviction: EvictionTerms = field(default_factory=EvictionTerms)
    taint: Taint = OURS
    kinds: Mapping[str, str] = field(default_factory=dict)
    brake: Brake = field(default_factory=Brake)
    brakes: FleetBrakes = field(default_factory=FleetBrakes)
    budget: Budget = field(default_factory=Budget)
    pools: tuple[PoolTerms, ...] = ()
    """The first that takes a node in counts for it; one that none takes in goes by the fields here."""
    rack_label: str = RACK
    fabric_labels: tuple[str, ...] = FABRIC_KEYS
    reboot: RebootTerms = field(default_factory=RebootTerms)
    lost_seconds: float = 60.0
    """How long a node that is not Ready is waited for before it counts as lost (design.md section 4)."""
    back_seconds: float = 60.0
    """How long it must have been Ready again before it is proven."""
    proof_seconds: float = 600.0
    """How long its agent may take to tell that its GPUs are well, once it is back."""
    round_seconds: float = 2.0
    """How long at most until the next round, if nothing rings before."""
    breath_seconds: float = 0.1
    """How long at least between two rounds: thousands of nodes that ring must not keep the loop going round.
    A new fault cuts it short, though not twice in a row."""
    evict_again_seconds: float = 5.0
    """How long after an eviction that a budget held it is asked for again."""
    fault_seconds: float = 7 * 86_400.0
    """The longest window of a rule: so long a fault that was judged may still be looked back at."""
    case_seconds: float = 90 * 86_400.0
    """How long a case that has ended is kept, and the objects of a server that is gone."""
    _default: PoolTerms = field(init=False, repr=False, compare=False)
    """The terms of a node that no pool takes in."""

    def __post_init__(self) -> None:
        """Put the default together once: it is asked for at every look at a node."""
        object.__setattr__(self, "_default", self._of_all())

    @property
    def labels(self) -> frozenset[str]:
        """The keys of the labels of a node that tell how far the controller goes there, and where it stands."""
        selected = (key for pool in self.pools for key in pool.selector)
        return frozenset({self.rack_label, MODE, *self.fabric_labels, *selected})

    def of(self, labels: Mapping[str, str]) -> PoolTerms:
        """Return the terms of a node with these labels; its own label may hold it to observe, and to nothing else."""
        pool = next((pool for pool in self.pools if pool.takes(labels)), None) or self._default
        return replace(pool, mode=Mode.OBSERVE) if labels.get(MODE) == Mode.OBSERVE else pool

    def _of_all(self) -> PoolTerms:
        return PoolTerms(
            mode=self.mode,
            approval=self.approval,
            probation_seconds=self.probation_seconds,
            eviction=self.eviction,
            brake=self.brake,
            brakes=self.brakes,
            budget=self.budget,
        )
