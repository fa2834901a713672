"""The people of a pretend fleet: after a while one comes to each case that waits for a person, and does what is due.

He looks at the machine, not at what the product says: the truth decides whether a card is replaced.
"""

import random
from collections.abc import Callable
from typing import Protocol

from gpuward.model.case import Case, CaseState, Order
from gpuward.model.resource import GPU_CASES
from gpuward.sim.cluster.server import Server
from gpuward.sim.fleet.ailments import Cure
from gpuward.sim.fleet.machine import Machine

OFF_SECONDS = 180.0
"""How long a machine is off while somebody works on it."""
_AGAIN_SECONDS = 90.0
"""When it is looked whether a word was followed."""
_SETTLED_SECONDS = 60.0
"""How long after a boot its agent has told what it sees."""


class Site(Protocol):
    """What people can reach."""

    server: Server

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after so many seconds."""

    def machine(self, node: str) -> Machine:
        """Return a machine."""

    def power(self, node: str, *, on: bool) -> None:
        """Turn a machine off, or let it boot."""

    def say(self, node: str, gpu: str, because: str) -> None:
        """Write down what was done."""


class People:
    """Whoever is on call. `newest` returns a case as it is now."""

    def __init__(
        self, site: Site, *, dice: random.Random, visit_seconds: tuple[float, float], newest: Callable[[str], Case]
    ) -> None:
        self.visits = 0
        self._site = site
        self._dice = dice
        self._visit_seconds = visit_seconds
        self._newest = newest

    def call(self, case: Case) -> None:
        """Take note that a case waits for a person."""
        if case.drill is None:
            self._site.later(self._dice.uniform(*self._visit_seconds), lambda: self._visit(case.id))

    def release(self, name: str) -> None:
        """Give the word that a case is over, if it still is not."""
        case = self._newest(name)
        if case.state is not CaseState.PARKED:
            return
        if case.order is not Order.RELEASE:
            self._order(name, "release")  # also while the machine is off: it is followed when that boots
        self._site.later(_AGAIN_SECONDS, lambda: self.release(name))

    def _visit(self, name: str) -> None:
        case = self._newest(name)
        if case.state is not CaseState.PARKED:
            return
        machine = self._site.machine(case.node)
        if not machine.is_on:
            # Nobody can look at it now: somebody works on it already, or it has no power.
            self._site.later(_AGAIN_SECONDS, lambda: self._visit(name))
            return
        self.visits += 1
        ailment = machine.cards[case.gpu].ailment if case.gpu else None
        if ailment is None:
            self.release(name)
            return
        if ailment.cure is Cure.HANDS:
            machine.replace_card(case.gpu)
        done = "replaced the card" if ailment.cure is Cure.HANDS else "rebooted the node"
        self._site.say(case.node, case.gpu, f"a person {done}")
        self._site.power(case.node, on=False)
        self._site.later(OFF_SECONDS, lambda: self._return(case.node, name))

    def _return(self, node: str, name: str) -> None:
        self._site.power(node, on=True)
        self._site.later(_SETTLED_SECONDS, lambda: self.release(name))

    def _order(self, name: str, what: str) -> None:
        found = self._site.server.get(GPU_CASES, name)
        if found is None:
            return
        before = list(found["spec"].get("orders") or ())
        orders = [*before, {"number": len(before) + 1, "what": what, "by": "sim", "because": "seen to by a person"}]
        self._site.server.patch(GPU_CASES, name, [{"op": "add", "path": "/spec/orders", "value": orders}])
