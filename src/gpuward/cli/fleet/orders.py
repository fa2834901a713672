"""`approve`, `retry` and `release` on a cluster: a person's word is added to the case, and it is told who heard it."""

import argparse
from typing import Any

from gpuward.cli import wiring
from gpuward.cli.fleet.voice import Voice, say_away
from gpuward.controller.desk.naming import Meant, named
from gpuward.controller.desk.ordering import Given, give, until_heard
from gpuward.controller.desk.reading import Desk
from gpuward.model.case import ENDED, Order
from gpuward.model.objects.gpu_case import CaseOrder, as_case
from gpuward.ports import Refused

UNHEARD = 1
_THEN = {
    Order.APPROVE: "it may go ahead",
    Order.RETRY: "the repair is tried again",
    Order.OFF: "its pods may be deleted, unless the node answers",
    Order.RELEASE: "every mark is undone, and the case is closed",
}


async def order(desk: Desk, asked: argparse.Namespace, voice: Voice, by: str) -> int:
    """Give an order on a case, or a release on every open case of a node; 1 when one is not heard in time."""
    what = Order(asked.command)
    if asked.name is None:
        raise wiring.UsageError("say which case" + (", or which node" if what is Order.RELEASE else ""))
    word = CaseOrder(number=1, what=what, forced=getattr(asked, "force", False), by=by, because=asked.because)
    given = [await give(desk, name, word) for name in await _cases(desk, what, asked.name)]
    voice.say(f"{one.case.head.name}: {what} is asked for by {by}; {_THEN[what]}" for one in given)
    if await desk.leads() is False:
        voice.say(["no controller leads: the order is kept in the case, and heard as soon as one does"])
    heard = [await _followed(desk, one, voice, wait_seconds=asked.wait_seconds) for one in given]
    voice.answer({"orders": list(map(_value, heard))}, map(_end, heard))
    return 0 if all(one.is_heard for one in heard) else UNHEARD


async def _cases(desk: Desk, what: Order, word: str) -> tuple[str, ...]:
    """Return the cases that are meant: one, or for a release all open ones of a node. Raises Refused."""
    if what is not Order.RELEASE:
        return (word,)
    meant = await named(desk, word)
    if meant.what is Meant.CASE:
        return (word,)
    still_open = {case.name for case in await desk.cases()}
    found = tuple(name for name in meant.cases if name in still_open)
    if not found:
        raise Refused(f"{word} has no open case; `gpuward cases` lists them")
    return found


async def _followed(desk: Desk, given: Given, voice: Voice, *, wait_seconds: float) -> Given:
    """Wait until the order is heard, and tell where the case goes meanwhile."""
    before = as_case(given.case)

    def told(now: Given) -> None:
        nonlocal before
        after = as_case(now.case)
        if after.state is not before.state or after.because != before.because:
            voice.say([f"{now.case.head.name}: {after.state}: {after.because}"])
        before = after

    return await until_heard(desk, given, wait_seconds=wait_seconds, told=told, away=say_away)


def _end(given: Given) -> str:
    case = as_case(given.case)
    name = given.case.head.name
    if not given.is_heard:
        return f"{name}: not heard yet; `gpuward why {name}` shows when it is"
    goes_on = "" if case.state in ENDED else f"; `gpuward why {name}` shows how it goes on"
    return f"{name}: heard, and it is {case.state}: {case.because}{goes_on}"


def _value(given: Given) -> dict[str, Any]:
    case = as_case(given.case)
    return {
        "case": given.case.head.name,
        "number": given.order.number,
        "what": str(given.order.what),
        "by": given.order.by,
        "heard": given.is_heard,
        "state": str(case.state),
        "because": case.because,
        "due": case.due,
    }
