"""What a desk reads of a cluster, page by page and never more than it tells. Nothing is changed here."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuward.controller.desk.glance import (
    ACTIVE,
    CaseGlance,
    LeaseGlance,
    NodeGlance,
    agent_of,
    case_glance,
    gpu_server,
    lease_glance,
    moment,
    node_glance,
)
from gpuward.controller.pace import Pace
from gpuward.model.counted import many
from gpuward.model.objects.owned import LEADER_LEASE
from gpuward.model.objects.pause import PAUSE, Pause, read_pause
from gpuward.model.objects.standby_pool import StandbyPool, read_standby_pool
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import (
    CONFIG_MAPS,
    GPU_CASES,
    GPU_FAULTS,
    GPU_NODES,
    LEASES,
    NODES,
    SELF_REVIEWS,
    STANDBY_POOLS,
)
from gpuward.ports import Cluster, Object, Refused

OPEN = "status.state!=closed,status.state!=withdrawn"
"""A case whose status was not written yet has no state there, and is open."""


Indices = Mapping[tuple[str, str], int]
"""The number of each GPU by its node and address."""
UNJUDGED = "status.judged.level="
LATE_SECONDS = 60.0
"""Within this a leading controller has judged a fault, also of a thousand that come at once."""


@dataclass(frozen=True, slots=True)
class Myself:
    """Who asks, as the server names him, and what time it is there; by this machine's clock where it does not tell."""

    name: str
    now: float


@dataclass(frozen=True, slots=True)
class Board:
    """The fleet at one look. `leader` None: nobody ever led. `troubles`: what could not be read, in sentences."""

    now: float
    nodes: tuple[NodeGlance, ...]
    cases: tuple[CaseGlance, ...]
    pools: tuple[StandbyPool, ...]
    leader: LeaseGlance | None
    has_leases: bool = True
    """Whether the Leases could be read: without them nobody knows who leads, and who lives."""
    agents: dict[str, LeaseGlance] = field(default_factory=dict)
    """By node, the Lease of its agent."""
    agentless: tuple[str, ...] | None = ()
    """The nodes with GPUs on which no agent ever ran; None: the nodes could not be read."""
    pause: Pause = Pause(on=False)  # noqa: RUF009  it is frozen
    troubles: tuple[str, ...] = ()

    @property
    def leads(self) -> bool:
        """Whether a controller leads."""
        return self.leader is not None and bool(self.leader.holder) and not self.leader.is_silent(self.now)

    @property
    def silent(self) -> tuple[tuple[str, float | None], ...]:
        """The nodes whose agent is silent, with the moment of its newest word; None: it never said one."""
        found = []
        for node in self.nodes if self.has_leases else ():
            lease = self.agents.get(node.name)
            if lease is None or lease.is_silent(self.now):
                found.append((node.name, None if lease is None else lease.renewed))
        return tuple(found)

    @property
    def states(self) -> Counter[str]:
        """How many GPUs are in which state."""
        return Counter(gpu.state for node in self.nodes for gpu in node.gpus)

    @property
    def short(self) -> tuple[StandbyPool, ...]:
        """The pools that lack nodes."""
        return tuple(pool for pool in self.pools if lacks(pool))

    @property
    def is_well(self) -> bool:
        """Whether nothing here needs a look: unknown is not healthy."""
        real = any(case.drill == "" for case in self.cases)
        idle = bool(self.nodes) and set(self.states) == {ACTIVE}
        amiss = self.silent or self.agentless or self.short or self.troubles or self.pause.on
        return idle and not real and self.leads and not amiss


