"""Takes gpuward off a cluster: the programs, then its marks on what is others', then its objects. Nobody is asked here.

The order matters: a controller that still runs puts back a taint that is missing, so it loses its rights first.
Each step may be done again: a run that was cut short is finished by the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import CONTROLLER, NAME, Installation
from gpuward.cli.manifests.places import DEFINITIONS, name_of, namespace_of, place_of
from gpuward.cli.unmarking import annotations_of, is_marked, strangers, uncondition, unmark, unnotice
from gpuward.model.case import ENDED
from gpuward.model.objects.gpu_node import GpuState
from gpuward.model.objects.owned import CHECKPOINT, NOTICE, read_owned
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import GPU_CASES, GPU_NODES, NODES, PODS, Resource
from gpuward.ports import Cluster, Conflict, Refused, Unreachable

_T = TypeVar("_T")
TRIES = 5
"""How often a node is read again when it changed under us."""
AT_ONCE = 16
"""Nodes or pods that are worked on at a time."""
NAMED = 5
"""Open cases that are named; the others are counted."""
_LOOK_SECONDS = 0.2
_PROGRAMS = frozenset({"DaemonSet", "Deployment"})
_OUT_OF_SERVICE = frozenset({GpuState.DRAINING, GpuState.IDLE, GpuState.RESETTING})


@dataclass(slots=True)
class Taken:
    """What was taken away, and what stays and why, in words."""

    gone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


async def take_away(
    cluster: Cluster, installation: Installation, *, forced: bool = False, wait_seconds: float = 120.0
) -> Taken:
    """Take everything away; wait at most `wait_seconds` for each thing that needs time to go.

    Raises Refused, with nothing done, while cases are open, unless `forced`: only an agent undoes a drain.
    """
    objects = list(reversed(manifests(installation)))
    taken = Taken()
    served = [one for one in (GPU_CASES, GPU_NODES) if await _is_defined(cluster, one)]
    open_cases = await _open_cases(cluster) if GPU_CASES in served else []
    if open_cases and not forced:
        raise Refused(
            f"{_some(open_cases)}: only the agents can let these GPUs go; release the cases (`gpuward release CASE`) "
            "and uninstall then, or give --force"
        )
    if GPU_NODES in served:
        taken.left += await _out_of_service(cluster)
    await _end_programs(cluster, objects, installation, taken, wait_seconds=wait_seconds)
    await _unmark_nodes(cluster, taken)
    await _unnotice_pods(cluster, taken)
    await _delete(cluster, objects, taken, wait_seconds=wait_seconds)
    return taken


async def _is_defined(cluster: Cluster, resource: Resource) -> bool:
    return await cluster.get(DEFINITIONS, f"{resource.plural}.{resource.group}") is not None


async def _open_cases(cluster: Cluster) -> list[str]:
    """Return the names of the cases that have not ended; one that nobody can read counts as open, a drill does not."""
    found = await cluster.list(GPU_CASES, project=_open_name)
    return sorted(name for name in found.items if name)


def _open_name(case: Mapping[str, Any]) -> str:
    spec, status = case.get("spec") or {}, case.get("status") or {}
    is_over = status.get("state", spec.get("state")) in set(map(str, ENDED))
    return "" if is_over or spec.get("drill") else name_of(case)


async def _out_of_service(cluster: Cluster) -> list[str]:
    """Return what a person must do by hand, for each GPU that would stay drained."""
    found = await cluster.list(GPU_NODES, project=_drained)
    return [
        f"GPU {pci} of {node} is out of service, and nobody will let it go: `nvidia-smi drain -p {pci}.0 -m 0` there"
        for node, drained in found.items
        for pci in drained
    ]


def _drained(node: Mapping[str, Any]) -> tuple[str, list[str]]:
    gpus = (node.get("status") or {}).get("gpus") or []
    return name_of(node), [str(gpu.get("pci")) for gpu in gpus if gpu.get("state") in _OUT_OF_SERVICE]


async def _end_programs(
    cluster: Cluster,
    objects: Iterable[Mapping[str, Any]],
    installation: Installation,
    taken: Taken,
    *,
    wait_seconds: float,
) -> None:
    """End the programs, and take the controller's rights, so that one that still runs marks nothing again."""
    for one in objects:
        is_right = one["kind"].endswith("RoleBinding") and name_of(one) == CONTROLLER
        if one["kind"] in _PROGRAMS or is_right:
            await _deleted(cluster, one, taken)

    async def are_gone() -> bool:
        chosen = f"{NAME}={CONTROLLER}"
        return not (await cluster.list(PODS, namespace=installation.namespace, labels=chosen, project=name_of)).items

    await _until(are_gone, "the controllers are still running", wait_seconds=wait_seconds)


