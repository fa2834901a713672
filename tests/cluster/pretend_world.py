"""A world on the pretend cluster of the simulator, in real time as on the real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from gpuward.adapters.clock import SystemClock
from gpuward.model.resource import DISRUPTION_BUDGETS, NAMESPACES, NODES, PODS, Resource
from gpuward.ports import Conflict
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.network import Presence
from gpuward.sim.cluster.watching import Patience
from tests.cluster.world import SILENCE_SECONDS

_BOOKMARK_SECONDS = 1.0
_NODE = "node"


class PretendWorld:
    """Implements World. No controller runs on it, as none runs on the real one: a budget has the status it is given."""

    def __init__(self, cluster: PretendCluster) -> None:
        self.cluster = cluster
        self.forbidden = cluster.as_user("nobody", ())
        self._server = cluster.server
        self._network = cluster.network

    def name(self, word: str) -> str:
        """Return the word: nobody else has this world."""
        return word

    def namespace(self, word: str = "work") -> str:
        """Make a namespace and return its name."""
        self._server.create(NAMESPACES, {"metadata": {"name": word}})
        return word

    def define(self, resource: Resource) -> None:
        """Give a kind the schema that its definition has on the real cluster."""
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        gpu = {"type": "integer", "minimum": 0, "maximum": 15}
        spec = {**free, "properties": {"gpu": gpu}}
        self._server.schemas[resource.plural] = {"type": "object", "properties": {"spec": spec, "status": free}}

    def pod(self, namespace: str, word: str, *, labels: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Make a pod that runs on a node; nothing ends it by itself."""
        with contextlib.suppress(Conflict):  # it may be there
            self._server.create(NODES, {"metadata": {"name": _NODE}})
        spec = {"nodeName": _NODE, "containers": [{"name": "main", "image": "registry.example.com/it:1"}]}
        self._server.create(
            PODS, {"metadata": {"name": word, "labels": dict(labels or {})}, "spec": spec}, namespace=namespace
        )
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self._set_status(PODS, namespace, word, status)

    def budget(self, namespace: str, word: str, *, labels: Mapping[str, str], allowed: int) -> str:
        """Make a PodDisruptionBudget with the status that a controller would give it."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": dict(labels)}}
        made = self._server.create(DISRUPTION_BUDGETS, {"metadata": {"name": word}, "spec": spec}, namespace=namespace)
        status = {
            "observedGeneration": made["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": allowed + 1,
            "desiredHealthy": 1,
            "expectedPods": allowed + 1,
        }
        self._set_status(DISRUPTION_BUDGETS, namespace, word, status)
        return word

    def forgotten(self, resource: Resource) -> str:  # noqa: ARG002  it forgets all kinds at once
        """Return the version of now, and then forget it."""
        version = str(self._server.state.version)
        self.namespace("forgotten")
        self._server.compact()
        return version

    def frozen(self) -> AbstractContextManager[None]:
        """Let the server answer nothing."""
        return self._while(Presence.FROZEN)

    def away(self) -> AbstractContextManager[None]:
        """Let there be no server."""
        return self._while(Presence.AWAY)

    @contextlib.contextmanager
    def _while(self, presence: Presence) -> Iterator[None]:
        self._network.turn(presence)
        try:
            yield
        finally:
            self._network.turn(Presence.THERE)

    def _set_status(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        operation = {"op": "add", "path": "/status", "value": status}
        return self._server.patch(resource, name, [operation], namespace=namespace, subresource="status")


@contextlib.asynccontextmanager
async def open_world() -> AsyncIterator[PretendWorld]:
    """Give the world of one test."""
    patience = Patience(bookmark_seconds=_BOOKMARK_SECONDS, silence_seconds=SILENCE_SECONDS)
    cluster = pretend_cluster(SystemClock(), asyncio.sleep, patience=patience, counts_budgets=False)
    yield PretendWorld(cluster)
    await cluster.close()
