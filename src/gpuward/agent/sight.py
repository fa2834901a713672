"""From readings and holders to what a decision sees of each GPU, and why one must not be reset. It decides nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuward.agent.bench import Remembered, work_of
from gpuward.isolation.laws import DAY_SECONDS, RESETS_A_DAY
from gpuward.model.case import Case
from gpuward.model.node import GpuHolder, GpuReading, NodeReading
from gpuward.model.scene import GpuSight


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one GPU at this moment. `holders` None: nobody could look."""

    was: Remembered
    reading: GpuReading | None
    read: bool
    """The driver answered at all."""
    holders: tuple[GpuHolder, ...] | None
    drained: bool
    """We are draining it, so the driver does not show it."""
    lost: bool
    display: bool
    resets_today: int = 0
    """How often gpuward reset it within a day, whatever the case."""


def remember(reading: GpuReading) -> Remembered:
    """Return what must be known of a GPU once it is drained and cannot be asked."""
    return Remembered(
        pci=reading.pci,
        uuid=reading.uuid,
        minor=reading.minor,
        persistence=reading.persistence,
        links_active=sum(link.active for link in reading.links),
        pcie_width=reading.pcie.width,
    )


def sight_of(seen: Seen) -> GpuSight:
    """Return what a decision sees: a GPU that we drain is present, one that nobody could look at is unknown."""
    present: bool | None = True if seen.drained or seen.reading is not None else (False if seen.read else None)
    return GpuSight(
        present=present,
        lost=seen.lost,
        work=None if seen.holders is None else work_of(seen.holders),
        display=seen.display,
    )


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """Why a GPU cannot or must not be reset, and where that is from."""

    stands: Callable[[Seen], bool]
    due: str
    source: str


_REBOOTS = frozenset({"Reboot", "System Reboot", "Node Reboot"})
"""The words of drivers of several ages."""

OBSTACLES: tuple[_Obstacle, ...] = (
    _Obstacle(
        lambda seen: seen.lost,
        "The GPU does not answer: reboot the node, power cycle it if the GPU does not come back.",
        "NVIDIA Xid catalogue 2025-09-30: Xid 79, RESTART_BM; a reset cannot reach it",
    ),
    _Obstacle(
        lambda seen: seen.reading is not None and seen.reading.recovery_action in _REBOOTS,
        "The driver asks for a reboot of the node; a reset is not enough.",
        "nvidia-smi manual: GPU Recovery Action Reboot",
    ),
    _Obstacle(
        lambda seen: seen.reading is not None and seen.reading.mig is True,
        "MIG is on: end the work of every instance, destroy the instances, then retry.",
        "gpuward judgement: a reset hits every instance",
    ),
    _Obstacle(
        lambda seen: seen.display,
        "The GPU drives a display: it is reset by hand only.",
        "nvidia-smi manual: GPUs that drive a display usually refuse",
    ),
    _Obstacle(
        lambda seen: seen.was.minor is None,
        "Its device number is not known, so nobody can tell what holds it: reset it by hand.",
        "gpuward judgement",
    ),
    _Obstacle(
        lambda seen: seen.resets_today >= RESETS_A_DAY,
        f"It was reset {RESETS_A_DAY} times within a day: run diagnostics.",
        "gpuward judgement: at most three resets of a GPU a day",
    ),
)


def resets_today(gpu: str, cases: Iterable[Case], *, now: float) -> int:
    """Return how many resets of a GPU were asked for within the day before `now`."""
    return sum(case.resets_since(now - DAY_SECONDS) for case in cases if case.gpu == gpu)


def obstacle_of(seen: Seen) -> str:
    """Return why this GPU must not be reset, as what is due; empty when nothing stands in the way."""
    return next((row.due for row in OBSTACLES if row.stands(seen)), "")


def is_lost(code: int | None, kind: str, reading: GpuReading | None) -> bool:
    """Return whether the GPU no longer answers, by its fault or by the driver's own word."""
    return code == _LOST or kind in _LOST_KINDS or (reading is not None and reading.lost)


_LOST = 79
_LOST_KINDS = frozenset({"fallen_off_bus", "gpu_missing"})


def drained_gpus(cases: Iterable[Case]) -> frozenset[str]:
    """Return the addresses of GPUs that a case of ours may have drained."""
    return frozenset(case.gpu for case in cases if case.marks.drained)


def new_memory(known: Mapping[str, Remembered], reading: NodeReading) -> dict[str, Remembered]:
    """Return what is remembered of every GPU, with what this reading shows; a GPU that is not shown keeps its memory.

    Links and lanes are learned at their best: one that is down now was up when it was learned.
    """
    memory = dict(known)
    for gpu in reading.gpus:
        old = memory.get(gpu.pci)
        fresh = remember(gpu)
        memory[gpu.pci] = fresh if old is None else _best(old, fresh)
    return memory


def _best(old: Remembered, fresh: Remembered) -> Remembered:
    return Remembered(
        pci=fresh.pci,
        uuid=fresh.uuid or old.uuid,
        minor=old.minor if fresh.minor is None else fresh.minor,
        persistence=old.persistence if fresh.persistence is None else fresh.persistence,
        links_active=max(old.links_active, fresh.links_active),
        pcie_width=max(old.pcie_width or 0, fresh.pcie_width or 0) or None,
    )