async def _unmark_nodes(cluster: Cluster, taken: Taken) -> None:
    found = await cluster.list(NODES, project=lambda node: name_of(node) if is_marked(node) else None)
    await _each([name for name in found.items if name], partial(_unmark_node, cluster), taken)


async def _unmark_node(cluster: Cluster, name: str, taken: Taken) -> None:
    for _ in range(TRIES):
        node = await cluster.get(NODES, name)
        if node is None:
            return
        try:
            await _take_marks(cluster, node, taken)
        except Conflict:
            continue  # somebody changed it: what is ours is looked for anew
        except ObjectError as error:
            taken.left.append(f"node {name} keeps its marks: {error}; look at its taints and labels, then delete it")
            return
        else:
            return
    taken.left.append(f"node {name} keeps marks: it changed {TRIES} times in a row; uninstall once more")


async def _take_marks(cluster: Cluster, node: Mapping[str, Any], taken: Taken) -> None:
    """Take our marks off a node, and say what is a person's."""
    owned, name = read_owned(node), name_of(node)
    on_status = uncondition(node)
    operations = unmark(node, owned)
    if on_status:
        await cluster.patch(NODES, name, on_status, subresource="status")
    if operations:
        await cluster.patch(NODES, name, operations)
    if on_status or operations:
        taken.gone.append(f"marks of node {name}")
    taken.left += [
        f"node {name} keeps the taint {taint}: it was not put there by gpuward; `kubectl taint node {name} {taint}-`"
        for taint in strangers(node, owned)
    ]


async def _unnotice_pods(cluster: Cluster, taken: Taken) -> None:
    found = await cluster.list(PODS, labels=CHECKPOINT, project=_noticed)
    await _each([pod for pod in found.items if pod], partial(_unnotice_pod, cluster), taken)


def _noticed(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return of a pod that carries our notice what is needed to take it off."""
    notice = annotations_of(pod).get(NOTICE)
    if notice is None:
        return None
    where = {key: pod["metadata"][key] for key in ("name", "namespace")}
    return {"metadata": {**where, "annotations": {NOTICE: notice}}}


async def _unnotice_pod(cluster: Cluster, pod: Mapping[str, Any], taken: Taken) -> None:
    namespace, name = namespace_of(pod), name_of(pod)
    try:
        await cluster.patch(PODS, name, unnotice(pod), namespace=namespace)
    except Conflict:
        return  # it is gone, or the notice is
    taken.gone.append(f"the notice of pod {namespace}/{name}")


async def _delete(cluster: Cluster, objects: Sequence[Mapping[str, Any]], taken: Taken, *, wait_seconds: float) -> None:
    for one in objects:
        await _deleted(cluster, one, taken)

        async def is_gone(one: Mapping[str, Any] = one) -> bool:
            return await cluster.get(place_of(one), name_of(one), namespace=namespace_of(one)) is None

        if place_of(one) == DEFINITIONS:
            await _until(is_gone, f"{name_of(one)} is still there", wait_seconds=wait_seconds)


async def _deleted(cluster: Cluster, one: Mapping[str, Any], taken: Taken) -> None:
    if await cluster.delete(place_of(one), name_of(one), namespace=namespace_of(one)):
        taken.gone.append(f"{one['kind']} {name_of(one)}")


async def _each(names: Sequence[_T], work: Callable[[_T, Taken], Awaitable[None]], taken: Taken) -> None:
    """Do the work for each, some at a time, and put down what came of it in their order; the first error ends it."""
    room, came = asyncio.Semaphore(AT_ONCE), [Taken() for _ in names]

    async def one(name: _T, so_far: Taken) -> None:
        async with room:
            await work(name, so_far)

    try:
        async with asyncio.TaskGroup() as group:
            for name, so_far in zip(names, came, strict=True):
                group.create_task(one(name, so_far))
        for so_far in came:
            taken.gone += so_far.gone
            taken.left += so_far.left
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors  # people read one sentence


async def _until(is_so: Callable[[], Awaitable[bool]], otherwise: str, *, wait_seconds: float) -> None:
    try:
        async with asyncio.timeout(wait_seconds):
            while not await is_so():  # noqa: ASYNC110  what is waited for is in the cluster, not in this program
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise Unreachable(f"{otherwise} after {wait_seconds:.0f} s; look why, and uninstall once more") from error


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    said = ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{len(names)} cases are open ({said})" if len(names) > 1 else f"the case {said} is open"
