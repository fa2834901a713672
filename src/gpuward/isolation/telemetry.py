"""The troubles of GPUs that their readings show, kept while they stand. What a reading shows is in findings.

Reading GPUs is not here, nor the kernel log.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from gpuward.isolation.findings import FINDINGS, KINDS, Finding, Grading, Look, by_row
from gpuward.isolation.saved import SavedError
from gpuward.model.case import ENDED, Case, CaseState, EffectKind
from gpuward.model.fault import Evidence, Fault, Verdict
from gpuward.model.level import LEVELS, Level
from gpuward.model.signal import Moment

Worth = tuple[str, Level, Level]
_BY_NAME = {row.name: row for row in FINDINGS}


@dataclass(frozen=True, slots=True)
class Standing:
    """A finding as it stands on a GPU, and as it is saved. Times are Unix seconds of the readings that showed it."""

    id: str
    kind: str
    name: str
    pci: str
    uuid: str | None
    first: float
    last: float
    """When it last was news. A finding that merely goes on is not seen again."""
    because: str
    count: int = 1
    quiet: bool = False
    """It was seen while its GPU was under repair, and is no finding yet."""
    over: bool = False
    """It no longer holds; its case is still open, and must hear so."""
    graded: str = ""
    """The word of the level that it had when a reading last showed it. Only to know that other settings have raised it
    since: its level is always asked of the grading anew. Empty, as an older version saved it: the row's."""

    @property
    def row(self) -> Finding:
        """Return its row."""
        return _BY_NAME[self.name]

    @property
    def worth(self) -> Worth:
        """Return what makes it worth a line: that it is there, its level when it was last shown, and its row's."""
        return self.id, LEVELS.get(self.graded, self.row.level), self.row.level


@dataclass(frozen=True, slots=True)
class Round:
    """When the reading was begun, on which node, and what our cases were then."""

    begun: float
    node: str
    cases: tuple[Case, ...]
    grading: Grading = by_row

    def is_cased(self, fault: str) -> bool:
        """Return whether an open case is about this fault."""
        return any(case.fault == fault and case.state not in ENDED for case in self.cases)

    def is_dealt_with(self, fault: str) -> bool:
        """Return whether a case about this fault has ended."""
        return any(case.fault == fault and case.state in ENDED for case in self.cases)

    def is_quiet(self, pci: str, *, lag_seconds: float = 0.0) -> bool:
        """Return whether this GPU was being worked on when the reading was begun, or is still.

        With `lag_seconds`: so long before the reading was begun, for values that are as old as that.
        """
        return any(_works_on(case, self.begun - lag_seconds) for case in self.cases if case.gpu == pci)


_HANDS = frozenset({EffectKind.DRAIN, EffectKind.UNDRAIN, EffectKind.RESET})
_UNDER_REPAIR = frozenset({CaseState.REPAIRING, CaseState.VERIFYING})


def _works_on(case: Case, begun: float) -> bool:
    touched = [effect.ended_at for effect in case.effects if effect.kind in _HANDS and effect.ended_at is not None]
    if any(ended_at > begun for ended_at in touched):
        return True
    if case.state in ENDED or case.state is CaseState.PROBATION:
        return False
    return case.state in _UNDER_REPAIR or bool(case.marks)


def stand(known: Iterable[Standing], looks: Mapping[str, Look], at: Round) -> tuple[Standing, ...]:
    """Return what stands after a reading: what went on keeps its id, what ended is gone, nothing is there twice.

    A GPU that is not in `looks` keeps what it had.
    """
    before = {(one.pci, one.kind): one for one in known}
    after = dict(before)
    for pci, look in looks.items():
        for kind in KINDS:
            one = _now(before.get((pci, kind)), kind, look, pci=pci, at=at)
            if one is None:
                after.pop((pci, kind), None)
            else:
                after[pci, kind] = one
    return tuple(after.values())


