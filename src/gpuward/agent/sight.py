"""From readings and holders to what a decision sees of each GPU, and why one must not be reset. It decides nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.agent.bench import Remembered, work_of
from gpuward.isolation import lost
from gpuward.isolation.laws import DAY_SECONDS, RESETS_A_DAY
from gpuward.model.architecture import Architecture, architecture_of, is_on_a_board
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
    display_told: bool = False
    """A person said that GPUs which drive a display may be worked on."""
    qualified: bool = True
    """A reset was proven on this model and driver, or is wanted without that."""
    driver: str | None = None
    """The driver's version, for people."""
    switches: bool | None = None
    """NVSwitches are in this server; None where nobody could look."""
    fabric_manager: bool | None = None
    """Fabric Manager runs on it; None where nobody could look."""
    drained_by_others: bool = False
    """Somebody else drained it, so the driver does not show it."""

    @property
    def model(self) -> str | None:
        """The name of its model, now or as it was last read."""
        return (self.reading.model if self.reading else None) or self.was.model

    @property
    def mig(self) -> bool | None:
        """Whether MIG is on; of a GPU that is drained, or cannot be read in full, as it was last read."""
        now = None if self.reading is None else self.reading.mig
        return self.was.mig if now is None else now

    @property
    def recovery_action(self) -> str | None:
        """What the driver asks for, likewise: what it asked for before a drain, it asks for still."""
        return (self.reading.recovery_action if self.reading else None) or self.was.recovery_action


def remember(reading: GpuReading) -> Remembered:
    """Return what must be known of a GPU once it is drained and cannot be asked."""
    return Remembered(
        pci=reading.pci,
        uuid=reading.uuid,
        minor=reading.minor,
        persistence=reading.persistence,
        links_active=sum(link.active for link in reading.links),
        pcie_width=reading.pcie.width,
        model=reading.model,
        mig=reading.mig,
        recovery_action=reading.recovery_action,
        mig_uuids=() if reading.mig is False else reading.mig_uuids,
    )


def remembered(saved: Mapping[str, Any]) -> Remembered:
    """Return what was remembered of a GPU and saved as JSON. Raises TypeError."""
    uuids = saved.get("mig_uuids")
    return Remembered(**{**saved, "mig_uuids": None if uuids is None else tuple(uuids)})


def sight_of(seen: Seen) -> GpuSight:
    """Return what a decision sees: a GPU that we drain is present, one that nobody could look at is unknown."""
    present: bool | None = True if seen.drained or seen.reading is not None else (False if seen.read else None)
    return GpuSight(
        present=present,
        lost=seen.lost,
        work=None if seen.holders is None else work_of(seen.holders),
        display=seen.display and not seen.display_told,
    )


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """Why a GPU cannot or must not be reset, and where that is from. `words` may name {model}, {driver} and {gpu}."""

    stands: Callable[[Seen], bool]
    words: str
    source: str
    reboot_cures: bool = False
    """A reboot of the node may remove it."""

    @property
    def due(self) -> str:
        """What is due, as a page of all GPUs says it."""
        return self.words.format(model="MODEL", driver="VERSION", gpu="GPU")

    def due_for(self, seen: Seen) -> str:
        """Return what is due for one GPU."""
        model, driver = seen.model or "a GPU of unknown model", seen.driver or "of unknown version"
        return self.words.format(model=model, driver=driver, gpu=seen.was.pci)


_REBOOTS = frozenset({"Reboot", "System Reboot", "Node Reboot", "Node Reboot Required", "System Reboot Required"})
"""The words of drivers of several ages."""


def _has_links(seen: Seen) -> bool:
    """Return whether it has NVLinks to other GPUs; nvidia-smi does not show them, and then its name tells."""
    return seen.was.links_active > 0 or is_on_a_board(seen.model)


def _goes_with_all_peers(seen: Seen) -> bool:
    """Return whether all its peers must go with it; a model that is not known counts as an old one."""
    architecture = architecture_of(seen.model)
    return _has_links(seen) and (architecture is None or architecture < Architecture.AMPERE)


