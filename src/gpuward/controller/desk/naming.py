"""What a person means by a word: a case, a node, a GPU of one, or a fault. What is told of it is not here."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuward.controller.desk.glance import CaseGlance, GpuGlance, NodeGlance
from gpuward.controller.desk.reading import Desk
from gpuward.model.gpu import read_pci
from gpuward.model.resource import GPU_CASES, GPU_FAULTS
from gpuward.ports import Refused

_UUIDS = ("gpu-", "mig-")
_MOST_NODES_NAMED = 5


class Meant(StrEnum):
    """What sort of thing a word names."""

    CASE = "case"
    NODE = "node"
    GPU = "gpu"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Named:
    """What a word names. `cases` are those that are told of, the newest last."""

    what: Meant
    name: str
    node: NodeGlance | None = None
    gpu: GpuGlance | None = None
    cases: tuple[str, ...] = ()


async def named(desk: Desk, word: str) -> Named:
    """Return what a word names. Raises Refused with a sentence when it names nothing, or too much."""
    if "/" in word:
        node, _, gpu = word.partition("/")
        return await _gpu_of_node(desk, node, gpu)
    if read_pci(word) is not None or _is_uuid(word):
        found = await _gpu_of_fleet(desk, word)
        if found is not None:
            return found
    return await _object(desk, word)


async def gpu_of(desk: Desk, node: str, gpu: str) -> tuple[NodeGlance, GpuGlance]:
    """Return a GPU of a node. Raises Refused with the GPUs that the node has."""
    seen = await desk.node(node)
    if seen is None:
        raise Refused(f"there is no GPU node {node} of which an agent has told; `gpuward nodes` lists them")
    address = read_pci(gpu)
    found = seen.gpu_named(gpu, pci="" if address is None else address.pci)
    if found is None:
        has = ", ".join(f"{one.index} ({one.pci})" for one in seen.gpus) or "none that its agent has told of"
        raise Refused(f"{node} has no GPU {gpu}; it has {has}")
    return seen, found


async def _gpu_of_node(desk: Desk, node: str, gpu: str) -> Named:
    seen, found = await gpu_of(desk, node, gpu)
    cases = [case for case in await desk.cases(ended=True, node=node) if case.gpu == found.pci]
    return Named(Meant.GPU, f"{node}/{found.index}", node=seen, gpu=found, cases=told_of(cases)[-1:])


async def _gpu_of_fleet(desk: Desk, word: str) -> Named | None:
    """Return the one GPU of the whole fleet that has this UUID or address; None when a UUID is nobody's."""
    address = read_pci(word)
    pci = "" if address is None else address.pci
    having = [node for node in await desk.nodes() if node.gpu_named(word, pci=pci) is not None]
    if len(having) > 1:
        named_nodes = ", ".join(f"{node.name}/{word}" for node in having[:_MOST_NODES_NAMED])
        more = f" and {len(having) - _MOST_NODES_NAMED} more" if len(having) > _MOST_NODES_NAMED else ""
        raise Refused(f"{len(having)} nodes have a GPU {word}; say which: {named_nodes}{more}")
    return await _gpu_of_node(desk, having[0].name, word) if having else None


async def _object(desk: Desk, word: str) -> Named:
    if await desk.cluster.get(GPU_CASES, word) is not None:
        return Named(Meant.CASE, word, cases=(word,))
    node = await desk.node(word)
    if node is not None:
        return Named(Meant.NODE, word, node=node, cases=told_of(await desk.cases(ended=True, node=word)))
    fault = await desk.cluster.get(GPU_FAULTS, word)
    if fault is None:
        raise Refused(
            f"{word!r} names no case, node, GPU or fault that was told of; "
            "`gpuward cases --all` and `gpuward nodes` list them"
        )
    judged = (fault.get("status") or {}).get("judged") or {}
    case = judged.get("case")
    return Named(Meant.FAULT, word, cases=(case,) if isinstance(case, str) and case else ())


def told_of(cases: Sequence[CaseGlance]) -> tuple[str, ...]:
    """Return the open cases of some, or the newest one when none is open."""
    still_open = tuple(case.name for case in cases if case.is_open)
    return still_open or tuple(case.name for case in cases[-1:])


def _is_uuid(word: str) -> bool:
    return word.lower().startswith(_UUIDS) and word.count("-") > 1
