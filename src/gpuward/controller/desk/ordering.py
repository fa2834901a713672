"""People's orders: an entry in the case's `spec.orders`, each with its own number, and what becomes of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuward.controller.desk.reading import Desk
from gpuward.controller.desk.story import read_case
from gpuward.model.case import ENDED, CaseState, Mode, Order
from gpuward.model.objects.gpu_case import MOST_ORDERS, CaseOrder, GpuCase, as_case
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES
from gpuward.ports import Conflict, Refused, Unreachable

TRIES = 6
"""So often is a case read again that others change at the same time."""
LOOK_SECONDS = 0.5
"""How often a case is looked at whose end, or whose hearing of an order, is waited for."""


@dataclass(frozen=True, slots=True)
class Given:
    """An order that was given, and the case as it stood then."""

    order: CaseOrder
    case: GpuCase

    @property
    def is_heard(self) -> bool:
        """Whether the controller has heard it."""
        return self.case.status is not None and self.case.status.heard >= self.order.number


async def give(desk: Desk, name: str, order: CaseOrder) -> Given:
    """Add an order to a case, under the next number. Raises Refused where it comes to nothing, else as the cluster.

    Who else gives one at the same time loses nothing: the entry is added to what was read, or the case is read again.
    """
    for attempt in range(TRIES):
        found = await desk.cluster.get(GPU_CASES, name)
        if found is None:
            raise Refused(f"there is no case {name}; `gpuward cases` lists the open ones")
        case = read_case(found, name)
        await _check(desk, case, order.what)
        numbered = replace(order, number=max((one.number for one in case.spec.orders), default=0) + 1)
        try:
            made = await desk.cluster.patch(GPU_CASES, name, _operations(case, numbered))
        except Conflict:
            await desk.pace.back_off(attempt + 1)
            continue
        return Given(numbered, read_case(made, name))
    raise Unreachable(f"the case {name} is changed by others all the time; try again")


async def until_heard(
    desk: Desk,
    given: Given,
    *,
    wait_seconds: float,
    told: Callable[[Given], None],
    away: Callable[[str], None],
) -> Given:
    """Look at the case until the controller has heard the order, or the time is over; return it as it is then.

    `told` is told of every look. An API that is away for a while is waited for; `away` hears of it once each time.
    """
    now = given

    def look(case: GpuCase) -> None:
        nonlocal now
        now = replace(given, case=case)
        told(now)

    await followed(desk, given.case, lambda _: now.is_heard, wait_seconds=wait_seconds, told=look, away=away)
    return now


async def followed(
    desk: Desk,
    case: GpuCase,
    is_over: Callable[[GpuCase], bool],
    *,
    wait_seconds: float,
    told: Callable[[GpuCase], None],
    away: Callable[[str], None],
) -> GpuCase | None:
    """Look at a case until it is over or the time is; return it as it is then, None when it was taken away.

    `told` hears of every look, `away` why there is none, once each time that the API stops answering.
    """
    end, is_away = desk.pace.clock.monotonic() + wait_seconds, False
    while not is_over(case) and desk.pace.clock.monotonic() < end:
        await desk.pace.sleep(LOOK_SECONDS)
        try:
            found = await desk.cluster.get(GPU_CASES, case.head.name)
        except Unreachable as error:
            if not is_away:
                away(str(error))
            is_away = True
            continue
        is_away = False
        if found is None:
            return None
        case = read_case(found, case.head.name)
        told(case)
    return case


async def _check(desk: Desk, case: GpuCase, what: Order) -> None:
    """Raise Refused when the controller would make nothing of the order."""
    name, now = case.head.name, as_case(case)
    if now.state in ENDED:
        raise Refused(f"the case {name} is {now.state}: there is nothing to {what} any more")
    if what is Order.APPROVE and now.approved:
        raise Refused(f"the case {name} was approved before; `gpuward why {name}` says where it is")
    if what is Order.OFF and not now.of_node:
        raise Refused(f"the case {name} is of one GPU, and its node answers: only a lost node can be said to be off")
    if what is Order.RETRY and now.state is not CaseState.PARKED:
        raise Refused(f"the case {name} is {now.state}, and only a parked one is tried again")
    if what is Order.RETRY:
        node = await desk.node(case.spec.node)
        if node is not None and node.wanted != Mode.REPAIR:
            raise Refused(
                f"{case.spec.node} is in mode {node.wanted or Mode.OBSERVE}: let its mode be repair in the settings of "
                "the controller, then retry"
            )


def _operations(case: GpuCase, order: CaseOrder) -> list[dict[str, Any]]:
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": case.head.version}
    # The oldest are dropped where there is no more room: they were heard long ago, and the audit log has them.
    kept = [*case.spec.orders, order][-MOST_ORDERS:]
    return [version, {"op": "add", "path": "/spec/orders", "value": [write(one) for one in kept]}]
