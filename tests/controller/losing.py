"""Nodes of the pretend fleet that stop answering, and answer again: what the cluster then shows of them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpuward.controller.loop import Controller
from gpuward.controller.terms import Terms
from gpuward.model.case import Case, CaseState
from gpuward.model.objects.gpu_case import as_case
from gpuward.model.objects.owned import agent_lease
from gpuward.model.resource import LEASES, NODES
from gpuward.ports import Conflict
from gpuward.sim.cluster.weather import Weather
from tests.controller.fleet import REPAIRING, Fleet

LOSING = replace(REPAIRING, lost_seconds=5.0, back_seconds=4.0, proof_seconds=12.0, namespace="gpuward")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
LOST = "node-lost"


class LosingFleet(Fleet):
    """A fleet of which nodes can be lost. `terms` need shorter waits than those of a real one."""

    def __init__(self, *, terms: Terms = LOSING, weather: Weather | None = None) -> None:
        super().__init__(terms=terms, weather=weather)
        self.away: set[str] = set()
        self.boots: dict[str, str] = {}
        """The boot ids that kubelets tell, by node; where there is none, it tells none."""

    def lose(self, *names: str, since: float | None = None) -> None:
        """Let nodes stop answering; `since` is what their condition says, by whatever clock."""
        for name in names:
            self.away.add(name)
            self.agents[name].silent = True
            self.frozen_pods |= {ref.partition("/")[2] for ref in self.pods(name)}
            self._ready(name, "Unknown", since)

    def answer(self, *names: str, boot: str = "", agent: bool = True) -> None:
        """Let nodes answer again, of another boot if one is named; their kubelets end what is to end."""
        for name in names:
            self.away.discard(name)
            self.frozen_pods -= {ref.partition("/")[2] for ref in self.pods(name)}
            self.agents[name].silent = not agent
            self._ready(name, "True", None)
            if boot:
                self.agents[name].boot = boot

    def move(self) -> None:
        """Let the rest of the fleet move; agents that live say so by their Leases."""
        super().move()
        for name, agent in self.agents.items():
            if not agent.silent:
                self._beat(name)

    async def lived(self, controller: Controller, seconds: float) -> None:
        """Let so many rounds of a second go by."""
        await self.go(controller, rounds=int(seconds))

    async def in_state(self, controller: Controller, state: CaseState) -> Case:
        """Go on until the one open case of a node has come to a state, and what that asks for was done."""
        await self.until(controller, lambda: any(case.state is state for case in self.of_nodes()))
        await self.go(controller, rounds=3)
        return self.of_nodes()[-1]

    def of_nodes(self) -> list[Case]:
        """Return the cases of whole nodes, the oldest first."""
        found = (as_case(one) for one in self.gpu_cases())
        return sorted((case for case in found if case.of_node), key=lambda case: case.opened_at)

    def change_node(self, name: str, *operations: dict[str, Any]) -> None:
        """Let somebody change a node."""
        self.server.patch(NODES, name, list(operations))

    def cordon(self, name: str) -> None:
        """Let a person cordon a node."""
        self.change_node(name, {"op": "add", "path": "/spec/unschedulable", "value": True})

    def put_out_of_service(self, name: str) -> None:
        """Let a person say by the taint that Kubernetes has for it that a node is off."""
        taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
        self.change_node(name, {"op": "add", "path": "/spec/taints/-", "value": taint})

    def _ready(self, name: str, status: str, since: float | None) -> None:
        at = datetime.fromtimestamp(self.time.now() if since is None else since, UTC)
        stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": status, "lastTransitionTime": stamp}
        info = {"nodeInfo": {"bootID": self.boots[name]}} if name in self.boots else {}
        self._status(NODES, name, {"conditions": [condition], **info})

    def _beat(self, name: str) -> None:
        stamp = datetime.fromtimestamp(self.time.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 60, "renewTime": stamp}
        operation = {"op": "add", "path": "/spec", "value": spec}
        try:
            self.server.patch(LEASES, agent_lease(name), [operation], namespace="gpuward")
        except Conflict:
            body = {"metadata": {"name": agent_lease(name)}, "spec": spec}
            self.server.create(LEASES, body, namespace="gpuward")
