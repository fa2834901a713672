"""What the API server has not accepted yet of a node's faults: kept on disk, bounded, sent until it is accepted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuward.agent.post import Parcel, Receipt
from gpuward.model.counted import many
from gpuward.model.fault import Fault
from gpuward.model.level import LEVELS, Level
from gpuward.model.node import GpuHolder
from gpuward.model.objects.gpu_fault import (
    FaultEvidence,
    FaultHolder,
    FaultPods,
    GpuFault,
    PodRef,
    gpu_fault,
    name_of_fault,
    write_gpu_fault,
)
from gpuward.model.objects.values import ObjectError, write
from gpuward.ports import PodDevices, Refused, Store

MOST_PARCELS = 1000
"""Faults that wait to be told; a node has far fewer in a week."""
MOST_HOLDERS = 64
_WITH_WORK = frozenset({str(Level.P0), str(Level.P1)})
MOST_KNOWN = 4096
"""Faults that are remembered as told, so that they are not told again; as many as a merger remembers."""
REMEDY = "delete it: faults that wait in it are then told only by the journal"


@dataclass(frozen=True, slots=True)
class Due:
    """A fault of which it is to be asked who had its GPU; `uids` are the pods whose processes held it."""

    gpu: str
    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a fault stood when it was last put down here: only another standing is worth telling."""

    level: str
    fault_class: str
    action: str
    over: bool
    number: int = 1
    last: float | None = None
    """When its newest line came."""

    def is_news(self, known: "Standing") -> bool:
        """Return whether this is worth telling after what was told: also that lines of one with work due go on."""
        if replace(self, number=known.number, last=known.last) != known:
            return True
        return self.level in _WITH_WORK and self.last is not None and known.last is not None and self.last > known.last


