"""A whole pretend fleet, and its life: machines, agents, controllers, work, people, and the weather that strikes them.

All of it lives on one event loop in one pretend time. What strikes is planned in weather.
"""

import asyncio
import heapq
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from gpuward.agent.connection import Place
from gpuward.controller.record import Tell
from gpuward.controller.terms import Terms
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.model.case import Case
from gpuward.model.happening import Happening, What
from gpuward.model.objects.kinds import KINDS, object_schema
from gpuward.model.objects.owned import STANDBY
from gpuward.model.objects.standby_pool import PoolSpec, Shape
from gpuward.model.objects.values import write
from gpuward.model.pod import pod_of
from gpuward.model.resource import NAMESPACES, NODES, OWN_NAMESPACE, PODS, STANDBY_POOLS
from gpuward.settings import Settings, terms_of
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.network import Network, Presence
from gpuward.sim.cluster.weather import Odds, SeededWeather
from gpuward.sim.fleet.agent import PretendAgent
from gpuward.sim.fleet.brains import Replica
from gpuward.sim.fleet.layout import Layout
from gpuward.sim.fleet.leftovers import rests
from gpuward.sim.fleet.machine import MODEL, Machine
from gpuward.sim.fleet.people import People
from gpuward.sim.fleet.strokes import Strokes
from gpuward.sim.fleet.time import Skewed, Time
from gpuward.sim.fleet.weather import USUAL, Rates, Stroke
from gpuward.sim.fleet.witness import Witness
from gpuward.sim.fleet.workloads import NAMESPACE as WORK
from gpuward.sim.fleet.workloads import Following, Kubelets, Owners, schedule, set_ready

PRODUCT = MODEL.replace(" ", "-")
STEP_SECONDS = 1.0
QUIET_SECONDS = 6.0
"""So long nothing must have changed before time is skipped: controllers have gone round more than twice by then."""
_LONGEST_SKIP = 10_800.0
_NOT_READY_SECONDS = 40.0
"""How long after a node was heard of last its Ready condition is Unknown (node-monitor-grace-period)."""
_TOLD_SECONDS = 45.0
"""So long after it is back an agent has told what it could not tell (its longest back-off is 30 s, and jitter)."""
_CALM = Odds()
_HARMLESS = frozenset({"false alarm", "controller", "agent", "rough", "away"})
"""What gives nobody a reason for a case."""