class Desk:
    """One who asks about a cluster. `namespace` is gpuward's own."""

    def __init__(self, cluster: Cluster, *, pace: Pace, namespace: str, myself: Myself) -> None:
        self.cluster = cluster
        self.pace = pace
        self.namespace = namespace
        self.myself = myself
        self._begun = pace.clock.monotonic()

    @property
    def now(self) -> float:
        """The time by the server's clock, as far as it told."""
        return self.myself.now + self.pace.clock.monotonic() - self._begun

    async def board(self) -> Board:
        """Return the fleet at one look. Raises what the cluster raises about our own kinds."""
        troubles: list[str] = []
        nodes, cases = await self.nodes(), await self.cases()
        pools = await self.pools(troubles)
        leases = await self._leases(troubles)
        agentless = await self._agentless(nodes, troubles)
        pause = await self._pause(troubles)
        await self._unjudged(troubles)
        return Board(
            now=self.now,
            nodes=nodes,
            cases=cases,
            pools=pools,
            leader=None if leases is None else leases.get(LEADER_LEASE),
            has_leases=leases is not None,
            agents={node: lease for name, lease in (leases or {}).items() if (node := agent_of(name))},
            agentless=agentless,
            pause=pause,
            troubles=tuple(troubles),
        )

    async def nodes(self) -> tuple[NodeGlance, ...]:
        """Return every GPU server, by name. Raises as the cluster."""
        listed = await self.cluster.list(GPU_NODES, project=node_glance)
        return tuple(sorted(listed.items, key=lambda node: node.name))

    async def node(self, name: str) -> NodeGlance | None:
        """Return one GPU server, None when there is none. Raises as the cluster."""
        found = await self.cluster.get(GPU_NODES, name)
        return None if found is None else node_glance(found)

    async def cases(self, *, ended: bool = False, node: str = "") -> tuple[CaseGlance, ...]:
        """Return the cases, the oldest first, those that have ended too if asked for. Raises as the cluster."""
        terms = ([] if ended else [OPEN]) + ([f"spec.node={escaped(node)}"] if node else [])
        listed = await self.cluster.list(GPU_CASES, fields=",".join(terms), project=case_glance)
        return tuple(sorted(listed.items, key=lambda case: (case.opened_at or 0.0, case.name)))

    async def indices(self, *, node: str = "") -> Indices:
        """Return the number of each GPU, of one node or of all; none for who may not see them. Raises Unreachable."""
        try:
            seen = await self.node(node) if node else None
            return indices_of(await self.nodes() if not node else () if seen is None else (seen,))
        except Refused:
            return {}

    async def leader(self) -> LeaseGlance | None:
        """Return the Lease of the leading controller. Raises as the cluster."""
        found = await self.cluster.get(LEASES, LEADER_LEASE, namespace=self.namespace)
        return None if found is None else lease_glance(found)

    async def leads(self) -> bool | None:
        """Return whether a controller leads; None when this user may not look."""
        try:
            leader = await self.leader()
        except Refused:
            return None
        return leader is not None and bool(leader.holder) and not leader.is_silent(self.now)

    async def pools(self, troubles: list[str]) -> tuple[StandbyPool, ...]:
        """Return the pools that can be read; of another it is told that it cannot."""
        listed = await self.cluster.list(STANDBY_POOLS, project=_pool)
        troubles += [f"a StandbyPool cannot be read: {one}" for one in listed.items if isinstance(one, str)]
        found = [one for one in listed.items if isinstance(one, StandbyPool)]
        return tuple(sorted(found, key=lambda pool: pool.head.name))

    async def pause(self) -> tuple[Pause, Object | None]:
        """Return whether the fleet is paused, and the object that says so. Raises as the cluster."""
        found = await self.cluster.get(CONFIG_MAPS, PAUSE, namespace=self.namespace)
        return (Pause(on=False) if found is None else read_pause(found)), found

    async def _pause(self, troubles: list[str]) -> Pause:
        try:
            return (await self.pause())[0]
        except Refused as error:
            troubles.append(f"whether the fleet is paused is not known: {error}")
            return Pause(on=False)

    async def _unjudged(self, troubles: list[str]) -> None:
        """Tell of faults that wait for their judgement for longer than they should: unread is not healthy."""
        try:
            listed = await self.cluster.list(GPU_FAULTS, fields=UNJUDGED, project=_told_at)
        except Refused as error:
            troubles.append(f"whether every fault was judged is not known: {error}")
            return
        late = sorted(name for name, at in listed.items if at is None or self.now - at >= LATE_SECONDS)
        if late:
            what = f"{many(len(late), 'fault was', 'faults were')} not judged within {LATE_SECONDS:.0f} s"
            troubles.append(f"{what}, the first by name {late[0]}; the controller's output says why")

    async def _agentless(self, told: Iterable[NodeGlance], troubles: list[str]) -> tuple[str, ...] | None:
        """Return the nodes with GPUs of which no agent has ever made a GPUNode, by name."""
        try:
            listed = await self.cluster.list(NODES, project=gpu_server)
        except Refused as error:
            troubles.append(f"which nodes with GPUs have no agent is not known: {error}")
            return None
        return tuple(sorted(set(listed.items) - {node.name for node in told} - {""}))

    async def _leases(self, troubles: list[str]) -> dict[str, LeaseGlance] | None:
        try:
            listed = await self.cluster.list(LEASES, namespace=self.namespace, project=lease_glance)
        except Refused as error:
            troubles.append(f"who leads, and which agents live, is not known: {error}")
            return None
        return {lease.name: lease for lease in listed.items}


def indices_of(nodes: Iterable[NodeGlance]) -> Indices:
    """Return the number of each GPU by its node and address, where it is known."""
    return {(node.name, gpu.pci): gpu.index for node in nodes for gpu in node.gpus if gpu.pci}


async def whoami(cluster: Cluster, pace: Pace) -> Myself:
    """Return who asks and what time it is there. Raises Unreachable when nobody answers, or who asks is not known."""
    body = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind, "metadata": {}}
    try:
        review = await cluster.create(SELF_REVIEWS, body)
    except Refused:
        return Myself("", pace.clock.now())  # an old server, or one that lets nobody ask
    user = ((review.get("status") or {}).get("userInfo") or {}).get("username")
    now = moment((review.get("metadata") or {}).get("creationTimestamp"))
    return Myself(user if isinstance(user, str) else "", pace.clock.now() if now is None else now)


def lacks(pool: StandbyPool) -> int:
    """Return how many nodes a pool lacks; one that no controller has told of yet lacks none that is known."""
    return 0 if pool.status is None else pool.status.short


def escaped(value: str) -> str:
    """Return a value as a field selector carries it."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _told_at(found: Object) -> tuple[str, float | None]:
    metadata = found.get("metadata") or {}
    return str(metadata.get("name", "")), moment(metadata.get("creationTimestamp"))


def _pool(found: Object) -> StandbyPool | str:
    try:
        return read_standby_pool(found)
    except ObjectError as error:
        return str(error)
