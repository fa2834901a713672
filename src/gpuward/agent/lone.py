"""When an agent drains alone: nobody can order it, and the kernel itself says that the hardware broke. Pure."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpuward.agent.orders import LONE, Ledger, is_at_work, is_lone
from gpuward.model.case import ENDED, EffectKind, Mode, Outcome
from gpuward.model.fault import Fault
from gpuward.model.level import FaultClass, Level
from gpuward.model.scene import GpuSight

UNREACHABLE_SECONDS = 10.0
"""How long nothing may have been answered: an API server that is restarted is away for a shorter time."""
STALE_TIMES = 2.0
"""After so many times its duration without a renewal a Lease is stale; another replica would have taken it by then."""


@dataclass(frozen=True, slots=True)
class Contact:
    """What is known of the API server and of the leader, on this machine's monotonic clock. No clocks are compared."""

    lost_since: float | None = None
    """When the first call began that got no answer, since one did; None while calls are answered."""
    leader: str = ""
    """Who leads and since which renewal, in the Lease's own words; empty when there is no Lease."""
    leader_since: float | None = None
    """When that was first seen; None: nobody looked yet."""
    leader_seen: float | None = None
    """When it was last seen."""
    leader_seconds: float = 15.0
    """For how long the Lease says that a renewal counts."""

    def why_alone(self, now: float) -> str:
        """Return why nobody can order anything, in a sentence; empty while somebody can."""
        if self.lost_since is not None and now - self.lost_since >= UNREACHABLE_SECONDS:
            return f"the API server has not answered for {now - self.lost_since:.0f} s"
        if self.leader_since is None or self.leader_seen is None:
            return ""
        unchanged = self.leader_seen - self.leader_since
        if unchanged < STALE_TIMES * self.leader_seconds:
            return ""
        who = "no controller leads" if not self.leader else "the leader has not renewed its Lease"
        return f"{who}, for {unchanged:.0f} s as seen from here"


@dataclass(frozen=True, slots=True)
class Lookout:
    """What a drain without an order is judged by."""

    mode: Mode
    held: str
    """Why the leader's brake held, as it last said; empty when it did not."""
    sights: Mapping[str, GpuSight]
    history: AbstractSet[str]
    """Faults that are older than this agent: what they say may be no longer so."""
    drained: AbstractSet[str]
    """GPUs that are drained, by whomever."""


def candidate(faults: Iterable[tuple[Fault, str]], ledger: Ledger, lookout: Lookout) -> tuple[Fault, str] | None:
    """Return the fault whose GPU the agent would drain alone if nobody can order it, with the name of its object.

    `faults` are those of the kernel's own record that go on, oldest first. One GPU of a node, and never a second.
    """
    if lookout.mode is Mode.OBSERVE or lookout.held or any(_is_done_alone(ledger)):
        return None
    return next(((fault, name) for fault, name in faults if _may(fault, name, ledger, lookout)), None)


def _is_done_alone(ledger: Ledger) -> Iterable[bool]:
    """Yield for each case whether it is a drain that nobody ordered and that may stand."""
    return (is_lone(case) and case.marks.drained for case in ledger.cases.values())


def _may(fault: Fault, name: str, ledger: Ledger, lookout: Lookout) -> bool:
    pci, verdict = fault.pci, fault.verdict
    if pci is None or fault.id in lookout.history or ledger.knows(f"{LONE}{name}.drain"):
        return False
    if verdict.level is not Level.P0 or verdict.fault_class is not FaultClass.HARDWARE or verdict.waits:
        return False
    if _is_seen_to(fault, pci, ledger):
        return False
    sight = lookout.sights.get(pci)
    shown = sight is not None and not sight.display
    return shown and pci not in lookout.drained and not is_at_work(ledger, pci)


def _is_seen_to(fault: Fault, pci: str, ledger: Ledger) -> bool:
    """Return whether the controller knows of it: it works on the GPU, or ordered something since the last line."""
    last = fault.last.wall
    for case in ledger.cases.values():
        if case.gpu != pci or case.drill is not None or is_lone(case):
            continue
        drained = any(one.kind is EffectKind.DRAIN and one.outcome is Outcome.DONE for one in case.effects)
        if (drained and case.state not in ENDED) or any(last is None or one.asked_at > last for one in case.effects):
            return True
    return False
