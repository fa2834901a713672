"""What others write, and how far it is heeded: what cannot be read, whose it is, and how much of one node is looked at.

A node that was broken into may tell anything, as often as it likes; it must not cost the others their turn.
"""

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuward.isolation.decide import calls_for_a_case
from gpuward.model.case import Case
from gpuward.model.objects.gpu_fault import GpuFault
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, STANDBY_POOLS, Resource
from gpuward.ports import EdgeError, Unreachable

DEFECT = "this is a fault of gpuward, report it"
"""Said of an error that nobody has foreseen, of an object or a node: it holds up that one alone."""
MOST_FAULTS = 256
"""So many faults of one node are looked at in a round: a server has 64 GPUs at most, and its agent merges lines."""
MOST_JUDGED = 64
"""So many faults of one node are judged in a round, each by a write: the next node must not wait for all of them."""
MOST_SAID = 5
"""So many objects of a kind are named of which nothing can be made."""
_REMEDY: Mapping[Resource, str] = {
    GPU_CASES: "nothing is done on its node until it is put right or deleted",
    GPU_FAULTS: "nothing is done about it; if the agent of its node is no newer than the controller, distrust the node",
    GPU_NODES: "its GPUs are unknown until its agent writes it anew; if that is no newer, distrust the node",
    STANDBY_POOLS: "no node of it is given away until it is put right",
    NODES: "nothing is done on it",
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """The nodes of which something cannot be read. `everywhere`: nobody can tell of which."""

    nodes: frozenset[str] = field(default_factory=frozenset)
    everywhere: bool = False

    def covers(self, node: str) -> bool:
        """Return whether something of a node cannot be read, so that nothing of it may be undone or taken away."""
        return self.everywhere or node in self.nodes


def doubt_of(*, cases: Iterable[str] = (), faults: Iterable[str] = (), gpu_nodes: Iterable[str] = ()) -> Doubt:
    """Return which nodes are in doubt, by the names of the objects that cannot be read."""
    owners = [*(node_of_case(name) for name in cases), *(node_of_fault(name) for name in faults), *gpu_nodes]
    return Doubt(frozenset(owners), everywhere="" in owners)


def node_of_case(name: str) -> str:
    """Return the node that the name of a case tells: `c-node.boot.cursor`; empty for a name of another form."""
    return node_of_fault(name.removeprefix("c-")) if name.startswith("c-") else ""


def node_of_fault(name: str) -> str:
    """Return the node that the name of a fault tells: `node.boot.cursor`; empty for a name of another form."""
    # Neither a boot nor a cursor has a dot in it, and nodes may.
    node, *others = name.rsplit(".", 2)
    return node if len(others) == 2 else ""  # noqa: PLR2004  a boot and a cursor


def words_of(resource: Resource, unreadable: Mapping[str, str]) -> list[str]:
    """Return sentences that name the objects of a kind that cannot be read, some of many: what, why, what to do."""
    names = sorted(unreadable)
    said = [
        f"{resource.kind} {name} cannot be read: {unreadable[name]}; {_REMEDY.get(resource, 'it counts for nothing')}"
        for name in names[:MOST_SAID]
    ]
    more = len(names) - MOST_SAID
    return [*said, f"{more} more objects of kind {resource.kind} cannot be read"] if more > 0 else said


async def borne(what: str, work: Awaitable[None]) -> str:
    """Do the work on one thing; return in a sentence what went wrong, empty when nothing did. Raises Unreachable.

    One thing that cannot be worked on must not keep the others from their turn.
    """
    try:
        await work
    except Unreachable:
        raise
    except (EdgeError, ObjectError) as error:
        return f"{what}: {error}"
    except Exception as error:  # noqa: BLE001  whatever others wrote of it, it is one thing of many
        return f"{what}: {DEFECT}: {error!r}"
    return ""


def heeded(faults: Sequence[GpuFault], of_cases: frozenset[str]) -> Sequence[GpuFault]:
    """Return the faults of one node that are looked at now: those that open cases are about, then the worst."""
    if len(faults) <= MOST_FAULTS:
        return faults
    ranked = sorted(faults, key=lambda one: (one.head.name not in of_cases, not one.is_due, -one.level, one.head.name))
    return sorted(ranked[:MOST_FAULTS], key=lambda one: one.head.name)


def words_of_flood(node: str, faults: int) -> str:
    """Return a sentence that says that an agent tells of more than is looked at; empty where it does not."""
    if faults <= MOST_FAULTS:
        return ""
    return (
        f"{node}: its agent has told of {faults} faults, of which {MOST_FAULTS} are looked at in a round; no machine "
        "has so many: look at the node, and delete the GPUFaults that are none"
    )


def is_news(fault: GpuFault) -> bool:
    """Return whether a fault is to be judged, or goes on and calls for a case."""
    if fault.is_due:
        return True
    return not is_over(fault) and calls_for_a_case(fault.spec.kind, fault.level, waits=fault.verdict.waits)


def is_over(fault: GpuFault) -> bool:
    """Return whether the lines of a fault have stopped, or a line took it back."""
    return fault.newest is not None and (fault.newest.over or fault.newest.cleared)


def mattering(faults: Iterable[GpuFault], cases: Sequence[Case]) -> Iterator[GpuFault]:
    """Yield the faults that open a case, belong to an open one, or came on its GPU."""
    gpus = {case.gpu for case in cases if not case.ended}
    of_cases = {case.fault for case in cases if not case.ended}
    for fault in faults:
        if is_news(fault) or fault.spec.gpu in gpus or fault.head.name in of_cases:
            yield fault