class Outbox:
    """The parcels that wait, and how each fault was last told. `warn` gets what a person should know.

    With a `kubelet` the pods of holders have names, and it is noted of each new fault of a GPU that the pods with that
    GPU are due: they follow, for the fault waits for nobody. What is put down here is sent only after `save`; a restart
    then tells nothing twice and loses nothing.
    """

    def __init__(
        self, store: Store, *, node: str, warn: Callable[[str], None], kubelet: PodDevices | None = None
    ) -> None:
        self._store = store
        self._kubelet = kubelet
        self.pods_due: dict[str, Due] = {}
        """The faults whose pods are to be asked for, by name."""
        self._node = node
        self._warn = warn
        self._parcels: dict[str, Parcel] = {}
        self._known: dict[str, Standing] = {}
        self._unsent: dict[str, int] = {}
        self._changed = False
        self._lost = 0

    def load(self) -> None:
        """Take over what was saved; one that cannot be used is warned of: the journal has the faults too."""
        try:
            saved = self._store.load()
            if saved is not None:
                self._parcels = {row["name"]: Parcel(**row) for row in saved["parcels"]}
                self._known = {name: Standing(*row) for name, row in saved["known"].items()}
                due = saved.get("pods_due", {}) if self._kubelet is not None else {}
                self.pods_due = {name: Due(gpu, tuple(uids)) for name, (gpu, uids) in due.items()}
        except (Refused, KeyError, TypeError, ValueError, AttributeError) as error:
            self._warn(f"the faults that wait to be told cannot be used ({error}); {REMEDY}")
            self._parcels, self._known, self.pods_due = {}, {}, {}
        self._unsent = {name: parcel.number for name, parcel in self._parcels.items()}

    def put(
        self, fault: Fault, *, at: float, over: bool = False, holders: Callable[[Fault], Sequence[GpuHolder]]
    ) -> bool:
        """Put down a fault if it is new, or stands otherwise than it was told; return whether it is new.

        That it is over is told of a fault on which work is due only. `holders` is asked once, when it is new.
        """
        name = self.name_of(fault)
        known = self._known.get(name)
        over = over and fault.verdict.level >= Level.P1
        if known is None:
            held = holders(fault)[:MOST_HOLDERS]
            self._note_due(name, fault, held)
            told = self._told(name, fault, held)
            return self._put(name, fault, _standing(fault, over=over), lambda: self._first(told, fault))
        now = replace(_standing(fault, over=over or known.over), number=known.number + 1)
        if now.is_news(known):
            if LEVELS[known.level] is Level.IGNORE:
                self._note_due(name, fault, ())
            self._put(name, fault, now, lambda: self._changed_since(name, fault, now, at=at))
        return False

    def put_pods(self, name: str, pods: FaultPods) -> None:
        """Put down who had the GPU of a fault: it is told with what still waits of it, or after it."""
        self._changed = self.pods_due.pop(name, None) is not None or self._changed
        known = self._known.get(name)
        if known is None:
            return
        number, waiting = known.number + 1, self._parcels.get(name)
        parcel = waiting or Parcel(name, number, level=int(LEVELS[known.level]), body=None)
        try:
            self._parcels[name] = replace(parcel, number=number, pods=write(pods))
        except ObjectError as error:
            self._warn(f"who had the GPU of fault {name} cannot be told to the cluster: {error}")
            return
        self._known[name] = replace(known, number=number)
        self._unsent[name] = number

    def name_of(self, fault: Fault) -> str:
        """Return the name of the object of a fault."""
        return name_of_fault(fault, self._node)

    def receive(self, receipt: Receipt) -> None:
        """Take note that a version of a fault was accepted, or never will be."""
        parcel = self._parcels.get(receipt.name)
        if parcel is not None and parcel.number == receipt.number:
            del self._parcels[receipt.name]
            self._changed = True
        if receipt.refusal:
            self._warn(f"fault {receipt.name} cannot be told to the cluster: {receipt.refusal}")

    def save(self) -> bool:
        """Save what has changed, within the bound. False when it cannot be: it is sent all the same."""
        if not self._changed:
            return True
        self._bound()
        try:
            self._store.save(
                {
                    "parcels": [_packed(parcel) for parcel in self._parcels.values()],
                    "known": {name: _row(one) for name, one in self._known.items()},
                    "pods_due": {name: [due.gpu, list(due.uids)] for name, due in self.pods_due.items()},
                }
            )
        except Refused as error:
            self._warn(f"faults that the cluster has not accepted do not survive a restart: {error}")
            return False
        self._changed = False
        return True

    def unsent(self) -> Iterable[Parcel]:
        """Return what was not handed on yet in this life, the worst first."""
        due = [self._parcels[name] for name in self._unsent if name in self._parcels]
        self._unsent = {}
        return sorted(due, key=lambda parcel: -parcel.level)

    def __len__(self) -> int:
        """Return how many faults wait."""
        return len(self._parcels)

    def _put(self, name: str, fault: Fault, standing: Standing, parcel: Callable[[], Parcel]) -> bool:
        try:
            self._parcels[name] = parcel()
        except ObjectError as error:
            self._warn(f"fault {fault.id} cannot be told to the cluster: {error}")
        self._known[name] = standing
        for kept in (self._known, self.pods_due):
            while len(kept) > MOST_KNOWN:
                kept.pop(next(iter(kept)))
        self._unsent[name] = standing.number
        self._changed = True
        return True

    def _first(self, told: GpuFault, fault: Fault) -> Parcel:
        return Parcel(told.head.name, number=1, level=int(fault.verdict.level), body=write_gpu_fault(told))

    def _changed_since(self, name: str, fault: Fault, now: Standing, *, at: float) -> Parcel:
        waiting = self._parcels.get(name)
        body, pods = (None, None) if waiting is None else (waiting.body, waiting.pods)
        evidence = FaultEvidence(
            at=at,
            level=fault.verdict.level,
            fault_class=fault.verdict.fault_class,
            verdict=fault.verdict,
            last=fault.last,
            count=max(1, fault.count),
            evidence=fault.evidence,
            gpu_uuid=fault.gpu_uuid,
            over=now.over,
            cleared=fault.verdict.level is Level.IGNORE,
        )
        return Parcel(name, now.number, level=int(fault.verdict.level), body=body, evidence=write(evidence), pods=pods)

    def _told(self, name: str, fault: Fault, held: Sequence[GpuHolder]) -> GpuFault:
        """Return the object of a fault with who held its GPU."""
        uids = {one.pod_uid for one in held if one.pod_uid}
        names = {} if self._kubelet is None else self._kubelet.named(uids)
        pods = {uid: PodRef(*names.get(uid, ("", "")), uid) for uid in uids}
        holders = tuple(
            FaultHolder(one.pid, one.name, container_id=one.container_id or "", pod=pods.get(one.pod_uid or ""))
            for one in held
        )
        return gpu_fault(fault, self._node, holders=holders, pods_follow=name in self.pods_due)

    def _note_due(self, name: str, fault: Fault, held: Sequence[GpuHolder]) -> None:
        if self._kubelet is not None and fault.pci is not None and fault.verdict.level > Level.IGNORE:
            uids = {one.pod_uid for one in held if one.pod_uid}
            self.pods_due[name] = Due(fault.pci, tuple(sorted(uids)))

    def _bound(self) -> None:
        """Let the mildest go, of those the oldest, until the rest fits; say how many went."""
        surplus = len(self._parcels) - MOST_PARCELS
        if surplus <= 0:
            return
        mildest = sorted(self._parcels.values(), key=lambda parcel: parcel.level)  # stable: the oldest stay in front
        for parcel in mildest[:surplus]:
            del self._parcels[parcel.name]
        self._lost += surplus
        self._warn(
            f"{many(self._lost, 'fault was', 'faults were')} not told to the cluster: "
            f"more than {MOST_PARCELS} wait; the journal has them"
        )


def _standing(fault: Fault, *, over: bool) -> Standing:
    verdict, last = fault.verdict, fault.last.wall
    return Standing(str(verdict.level), str(verdict.fault_class), verdict.action, over=over, last=last)


def _row(one: Standing) -> list[Any]:
    return [one.level, one.fault_class, one.action, one.over, one.number, one.last]


def _packed(parcel: Parcel) -> Mapping[str, Any]:
    return {
        "name": parcel.name,
        "number": parcel.number,
        "level": parcel.level,
        "body": parcel.body,
        "evidence": parcel.evidence,
        "pods": parcel.pods,
    }