def needs_fabric(seen: Seen) -> bool:
    """Return whether a reset of it alone depends on switches and Fabric Manager, so that they are worth a look."""
    return _has_links(seen) and architecture_of(seen.model) is Architecture.AMPERE


def _goes_with_the_fabric(seen: Seen) -> bool:
    """Return whether its peers must go with it for want of Fabric Manager; what nobody saw counts against it."""
    return needs_fabric(seen) and seen.switches is not False and seen.fabric_manager is not True


OBSTACLES: tuple[_Obstacle, ...] = (
    _Obstacle(
        lambda seen: seen.lost,
        lost.DUE,
        "NVIDIA Xid catalogue 2025-09-30: Xid 79, RESTART_BM; a reset cannot reach it",
        reboot_cures=True,
    ),
    _Obstacle(
        lambda seen: seen.recovery_action in _REBOOTS,
        "The driver asks for a reboot of the node; a reset is not enough.",
        "nvidia-smi manual: GPU Recovery Action Reboot",
        reboot_cures=True,
    ),
    _Obstacle(
        lambda seen: seen.recovery_action == "Recover IMEX Domain",
        "The driver asks to recover the IMEX domain, which no reset does: restart nvidia-imex on the domain's nodes, "
        "then release or retry.",
        "nvml.h: nvmlDeviceGpuRecoveryAction_t; open-gpu-kernel-modules 595.45.04",
    ),
    _Obstacle(
        lambda seen: seen.mig is True,
        "MIG is on: end the work of every instance, destroy the instances, then retry.",
        "gpuward judgement: a reset hits every instance",
    ),
    _Obstacle(
        lambda seen: seen.display and not seen.display_told,
        "The GPU drives a display: it is reset by hand only.",
        "nvidia-smi manual: GPUs that drive a display usually refuse",
    ),
    _Obstacle(
        lambda seen: seen.was.minor is None,
        "Its device number is not known, so nobody can tell what holds it: reset it by hand.",
        "gpuward judgement",
    ),
    _Obstacle(
        _goes_with_all_peers,
        "{model} is reset only in one command with every GPU that it has NVLinks to: empty all of them, then "
        "`nvidia-smi --gpu-reset -i` with all of their numbers.",
        "nvidia-smi manual, GPU reset: NVLink before Ampere; gpuward judgement: an unknown model is taken for one",
    ),
    _Obstacle(
        _goes_with_the_fabric,
        "On a server with NVSwitches {model} is reset alone only while Fabric Manager runs: start it and retry, or "
        "empty all GPUs and reset them in one command.",
        "nvidia-smi manual, GPU reset: Ampere on NVSwitch; Hopper and later need no Fabric Manager for it",
    ),
    _Obstacle(
        lambda seen: not seen.qualified,
        "A reset was never proven on {model} with driver {driver}: run `gpuward qualify GPU` on an idle one, or give "
        "`gpuward retry {gpu} --force`.",
        "gpuward judgement: what was never seen to work is not tried on a GPU that fails",
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
    return next((row.due_for(seen) for row in OBSTACLES if row.stands(seen)), "")


def reboot_cures(seen: Seen) -> bool:
    """Return whether a reboot of the node may remove what stands in the way of its reset."""
    return next((row.reboot_cures for row in OBSTACLES if row.stands(seen)), False)


def is_lost(code: int | None, kind: str, reading: GpuReading | None) -> bool:
    """Return whether the GPU no longer answers, by its fault or by the driver's own word."""
    return lost.is_lost(code, kind) or (reading is not None and reading.lost)


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
        model=fresh.model or old.model,
        mig=old.mig if fresh.mig is None else fresh.mig,
        recovery_action=fresh.recovery_action or old.recovery_action,
        mig_uuids=old.mig_uuids if fresh.mig_uuids is None else fresh.mig_uuids,
    )