class Fleet:
    """One fleet. `tell` gets what happens, in order: the truth, what agents saw, what controllers saved."""

    def __init__(
        self, layout: Layout, *, seed: int, terms: Terms, tell: Tell, rates: Rates = USUAL, time: Time | None = None
    ) -> None:
        self.layout = layout
        self.terms = terms
        self.tell = tell
        self.time = time or Time()
        self.names = layout.names()
        self.skips = True
        """Idle time is skipped."""
        self.crashes: list[str] = []
        """What ended controllers against their will, in words: faults of ours."""
        self.truths: dict[str, list[str]] = {}
        """By node, the GPUs that were ill or whose programs broke; empty for the node itself, which was away."""
        self._rates = rates
        whose = ("machines", "agents", "work", "people", "brains")
        self._dice = {one: random.Random(f"{seed} {one}") for one in whose}  # noqa: S311  the same seed, the same run
        self._weather = SeededWeather(seed, _CALM)
        schemas = {kind.resource.plural: object_schema(kind) for kind in KINDS}
        self.cluster = pretend_cluster(self.time, asyncio.sleep, seed=seed, schemas=schemas, weather=self._weather)
        self.server = self.cluster.server
        self.machines = self._new_machines()
        self.agents: dict[str, PretendAgent] = {}
        self.replicas: list[Replica] = []
        self._networks: dict[str, Network] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._expected = 0
        self._roughs = 0
        self._aways = 0
        self._woken_at = 0.0
        self._back_at = 0.0
        """When a machine or the API server came back last."""

    # --- its life ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def living(self) -> AsyncIterator["Fleet"]:
        """Let it live as long as the context lasts; nothing is left running after it."""
        self._build()
        for agent in self.agents.values():
            agent.start()
        tasks = [asyncio.ensure_future(replica.run()) for replica in self.replicas]
        try:
            yield self
        finally:
            for agent in self.agents.values():
                agent.kill()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _ended_all()

    def expect(self, strokes: Sequence[Stroke]) -> None:
        """Let strokes come when they are due."""
        for stroke in strokes:
            self.later(stroke.at - self.elapsed, lambda one=stroke: self.strokes.strike(one))  # type: ignore[misc]

    async def live_until(self, end: float) -> None:
        """Let time go on until so many seconds after the beginning."""
        while self.elapsed < end:
            while self._due and self._due[0][0] <= self.elapsed:
                heapq.heappop(self._due)[2]()
            left = min(end, self._due[0][0] if self._due else end) - self.elapsed
            if left <= 0:
                continue
            if self.skips and left > QUIET_SECONDS and self.is_quiet():
                self._skip(left)
            else:
                await asyncio.sleep(min(left, STEP_SECONDS))

    async def settle(self, *, within_seconds: float) -> bool:
        """Let the weather be calm and time go on until nothing is under way; return whether it came to that."""
        end = self.elapsed + within_seconds
        while self.elapsed < end:
            if self._is_settled():
                return True
            await self.live_until(min(end, self.elapsed + 10.0))
        return self._is_settled()

    @property
    def elapsed(self) -> float:
        """Return the seconds since the beginning, skipped ones too."""
        return self.time.passed + self.time.skipped

    def is_quiet(self) -> bool:
        """Return whether nothing is under way that needs its time."""
        if not self._is_still():
            return False
        clear = not self._aways and all(one.is_on and one.is_reachable for one in self.machines.values())
        return clear and self._is_led() and self.kubelets.is_quiet and all(one.is_quiet for one in self.agents.values())

    def _is_still(self) -> bool:
        newest = max(self.witness.changed_at, self._woken_at)
        return self.time.passed - newest > QUIET_SECONDS and self.witness.is_quiet

    def _is_led(self) -> bool:
        return any(one.leads and one.sees for one in self.replicas)

    def _is_settled(self) -> bool:
        told = self.time.passed - self._back_at > _TOLD_SECONDS
        still = told and self._is_still() and self._is_led() and self.kubelets.is_quiet and not self._expected
        return still and all(map(rests, self.witness.seen.cases.values()))

    def _skip(self, left: float) -> None:
        """Let time go on to the next moment that matters, and let those look to whom it may."""
        ends = self.witness.due_at(self.terms.probation_seconds) - self.time.now()
        seconds = min(left, _LONGEST_SKIP, max(ends, STEP_SECONDS))
        self.time.skip(seconds)
        self._woken_at = self.time.passed
        for agent in self.agents.values():
            agent.skipped()

    # --- what strikes it ----------------------------------------------------------------------------------------------

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after so many seconds, skipped ones counted; it is not settled before."""
        self._expected += 1

        def do() -> None:
            self._expected -= 1
            act()

        self.sometime(seconds, do)

    def sometime(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after so many seconds, skipped ones counted, if the life goes on until then."""
        heapq.heappush(self._due, (self.elapsed + seconds, next(self._numbers), act))

    def machine(self, node: str) -> Machine:
        """Return a machine."""
        return self.machines[node]

    def power(self, node: str, *, on: bool) -> None:
        """Turn a machine off, or let it boot."""
        machine = self.machines[node]
        if on is machine.is_on:
            return
        machine.is_on = on
        if on:
            machine.boots()
            self.agents[node].start()
        else:
            self.agents[node].kill()
            self.kubelets.forget(node)
        self._reach(node)

    def cut(self, node: str, *, off: bool) -> None:
        """Cut a machine off from the network, or let it back."""
        self.machines[node].is_reachable = not off
        self._reach(node)

    def roughen(self, *, on: bool) -> None:
        """Let calls to the API server fail, or let them be."""
        self._roughs += 1 if on else -1
        self._weather.odds = self._rates.rough if self._roughs else _CALM

    def away(self, *, on: bool) -> None:
        """Take the API server away, or let it come back."""
        self._aways += 1 if on else -1
        self._back_at = self.time.passed
        self.cluster.network.turn(Presence.AWAY if self._aways else Presence.THERE)
        for node in self.names:
            self._networks[node].turn(self._presence(node))

    def truth(self, stroke: Stroke, node: str, gpu: str, *, outcome: str, because: str) -> None:
        """Write down what really happened."""
        if outcome not in _HARMLESS:
            self.truths.setdefault(node, []).append(gpu)
        rule = f"stroke {stroke.number}"
        now = self.time.now()
        self.tell(Happening(now, What.TRUTH, node, gpu, outcome=outcome, rule=rule, because=because))

    def say(self, node: str, gpu: str, because: str) -> None:
        """Write down what people did."""
        self.tell(Happening(self.time.now(), What.TRUTH, node, gpu, outcome="people", because=because))

    # --- how it is built ----------------------------------------------------------------------------------------------

    def _new_machines(self) -> dict[str, Machine]:
        dice, skew = self._dice["machines"], self.layout.skew_seconds
        return {
            name: Machine(
                name,
                gpus=self.layout.gpus,
                clock=Skewed(self.time, dice.uniform(-skew, skew), runs_on=True),
                dice=dice,
            )
            for name in self.names
        }

    def _build(self) -> None:
        """Make all that needs the event loop."""
        for space in (WORK, OWN_NAMESPACE):
            self.server.create(NAMESPACES, {"metadata": {"name": space}})
        standing_by = set(self.names[len(self.names) - self.layout.standbys :])
        for name in self.names:
            self._make_node(name, stands_by=name in standing_by)
        if standing_by:
            spec = PoolSpec(Shape(PRODUCT, self.layout.gpus), size=len(standing_by))
            self.server.create(STANDBY_POOLS, {"metadata": {"name": "standby"}, "spec": write(spec)})
        self.people: People
        self.witness = Witness(self.server, now=self.time.now, parked=self._call)
        self.people = People(
            self,
            dice=self._dice["people"],
            visit_seconds=self.layout.visit_seconds,
            newest=lambda name: self.witness.seen.cases[name],
        )
        self.strokes = Strokes(self)
        work = self.layout.workloads
        self.kubelets = Kubelets(self.server, self.machines, work, dice=self._dice["work"], later=self.sometime)
        self.owners = Owners(self.server, work)
        Following(self.server, (PODS, NODES), self._move_pods)
        self._move_pods()
        self._make_agents()
        self.replicas = [self._replica(number) for number in range(self.layout.replicas)]
        for machine in self.machines.values():
            machine.on_reset = self.strokes.relapse

    def _make_node(self, name: str, *, stands_by: bool) -> None:
        metadata = {"name": name, "labels": {"nvidia.com/gpu.product": PRODUCT}}
        taints = [{"key": STANDBY, "effect": "NoSchedule"}] if stands_by else []
        self.server.create(NODES, {"metadata": metadata, "spec": {"taints": taints}})
        set_ready(self.server, name, "True")

    def _make_agents(self) -> None:
        terms, dice = terms_of(Settings(), load(), load_rules()), self._dice["agents"]
        for name in self.names:
            network = self._networks[name] = Network(self.time, asyncio.sleep)
            cluster: PretendCluster = replace(self.cluster, network=network)
            own = random.Random(dice.random())  # noqa: S311  the same seed must give the same run
            self.agents[name] = PretendAgent(
                self.machines[name],
                cluster,
                place=Place(name, OWN_NAMESPACE),
                terms=terms,
                dice=own,
                tell=self._hear,
                lease_seconds=self.layout.lease_seconds,
            )

    def _replica(self, number: int) -> Replica:
        dice = random.Random(self._dice["brains"].random())  # noqa: S311  the same seed must give the same run
        skew = self.layout.skew_seconds / 10
        return Replica(
            f"controller-{number + 1}",
            self.cluster,
            clock=Skewed(self.time, dice.uniform(-skew, skew)),
            terms=self.terms,
            tell=self.tell,
            dice=dice,
            crashed=lambda error: self.crashes.append(repr(error)),
        )

    # --- how it goes on -----------------------------------------------------------------------------------------------

    def _move_pods(self) -> None:
        self.owners.keep_up()
        schedule(self.server, dict.fromkeys(self.names, self.layout.gpus))
        self.kubelets.mind(self.server.list(PODS, project=pod_of).items)

    def _hear(self, happening: Happening) -> None:
        """Take from an agent's journal what no controller tells."""
        alone = happening.case.startswith("lone.")
        if happening.what in {What.OBSERVED, What.SAID} or alone:
            self.tell(happening)

    def _call(self, case: Case) -> None:
        self.people.call(case)

    def _presence(self, node: str) -> Presence:
        machine = self.machines[node]
        there = machine.is_on and machine.is_reachable and not self._aways
        return Presence.THERE if there else Presence.AWAY

    def _reach(self, node: str) -> None:
        """Let the network, and in time the cluster, know whether a machine is there."""
        self._networks[node].turn(self._presence(node))
        self._back_at = self.time.passed
        machine = self.machines[node]
        if machine.is_on and machine.is_reachable:
            self._set_ready(node, "True")
            self.kubelets.resume(node)
        else:
            self.later(_NOT_READY_SECONDS, lambda: self._doubt(node))

    def _doubt(self, node: str) -> None:
        machine = self.machines[node]
        if not (machine.is_on and machine.is_reachable):
            self._set_ready(node, "Unknown")

    def _set_ready(self, node: str, status: str) -> None:
        set_ready(self.server, node, status)


async def _ended_all() -> None:
    """Wait for all that was cancelled."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
