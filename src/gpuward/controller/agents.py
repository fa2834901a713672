"""Which agents are silent: their Leases do not change any more, by our own clock. What follows from it is not here."""

from typing import TYPE_CHECKING, Any

from gpuward.controller.gather import Picture
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.model.objects.owned import agent_lease
from gpuward.model.resource import LEASES
from gpuward.ports import Cluster, Object

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK_SECONDS = 60.0
SILENT_SECONDS = 180.0
"""Three times as long as an agent's Lease lasts: one renewal that is late makes nobody silent."""


class Agents:
    """The Leases of all agents, listed now and then; a watch of them would tell of nothing but renewals."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace, terms: Terms) -> None:
        self.silent: Mapping[str, str] = {}
        """By node, how long its agent has been silent, in words that stay as they are."""
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._namespace = terms.namespace
        self._seen: dict[str, tuple[str, float]] = {}
        self._looked_at: float | None = None

    async def look(self) -> frozenset[str]:
        """Look at the Leases when it is time; return the nodes whose agents fell silent or spoke again. Raises."""
        now = self._pace.clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_SECONDS:
            return frozenset()
        listed = await self._cluster.list(LEASES, namespace=self._namespace, project=_renewal)
        self._looked_at = now = self._pace.clock.monotonic()
        renewed = dict(listed.items)
        seen = {}
        for node in self._picture.gpu_nodes.objects:
            renewal = renewed.get(agent_lease(node), "")
            known = self._seen.get(node)
            seen[node] = known if known is not None and known[0] == renewal else (renewal, now)
        self._seen = seen
        before = self.silent
        self.silent = {node: _since(at) for node, (at, since) in seen.items() if now - since >= SILENT_SECONDS}
        return frozenset(before.keys() ^ self.silent.keys())


def _renewal(lease: Object) -> tuple[str, str]:
    spec: Mapping[str, Any] = lease.get("spec") or {}
    return str(lease["metadata"]["name"]), str(spec.get("renewTime") or "")


def _since(renewed: str) -> str:
    """Return how long it is silent, by the time that it wrote last itself."""
    return f"its agent is silent since {renewed[11:19]} UTC" if renewed else "its agent has never said that it lives"
