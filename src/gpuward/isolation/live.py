"""A fault while it is going on, and what rules may ask of it. Rules themselves and their effects are in judge."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuward.isolation.catalogue.rules import Selector
from gpuward.isolation.grade import Grade
from gpuward.model.fault import Evidence, Fault, Verdict
from gpuward.model.gpu import Mig
from gpuward.model.level import FaultClass, Level
from gpuward.model.record import Record
from gpuward.model.signal import Moment

EVIDENCE_KEPT = 3
"""Lines kept from the start and from the end of a fault: enough to see it begin and go on, whatever its length."""
FACETS_KEPT = 64
"""Different links, GPC/TPC pairs or jobs remembered of one fault."""

UNJUDGED = Verdict(
    level=Level.IGNORE,
    fault_class=FaultClass.UNKNOWN,
    action="",
    because="",
    rules=(),
    waits=False,
    parks=False,
    explained_by=None,
)


@dataclass(slots=True, eq=False)
class LiveFault:
    """One fault with all that its lines said so far. It changes as lines come; `snapshot` is the value others see."""

    key: tuple[Any, ...]
    """What makes another line part of it, while it is close in time."""
    id: str
    machine: int
    """Which machine of the log: lines that name none are of the first one that is named."""
    node: str | None
    boot: str
    pci: str | None
    code: int | None
    base: Grade
    first: Moment
    last: Moment
    since: Moment
    """Where its present verdict counts from: the first line, or the first one that its explanation no longer covers."""
    heard_at: Moment
    """The time of its machine when its newest line came; later than `last` where lines come late."""
    waits_from: Moment
    """The time of its machine when the line came that its present verdict counts from: it is held from then."""
    gap_seconds: float
    linger_seconds: float
    """How long after its last line something may still change it."""
    facility: str | None
    user_record: bool
    certain: bool
    mig: Mig | None
    pid: int | None
    process: str | None
    details: dict[str, Any]
    count: int = 0
    verdict: Verdict = UNJUDGED
    cleared: bool = False
    explainer_last: Moment | None = None
    covers_seconds: float = 0
    """How long after `explainer_last` a line still counts as explained."""
    links: set[int] = field(default_factory=set)
    sms: set[tuple[int, int]] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    instances: set[int | None] = field(default_factory=set)
    """The MIG GPU instances that its lines name; None for a line that names none."""
    head: list[tuple[int, str]] = field(default_factory=list)
    """Its first lines, number and text; plain pairs, since a storm keeps and drops many."""
    tail: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    retired: bool = False
    wait_seconds: float = 0
    """How long it is held, while it is."""
    sated: frozenset[str] = frozenset()
    """Rules that found as many companions as are ever counted: one more changes nothing."""
    order: int = 0
    """Its place among all that the index remembers: a later one is greater."""

    @property
    def kind(self) -> str:
        """The kind of its strongest line."""
        return self.base.kind

    @property
    def solo(self) -> bool:
        """Return whether nothing explains it, for certain."""
        return self.verdict.explained_by is None and not self.verdict.waits

    def snapshot(self, gpu_uuid: str | None) -> Fault:
        """Return the fault as it stands."""
        return Fault(
            id=self.id,
            kind=self.kind,
            code=self.code,
            title=self.base.title,
            node=self.node,
            boot=self.boot,
            pci=self.pci,
            gpu_uuid=gpu_uuid,
            first=self.first,
            last=self.last,
            count=self.count,
            pid=self.pid,
            process=self.process,
            mig=self.mig,
            verdict=self.verdict,
            evidence=tuple(Evidence(line=line, text=text) for line, text in (*self.head, *self.tail)),
            details=self._details(),
        )

    def _details(self) -> dict[str, Any]:
        """Return what the first line said, and every link and GPC/TPC pair seen since."""
        details = dict(self.details)
        if len(self.links) > 1:
            details["links"] = sorted(self.links)
        if len(self.sms) > 1:
            details["gpc_tpc"] = [list(pair) for pair in sorted(self.sms)]
        return details

    def keep(self, record: Record) -> None:
        """Add the line to the evidence: the first few and the last few stay."""
        line = (record.line, record.text)
        if len(self.head) < EVIDENCE_KEPT:
            self.head.append(line)
        else:
            self.tail.append(line)

    def note_facets(self, record: Record) -> bool:
        """Remember link, GPC/TPC, job and GPU instance of the line; return whether one of them is new."""
        details = record.details
        before = len(self.links) + len(self.sms) + len(self.jobs) + len(self.instances)
        if len(self.instances) < FACETS_KEPT:
            self.instances.add(None if record.mig is None else record.mig.gi)
        if record.link is not None and len(self.links) < FACETS_KEPT:
            self.links.add(record.link)
        if "tpc" in details and len(self.sms) < FACETS_KEPT:
            self.sms.add((details.get("gpc", -1), details["tpc"]))
        job = details.get("job") or record.process
        if job and len(self.jobs) < FACETS_KEPT:
            self.jobs.add(job)
        return before != len(self.links) + len(self.sms) + len(self.jobs) + len(self.instances)


def elapsed_seconds(earlier: Moment, later: Moment, *, same_boot: bool) -> float:
    """Return the seconds between two moments on a clock that both have; 0 where they share none.

    Within a boot its own clock counts: nobody sets it. Across boots only the wall clock goes on.
    """
    if same_boot and earlier.uptime is not None and later.uptime is not None:
        return later.uptime - earlier.uptime
    if earlier.wall is not None and later.wall is not None:
        return later.wall - earlier.wall
    return 0.0


def look_up(details: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, None where there is none."""
    value: Any = details
    for word in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(word)
    return value


def fits(selector: Selector, live: LiveFault, *, solo: bool) -> bool:
    """Return whether the selector speaks about this fault; `solo` says whether nothing explains it."""
    if (
        (selector.certain is not None and selector.certain is not live.certain)
        or (selector.user_record is not None and selector.user_record is not live.user_record)
        or (selector.solo is not None and selector.solo is not solo)
        or not selector.could_be(live.base.kind, live.code)
    ):
        return False
    for name in selector.lacks:
        if name in live.details:
            return False
    return not selector.details or fits_details(selector, live.details)


def fits_record(selector: Selector, record: Record) -> bool:
    """Return whether the details that the selector asks for stand in this one line."""
    return fits_details(selector, record.details)


def fits_details(selector: Selector, details: Mapping[str, Any]) -> bool:
    """Return whether the details that the selector asks for stand among these."""
    return all(_allows(values, look_up(details, path)) for path, values in selector.details.items())


def _allows(values: tuple[Any, ...], value: Any) -> bool:
    return value is not None and (values == ("*",) or value in values)
