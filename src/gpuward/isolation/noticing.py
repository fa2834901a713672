"""What a job is told before its pods are evicted: the verb by the fault, the deadline, the nodes. It tells nobody.

A job may be told again, by another case or node, while it still saves: it has one deadline then, the first, and the
newer notice names all bad nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuward.model.case import Case
from gpuward.model.job import JobRef
from gpuward.model.objects.notice import MOST_BAD, MOST_RANKS, After, BadNode, Notice, Noticed, Verb


@dataclass(frozen=True, slots=True)
class _Row:
    """Faults after which the rank that used the GPU cannot finish its step; `codes` None: whatever the code."""

    kind: str
    codes: frozenset[int] | None
    source: str


_MOST_GPUS = 8
_DESIGN = "design.md section 5: after 79, 48 or 62 the rank that used that GPU is usually dead or wedged"
PERSISTS: tuple[_Row, ...] = (
    _Row("xid", frozenset({48, 62, 79}), _DESIGN),
    _Row("fallen_off_bus", None, "the driver's own words for what Xid 79 says"),
    _Row("ecc_uncorrectable", None, "the counter's side of Xid 48"),
    _Row("node_lost", None, "nobody on the node can be relied on"),
)
"""All other faults leave the rank able to compute: SAVE."""


def verb_of(kind: str, code: int | None) -> Verb:
    """Return what a rank on the ill GPU is asked for; ranks elsewhere can always save, or fall back by themselves."""
    rows = (row for row in PERSISTS if row.kind == kind)
    return Verb.PERSIST if any(row.codes is None or code in row.codes for row in rows) else Verb.SAVE


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a job was told before: the generation, and the whole where its case goes on and did not take it back."""

    generation: int
    standing: Noticed | None = None


def planned(
    case: Case, job: JobRef, *, now: float, save_seconds: float, ranks: Sequence[str], earlier: Sequence[Earlier]
) -> Noticed:
    """Return what a job is to be told for a case. `ranks`: its pods on the ill GPU, by UID."""
    standing = [one.standing for one in earlier if one.standing is not None]
    deadlines = [one.deadline for one in standing if one.deadline > now]
    return Noticed(
        job=job,
        generation=1 + max((one.generation for one in earlier), default=0),
        issued=now,
        deadline=min([now + save_seconds, *deadlines]),
        reason=f"{case.title}: GPU {case.gpu} of {case.node}" if case.gpu else f"{case.title}: {case.node}",
        bad=_merged([_bad(case), *(bad for one in standing for bad in one.bad)]),
        persist=tuple(sorted(ranks)[:MOST_RANKS]) if verb_of(case.kind, case.code) is Verb.PERSIST else (),
    )


def notice_of(noticed: Noticed, case: str, pod: str) -> Notice:
    """Return what one pod is told, by its UID: the same whenever it is asked."""
    verb = Verb.PERSIST if pod in noticed.persist else Verb.SAVE
    return Notice(
        id=case,
        job=noticed.job.uid,
        generation=noticed.generation,
        verb=verb if noticed.withdrawn_at is None else Verb.CANCEL,
        reason=noticed.reason,
        bad=noticed.bad,
        issued=noticed.issued,
        deadline=noticed.deadline,
        after=After.CONTINUE,
    )


def _bad(case: Case) -> BadNode:
    gpu = case.gpu_uuid or case.gpu
    return BadNode(case.node, (gpu,) if gpu else ())


def _merged(bad: Iterable[BadNode]) -> tuple[BadNode, ...]:
    """Return each node once, with all its ill GPUs; the case's own is first, and is never left out."""
    gpus: dict[str, dict[str, None]] = {}
    for one in bad:
        gpus.setdefault(one.node, {}).update(dict.fromkeys(one.gpus))
    return tuple(BadNode(node, tuple(ill)[:_MOST_GPUS]) for node, ill in list(gpus.items())[:MOST_BAD])