def _now(old: Standing | None, kind: str, look: Look, *, pci: str, at: Round) -> Standing | None:
    answers = [(row, row.holds(look)) for row in FINDINGS if row.kind == kind]
    row = next((row for row, holds in answers if holds), None)
    quiet = at.is_quiet(pci)
    if row is None:
        unknown = any(holds is None for _, holds in answers)
        if old is None or unknown:
            return old if old is None or quiet else replace(old, quiet=False)
        return replace(old, over=True) if at.is_cased(old.id) else None
    level = at.grading(row).level
    news = old is None or row.anew or old.over or row.level > old.row.level or level > old.worth[1]
    if old is None or (news and at.is_dealt_with(old.id)):
        return _began(row, look, pci=pci, quiet=quiet, at=at)
    went_on = replace(old, name=row.name, quiet=old.quiet and quiet, over=False, graded=str(level))
    if not news:
        return went_on
    return replace(went_on, last=at.begun, count=old.count + 1, because=_because(row, look))


def _began(row: Finding, look: Look, *, pci: str, quiet: bool, at: Round) -> Standing:
    words = f"{row.kind}-{pci}".replace("_", "-").replace(":", "-")
    shown = look.now or look.before
    return Standing(
        id=f"{at.node}.poll-{words}-{int(at.begun)}",
        kind=row.kind,
        name=row.name,
        pci=pci,
        uuid=None if shown is None else shown.uuid,
        first=at.begun,
        last=at.begun,
        because=_because(row, look),
        quiet=quiet,
        graded=str(at.grading(row).level),
    )


def _because(row: Finding, look: Look) -> str:
    now, before = look.now, look.before
    if now is None:
        return row.because
    last = "unknown" if before is None else before.ecc.volatile
    active = sum(link.active for link in now.links)
    return row.because.format(
        action=now.recovery_action,
        grown=f"from {last} to {now.ecc.volatile}",
        links=f"{active} are active, {look.links_learned} were learned",
    )


def faults_of(standing: Iterable[Standing], node: str, *, grading: Grading = by_row) -> Iterator[Fault]:
    """Yield the standing findings as faults; one that is over is at ignore, so that its case is withdrawn."""
    return (fault_of(one, node, grading=grading) for one in standing if not one.quiet)


def fault_of(one: Standing, node: str, *, grading: Grading = by_row) -> Fault:
    """Return the finding as a fault, graded now: under other settings the same finding is another level.

    It has no lines and no boot; its evidence is what the reading said.
    """
    row = one.row
    graded = grading(row)
    level = Level.IGNORE if one.over else graded.level
    return Fault(
        id=one.id,
        kind=one.kind,
        code=None,
        title=row.title,
        node=node,
        boot="",
        pci=one.pci,
        gpu_uuid=one.uuid,
        first=Moment(wall=one.first, uptime=None),
        last=Moment(wall=one.last, uptime=None),
        count=one.count,
        pid=None,
        process=None,
        mig=None,
        verdict=Verdict(
            level=level,
            fault_class=graded.fault_class,
            action=row.action_at(level),
            because=f"{one.because.removesuffix('.')}{graded.says}." if graded.says else one.because,
            rules=(f"other:{one.kind}", row.name),
            waits=False,
            parks=row.parks,
            explained_by=None,
        ),
        evidence=(Evidence(line=0, text=one.because),),
        details={},
    )


def pack_standing(one: Standing) -> dict[str, Any]:
    """Return the finding as JSON values."""
    return asdict(one)


def unpack_standing(packed: Mapping[str, Any]) -> Standing:
    """Return the finding that was packed. Raises SavedError when it is of another shape."""
    try:
        one = Standing(**packed)
    except TypeError as error:
        raise SavedError(f"a saved finding cannot be read: {error!r}") from error
    if one.name not in _BY_NAME:
        raise SavedError(f"a saved finding has a name that is not known: {one.name}")
    if one.graded and one.graded not in LEVELS:
        raise SavedError(f"a saved finding has a level that is not known: {one.graded}")
    return one
