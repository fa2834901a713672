"""What must not be left: marks on cluster and machines that no open case asks for, and work for no fault at all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuward.model.case import ENDED, Case, CaseState
from gpuward.model.level import Level
from gpuward.model.objects.owned import RESERVED, STANDBY, Taint, read_owned
from gpuward.model.objects.standby_pool import read_standby_pool
from gpuward.model.resource import GPU_NODES, NODES, STANDBY_POOLS
from gpuward.sim.cluster.server import Server
from gpuward.sim.fleet.machine import Machine
from gpuward.sim.fleet.witness import is_tainted

_STANDS_BY = frozenset({Taint(STANDBY, "NoSchedule")})
"""A node that was repaired may stand by: the pool asks for that, and no case."""


def left_over(server: Server, machines: Mapping[str, Machine], cases: Iterable[Case]) -> list[str]:
    """Return every mark that no open case asks for, in sentences; empty when there is none."""
    open_ones = [case for case in cases if case.state not in ENDED and case.drill is None]
    return [
        *_on_nodes(server, {case.node for case in open_ones}),
        *_orders(server, {case.id for case in open_ones}),
        *_on_machines(machines, {(case.node, case.gpu) for case in open_ones}),
    ]


def stuck(cases: Iterable[Case]) -> list[str]:
    """Return the cases that are under way still, in sentences: in calm each comes to an end, or to a person."""
    return [
        f"{case.id} is {case.state} since {case.since:.0f}: {case.because}"
        for case in cases
        if not (rests(case) or case.state is CaseState.PARKED)
    ]


def rests(case: Case) -> bool:
    """Return whether a case has ended, or was held before anything was done: for want of a standby, or by the brake."""
    return case.state in ENDED or (case.state is CaseState.SUSPECT and not case.effects)


def unfounded(cases: Iterable[Case], truth: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the cases of GPUs that never were ill and whose programs never broke; `truth` has addresses by node."""
    return [
        f"{case.id}: {case.node} {case.gpu} had nothing"
        for case in cases
        if case.drill is None and case.gpu not in truth.get(case.node, ())
    ]


def missed(machines: Mapping[str, Machine], cases: Iterable[Case]) -> list[str]:
    """Return the GPUs that are ill now and have no open case."""
    busy = {(case.node, case.gpu) for case in cases if case.state not in ENDED}
    return [
        f"{machine.name} {card.pci} {card.ailment.words}"
        for machine in machines.values()
        for card in machine.cards.values()
        if card.ailment is not None and card.ailment.level is Level.P0 and (machine.name, card.pci) not in busy
    ]


def _on_nodes(server: Server, with_cases: set[str]) -> Iterator[str]:
    kept = {
        given.node
        for pool in map(read_standby_pool, server.list(STANDBY_POOLS).items)
        if pool.status is not None
        for given in pool.status.promoted
        if given.freed_at is None
    }
    for node in server.list(NODES).items:
        name = node["metadata"]["name"]
        reserved = any(one.get("key") == RESERVED for one in (node.get("spec") or {}).get("taints") or ())
        if is_tainted(node) and name not in with_cases:
            yield f"node {name} is tainted for no case"
        if reserved and name not in kept:
            yield f"node {name} is reserved for nobody"
        if read_owned(node).taints - _STANDS_BY and not (name in with_cases or reserved):
            yield f"node {name} has a note of a taint of ours for no case"


def _orders(server: Server, with_names: set[str]) -> Iterator[str]:
    for found in server.list(GPU_NODES).items:
        for order in (found.get("spec") or {}).get("orders") or ():
            if order["case"] not in with_names:
                yield f"{found['metadata']['name']} has an order of {order['case']}, which has ended"


def _on_machines(machines: Mapping[str, Machine], with_cases: set[tuple[str, str]]) -> Iterator[str]:
    for machine in machines.values():
        for card in machine.cards.values():
            if (machine.name, card.pci) in with_cases:
                continue
            if card.drained:
                yield f"{machine.name} {card.pci} is drained for no case"
            if not card.persistence:
                yield f"{machine.name} {card.pci} is without its persistence mode for no case"
