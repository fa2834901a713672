"""What each stroke of the weather does to a pretend fleet, and the truth about it. When it strikes is planned."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from gpuward.sim.fleet.agent import PretendAgent
from gpuward.sim.fleet.ailments import AILMENTS, ALARMS, Ailment, Cure
from gpuward.sim.fleet.brains import Replica
from gpuward.sim.fleet.machine import Card, Machine
from gpuward.sim.fleet.weather import Kind, Stroke
from gpuward.sim.fleet.workloads import Kubelets

AGAIN_SECONDS = 20.0
"""How often the lines of a fault that flaps come."""
_BY_NAME = {one.name: one for one in AILMENTS}
_ALARMS = {one.name: one for one in ALARMS}


class Site(Protocol):
    """What the weather can reach."""

    names: list[str]
    agents: dict[str, PretendAgent]
    replicas: list[Replica]
    kubelets: Kubelets

    def machine(self, node: str) -> Machine:
        """Return a machine."""

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after so many seconds."""

    def power(self, node: str, *, on: bool) -> None:
        """Turn a machine off, or let it boot."""

    def cut(self, node: str, *, off: bool) -> None:
        """Cut a machine off from the network, or let it back."""

    def roughen(self, *, on: bool) -> None:
        """Let calls to the API server fail, or let them be."""

    def away(self, *, on: bool) -> None:
        """Take the API server away, or let it come back."""

    def truth(self, stroke: Stroke, node: str, gpu: str, *, outcome: str, because: str) -> None:
        """Write down what really happened."""


class Strokes:
    """Strikes a fleet."""

    def __init__(self, site: Site) -> None:
        self.struck = dict.fromkeys(Kind, 0)
        self._site = site

    def strike(self, stroke: Stroke) -> None:
        """Do what a stroke does."""
        self.struck[stroke.kind] += 1
        _STRIKES[stroke.kind](self, stroke)

    def _ill(self, stroke: Stroke) -> None:
        node, machine, card = self._aim(stroke)
        ailment = _BY_NAME[stroke.name]
        if not self._may_fall_ill(machine, card, ailment):
            return
        self._site.truth(stroke, node, card.pci, outcome=ailment.name, because=f"GPU {card.index} {ailment.words}")
        if ailment.cure is not Cure.NOTHING:
            card.ailment, card.was_reset = ailment, False
        machine.tells(ailment, card.pci)
        self._site.kubelets.hit(node, card.pci, ailment.work)
        self._ring(node)

    def _flapping(self, stroke: Stroke) -> None:
        node, machine, card = self._aim(stroke)
        self._ill(stroke)
        uuid, ailment = card.uuid, card.ailment
        if ailment is None:
            return

        def again(left: float) -> None:
            now = machine.cards[card.pci]
            if left > 0 and machine.is_on and now.uuid == uuid and now.ailment is ailment and not now.was_reset:
                machine.tells(ailment, card.pci)
                self._ring(node)
                self._site.later(AGAIN_SECONDS, lambda: again(left - AGAIN_SECONDS))

        self._site.later(AGAIN_SECONDS, lambda: again(stroke.seconds))

    def relapse(self, machine: Machine, card: Card) -> None:
        """Let a card that a reset did not cure tell so again, after a while."""
        ailment = card.ailment
        if ailment is None or not ailment.relapses_seconds:
            return

        def again() -> None:
            if machine.cards[card.pci] is not card or card.ailment is not ailment:
                return
            if not machine.is_on:
                self._site.later(ailment.relapses_seconds, again)
            else:
                machine.tells(ailment, card.pci)
                self._site.kubelets.hit(machine.name, card.pci, ailment.work)
                self._ring(machine.name)

        self._site.later(ailment.relapses_seconds, again)

    def _alarm(self, stroke: Stroke) -> None:
        node, machine, card = self._aim(stroke)
        alarm = _ALARMS[stroke.name]
        if machine.is_on:
            self._site.truth(stroke, node, card.pci, outcome="false alarm", because=alarm.words)
            machine.writes(alarm.line.format(pci=card.pci), priority=alarm.priority)
            self._ring(node)

    def _silence(self, stroke: Stroke) -> None:
        node, machine, _ = self._aim(stroke)
        if machine.is_on and machine.is_reachable:
            words = f"the node is cut off from the network for {stroke.seconds:.0f} s"
            self._site.truth(stroke, node, "", outcome="silence", because=words)
            self._site.cut(node, off=True)
            self._site.later(stroke.seconds, lambda: self._site.cut(node, off=False))

    def _power(self, stroke: Stroke) -> None:
        node, machine, _ = self._aim(stroke)
        if machine.is_on and machine.is_reachable:
            words = f"the node lost its power, and boots after {stroke.seconds:.0f} s"
            self._site.truth(stroke, node, "", outcome="power", because=words)
            self._site.power(node, on=False)
            self._site.later(stroke.seconds, lambda: self._site.power(node, on=True))

    def _rough(self, stroke: Stroke) -> None:
        words = f"calls to the API server are lost, late or refused for {stroke.seconds:.0f} s"
        self._site.truth(stroke, "", "", outcome="rough", because=words)
        self._site.roughen(on=True)
        self._site.later(stroke.seconds, lambda: self._site.roughen(on=False))

    def _away(self, stroke: Stroke) -> None:
        self._site.truth(stroke, "", "", outcome="away", because=f"the API server is away for {stroke.seconds:.0f} s")
        self._site.away(on=True)
        self._site.later(stroke.seconds, lambda: self._site.away(on=False))

    def _controller(self, stroke: Stroke) -> None:
        for replica in self._site.replicas:
            if replica.leads:
                words = f"the leading controller, {replica.name}, is killed"
                told = partial(self._site.truth, stroke, "", "", outcome="controller", because=words)
                replica.doom(stroke.calls, after=stroke.after, told=told)

    def _agent(self, stroke: Stroke) -> None:
        node, machine, _ = self._aim(stroke)
        agent = self._site.agents[node]
        if agent.is_alive:
            words = f"the agent is killed, and started again after {stroke.seconds:.0f} s"
            self._site.truth(stroke, node, "", outcome="agent", because=words)
        agent.kill()
        self._site.later(stroke.seconds, lambda: agent.start() if machine.is_on else None)

    def _aim(self, stroke: Stroke) -> tuple[str, Machine, Card]:
        node = self._site.names[stroke.node]
        machine = self._site.machine(node)
        return node, machine, list(machine.cards.values())[stroke.gpu]

    def _may_fall_ill(self, machine: Machine, card: Card, ailment: Ailment) -> bool:
        """Return whether it can happen now: a program can only break where one runs, a GPU is ill with one thing."""
        runs = bool(machine.processes[card.index])
        return machine.is_on and card.ailment is None and (runs or ailment.cure is not Cure.NOTHING)

    def _ring(self, node: str) -> None:
        self._site.agents[node].ring()


_STRIKES: dict[Kind, Callable[[Strokes, Stroke], None]] = {
    Kind.ILL: Strokes._ill,  # noqa: SLF001  the table of its own methods
    Kind.FLAPPING: Strokes._flapping,  # noqa: SLF001
    Kind.ALARM: Strokes._alarm,  # noqa: SLF001
    Kind.SILENCE: Strokes._silence,  # noqa: SLF001
    Kind.POWER: Strokes._power,  # noqa: SLF001
    Kind.ROUGH: Strokes._rough,  # noqa: SLF001
    Kind.AWAY: Strokes._away,  # noqa: SLF001
    Kind.CONTROLLER: Strokes._controller,  # noqa: SLF001
    Kind.AGENT: Strokes._agent,  # noqa: SLF001
}
