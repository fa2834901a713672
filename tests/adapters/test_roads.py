"""Roads over small roads that answer, refuse or hang, and a clock that is moved by hand."""

from dataclasses import dataclass, field

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.roads import Roads
from gpuward.model.node import NodeReading
from gpuward.ports import Driver, EdgeError, Refused, Unreachable

PCI = "0000:3f:00"


@dataclass
class ByHand:
    """A clock that stands still until it is moved."""

    seconds: float = 1000.0

    def now(self) -> float:
        """Return the same as `monotonic`."""
        return self.seconds

    def monotonic(self) -> float:
        """Return where it stands."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Move it on."""
        self.seconds += seconds


@dataclass
class Lane:
    """A road and a driver: it raises `trouble` when it has one; a hang takes all its time."""

    name: str
    clock: ByHand
    trouble: EdgeError | None = None
    given: list[float] = field(default_factory=list)
    did: list[str] = field(default_factory=list)

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return a reading of no GPU by this road."""
        self.given.append(deadline_seconds)
        if isinstance(self.trouble, Hung):
            self.clock.sleep(deadline_seconds)
        if self.trouble:
            raise self.trouble
        return NodeReading(road=self.name, driver_version=None, cuda_version=None, gpus=())

    def close(self) -> None:
        """Note it."""
        self.did.append("close")

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Return the address and the deadline."""
        return f"{pci} {deadline_seconds:g}"

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Note it."""
        self.did.append(f"persistence {pci} {on} {deadline_seconds:g}{'' if look else ' unseen'}")

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Note it."""
        self.did.append(f"drained {pci} {on} {deadline_seconds:g}")

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return yes for a long deadline."""
        return pci == PCI and deadline_seconds > 1

    def reset(self, pci: str, deadline_seconds: float, *, key: str) -> None:
        """Note it."""
        self.did.append(f"reset {pci} {deadline_seconds:g} {key}")

    def has_reset(self, pci: str, *, key: str) -> bool:
        """Return whether that reset was noted, whatever its deadline."""
        return any(one.startswith(f"reset {pci} ") and one.endswith(f" {key}") for one in self.did)


@dataclass
class Junction:
    """Three lanes, their clock, and the Roads over them."""

    clock: ByHand = field(default_factory=ByHand)

    def __post_init__(self) -> None:
        self.nvml, self.smi, self.sysfs = (Lane(name, self.clock) for name in ("nvml", "nvidia-smi", "sysfs"))
        self.roads = Roads(self.nvml, self.smi, self.sysfs, clock=self.clock)


HUNG = Hung("it did not answer; try later")


def test_the_first_road_that_answers_is_taken_and_said() -> None:
    here = Junction()
    assert here.roads.read(10).road == "nvml"
    here.nvml.trouble = Refused("no library; install it")
    assert here.roads.read(10).road == "nvidia-smi"
    here.smi.trouble = Unreachable("no driver; load it")
    assert here.roads.read(10).road == "sysfs"


def test_when_no_road_answers_the_last_one_says_why() -> None:
    here = Junction()
    here.nvml.trouble, here.smi.trouble = HUNG, Unreachable("no driver; load it")
    here.sysfs.trouble = Refused("no bus; mount it")
    with pytest.raises(Refused, match="no bus"):
        here.roads.read(10)


def test_a_road_that_hangs_leaves_time_for_the_next_and_all_end_by_the_deadline() -> None:
    here = Junction()
    here.nvml.trouble = here.smi.trouble = HUNG
    assert here.roads.read(10).road == "sysfs"
    assert here.clock.seconds <= 1010
    assert min(here.nvml.given[0], here.smi.given[0]) > 2


def test_a_road_that_hung_is_left_alone_for_a_minute_and_then_tried_again() -> None:
    here = Junction()
    here.nvml.trouble = HUNG
    here.roads.read(10)
    here.nvml.trouble = None
    here.clock.sleep(59)
    assert here.roads.read(10).road == "nvidia-smi"
    here.clock.sleep(2)
    assert here.roads.read(10).road == "nvml"


def test_a_road_that_only_failed_is_tried_again_at_once() -> None:
    here = Junction()
    here.nvml.trouble = Unreachable("no driver; load it")
    here.roads.read(10)
    here.nvml.trouble = None
    assert here.roads.read(10).road == "nvml"


def test_acts_go_to_nvidia_smi_alone() -> None:
    here = Junction()
    roads: Driver = here.roads
    roads.set_persistence(PCI, on=False, deadline_seconds=5)
    roads.set_drained(PCI, on=True, deadline_seconds=6)
    assert here.smi.did == [f"persistence {PCI} False 5", f"drained {PCI} True 6"]
    assert (roads.describe(PCI, 7), roads.is_drained(PCI, 8)) == (f"{PCI} 7", True)
    assert (here.nvml.did, here.sysfs.did) == ([], [])


def test_our_own_child_is_off_the_gpus_before_a_reset() -> None:
    here = Junction()
    here.roads.reset(PCI, 9, key="c-1")
    assert (here.nvml.did, here.smi.did) == (["close"], [f"reset {PCI} 9 c-1"])
    assert [here.roads.has_reset(PCI, key=key) for key in ("c-1", "c-2")] == [True, False]
