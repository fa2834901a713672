"""From a fault and the faults around it to a verdict, by the rows of the rule book. Which faults exist is in merge."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from gpuward.isolation.catalogue.rules import COMPANION, Rule
from gpuward.isolation.live import LiveFault, elapsed_seconds, fits
from gpuward.model.fault import Verdict
from gpuward.model.level import FaultClass, Level
from gpuward.model.signal import Moment

_LOOKED_AT = 64
"""Companions counted for the sentence; more would not change it."""
_DAY_SECONDS = 86400
_HOUR_SECONDS = 3600
_LABELS = {
    "fallen_off_bus": "the loss of the GPU",
    "rm_init_failed": "the failed start of the GPU",
    "xid_malformed": "a broken Xid line",
    "pcie_corrected": "PCIe corrected errors",
    "pcie_uncorrectable": "a PCIe uncorrectable error",
    "driver_mismatch": "a driver version mismatch",
}


class Around(Protocol):
    """The other faults, newest first."""

    def candidates(self, rule: Rule, live: LiveFault) -> Iterable[LiveFault]:
        """Yield faults that may be companions of `live` for this rule, `live` among them if it may be."""


@dataclass(slots=True)
class _Draft:
    """A verdict in the making: each rule that speaks changes it."""

    level: Level
    fault_class: FaultClass
    action: str
    says: list[str]
    adds: list[str]
    rules: list[str]
    waits_seconds: float = 0
    explainer: LiveFault | None = None
    explained_by: str | None = None
    covers_seconds: float = 0
    cleared: bool = False
    parks: bool = False
    sated: tuple[str, ...] = ()


def judge(live: LiveFault, rules: Iterable[Rule], around: Around, *, now: Moment | None) -> Verdict:
    """Return the verdict on `live`, and note in it how long its explanation lasts. `now` None: the log has ended.

    Rules speak in the order of the table. A level of P0 or P1 that was given is never taken back, except by a line that
    clears the fault: someone may have acted on it.
    """
    grade = live.base
    draft = _Draft(
        level=grade.level,
        fault_class=grade.fault_class,
        action=grade.action,
        says=[grade.because],
        adds=[],
        rules=[],
    )
    for rule in rules:
        if (not rule.requires or rule.requires.issubset(draft.rules)) and (
            not rule.unless or rule.unless.isdisjoint(draft.rules)
        ):
            _hear(rule, draft, live, around=around, now=now)
    live.explainer_last = _seen_from(live, draft.explainer) if draft.explainer else None
    live.sated = frozenset(draft.sated)
    live.covers_seconds = max(draft.covers_seconds, live.gap_seconds)
    return _settle(draft, live)


def _seen_from(live: LiveFault, explainer: LiveFault) -> Moment:
    """Return the last moment of the cause on the clocks that it shares with the consequence."""
    if same_clock(live, explainer):
        return explainer.last
    return Moment(wall=explainer.last.wall, uptime=None)


def same_clock(live: LiveFault, other: LiveFault) -> bool:
    """Return whether two faults are of one boot of one machine, so that its uptime measures between them."""
    return live.boot == other.boot and live.machine == other.machine


def label(live: LiveFault) -> str:
    """Return how a sentence names a fault: `Xid 79`, `SXid 20034`, or words."""
    if live.kind.startswith("sxid"):
        return f"SXid {live.code}"
    if live.code is not None:
        return f"Xid {live.code}"
    return _LABELS.get(live.kind, live.kind.replace("_", " "))


def _hear(rule: Rule, draft: _Draft, live: LiveFault, *, around: Around, now: Moment | None) -> None:
    """Let one rule speak, if it is about this fault as drafted so far."""
    solo = draft.explained_by is None and not draft.waits_seconds
    if not fits(rule.subject, live, solo=solo):
        return
    if rule.companion is None:
        _apply(rule, draft, live, found=())
        return
    found = _companions(rule, live, around)
    if len(found) >= _LOOKED_AT:
        draft.sated += (rule.id,)
    if found:
        _apply(rule, draft, live, found=found)
    elif rule.waits and now is not None and _still_open(rule, live, now):
        draft.waits_seconds = max(draft.waits_seconds, rule.after_seconds)
    elif rule.otherwise is not None:
        draft.says.append(rule.otherwise.format_map(_words(rule, live, (), None)))


def _still_open(rule: Rule, live: LiveFault, now: Moment) -> bool:
    return elapsed_seconds(live.waits_from, now, same_boot=True) <= rule.after_seconds


def _companions(rule: Rule, live: LiveFault, around: Around) -> tuple[LiveFault, ...]:
    """Return the faults that satisfy the rule, newest first; empty when they are too few or too alike.

    A flood of faults asks this most: what tells most of them apart for the least is looked at first.
    """
    wanted = rule.companion
    if wanted is None:
        return ()
    found: list[LiveFault] = []
    shared = _to_share(rule.key, live.pci is not None and None in live.instances)
    for other in around.candidates(rule, live):
        if other is live:
            # Only a rule that counts repeats may count the fault itself; a cause is always another fault.
            if (rule.count == 1 and not rule.spread) or not fits(wanted, other, solo=True):
                continue
        elif not _stands_by(rule, live, other, shared=shared):
            continue
        found.append(other)
        if len(found) >= _LOOKED_AT:
            break
    if len(found) < rule.count or not all(len(_spread(word, found)) >= least for word, least in rule.spread.items()):
        return ()
    return tuple(found)


def _stands_by(rule: Rule, live: LiveFault, other: LiveFault, *, shared: tuple["_Shared", ...]) -> bool:
    """Return whether another fault of the same machine is one that the rule looks for."""
    for same in shared:
        if not same(live, other):
            return False
    wanted, verdict = rule.companion, other.verdict
    solo = verdict.explained_by is None and not verdict.waits
    if wanted is None or (wanted.solo is not None and wanted.solo is not solo):
        return False
    if other.user_record and not live.user_record:
        return False
    same_boot = live.boot == other.boot
    return (
        elapsed_seconds(other.last, live.since, same_boot=same_boot) <= rule.before_seconds
        and elapsed_seconds(live.since, other.first, same_boot=same_boot) <= rule.after_seconds
        and fits(wanted, other, solo=solo)
    )


def _same_gpu(live: LiveFault, other: LiveFault) -> bool:
    if live.pci is None or live.pci != other.pci or live.machine != other.machine:
        return False
    here, there = live.instances, other.instances
    # A line without an instance speaks about the whole GPU.
    return here == there or None in here or None in there or not here.isdisjoint(there)


_Shared = Callable[[LiveFault, LiveFault], bool]
_SHARED: Mapping[str, _Shared] = {
    "gpu": _same_gpu,
    "other_gpu": lambda live, other: other.pci not in (None, live.pci) and live.machine == other.machine,
    "code": lambda live, other: live.code == other.code,
    "sm": lambda live, other: not live.sms.isdisjoint(other.sms) and _same_gpu(live, other),
    "link": lambda live, other: not live.links.isdisjoint(other.links) and _same_gpu(live, other),
    "job": lambda live, other: not live.jobs.isdisjoint(other.jobs),
}
_CHEAPEST_FIRST = ("code", "gpu", "other_gpu", "link", "sm", "job")


@lru_cache(maxsize=1024)
def _to_share(key: tuple[str, ...], whole_gpu: bool) -> tuple[_Shared, ...]:  # noqa: FBT001  a cache wants it plain
    """Return what tells whether two faults have the same value of each key word; an unknown value is never the same.

    Candidates are of the same machine, and where the key names a GPU that is known, of this one: then only faults of a
    GPU instance need to be told apart.
    """
    words = set(key) - {"node", "gpu" if whole_gpu else ""}
    return tuple(_SHARED[word] for word in sorted(words, key=_CHEAPEST_FIRST.index))


def _spread(word: str, found: Iterable[LiveFault]) -> set[Any]:
    if word == "gpu":
        return {(other.machine, other.pci) for other in found if other.pci is not None}
    return {job for other in found for job in other.jobs}


def _apply(rule: Rule, draft: _Draft, live: LiveFault, *, found: tuple[LiveFault, ...]) -> None:
    """Write into the draft what the rule says."""
    cause = _cause(found) if _names_cause(rule) else None
    words = _words(rule, live, found, cause)
    draft.rules.append(rule.id)
    draft.says.append(rule.say.format_map(words))
    _apply_level(rule, draft, cause)
    if rule.fault_class is not None:
        draft.fault_class = _fault_class(rule.fault_class, draft, cause)
    if rule.action is not None:
        draft.action = rule.action.format_map(words)
    if rule.adds is not None:
        draft.adds.append(rule.adds.format_map(words))
    draft.parks = draft.parks or rule.parks
    if rule.clears:
        draft.cleared = True
    if rule.explains:
        draft.explainer = cause
        draft.explained_by = cause.id if cause else label_of_code(live)
        draft.covers_seconds = rule.before_seconds


def _names_cause(rule: Rule) -> bool:
    return (
        rule.explains
        or COMPANION in (rule.raise_to, rule.fault_class)
        or any("{companion}" in words for words in (rule.say, rule.action, rule.adds) if words)
    )


def _cause(found: Iterable[LiveFault]) -> LiveFault | None:
    """Return the one to name: the root, not another consequence of it; then the worst; then the one that came first."""
    cause: LiveFault | None = None
    worst = (False, Level.IGNORE)
    for other in found:
        rank = _rank(other)
        if cause is None or rank > worst or (rank == worst and _is_earlier(other, cause)):
            cause, worst = other, rank
    return cause


def _is_earlier(other: LiveFault, cause: LiveFault) -> bool:
    """Return whether it came first; where no clock tells, it stands further up in the log."""
    earlier_seconds = elapsed_seconds(other.first, cause.first, same_boot=same_clock(other, cause))
    return earlier_seconds > 0 or (earlier_seconds == 0 and other.order < cause.order)


def _rank(other: LiveFault) -> tuple[bool, Level]:
    return (other.verdict.explained_by is None, other.base.level)


def label_of_code(live: LiveFault) -> str:
    """Return how the line itself names its cause."""
    return f"Xid {live.details.get('caused_by_xid', '?')}"


def _apply_level(rule: Rule, draft: _Draft, cause: LiveFault | None) -> None:
    if rule.set_to is not None:
        draft.level = rule.set_to
    if rule.raise_to == COMPANION:
        draft.level = max(draft.level, cause.base.level if cause else draft.level)
    elif isinstance(rule.raise_to, Level):
        draft.level = max(draft.level, rule.raise_to)
    if rule.cap_at is not None:
        draft.level = min(draft.level, rule.cap_at)


def _fault_class(word: FaultClass | str, draft: _Draft, cause: LiveFault | None) -> FaultClass:
    if isinstance(word, FaultClass):
        return word
    return cause.base.fault_class if cause else draft.fault_class


def _settle(draft: _Draft, live: LiveFault) -> Verdict:
    """Return the verdict, held to P2 while it waits, and never below a P0 or P1 that was given before."""
    given = live.verdict.level if not live.verdict.waits and not (draft.cleared or live.cleared) else Level.IGNORE
    level = draft.level
    says = draft.says
    if draft.waits_seconds:
        level = min(level, Level.P2)
        says = [*says, f"It waits up to {span(draft.waits_seconds)} for a cause."]
        draft.action = f"Nothing yet: the verdict follows within {span(draft.waits_seconds)}."
        draft.adds = []
    if level < given and given >= Level.P1:
        level = given
        says = [*says, f"It stays {given}: that was said before, and may have been acted on."]
    return Verdict(
        level=level,
        fault_class=draft.fault_class,
        action=" ".join([draft.action, *draft.adds]).strip(),
        because=" ".join(says),
        rules=(*live.base.rows, *draft.rules),
        waits=draft.waits_seconds > 0,
        parks=draft.parks,
        explained_by=draft.explained_by,
    )


class _Words(dict[str, Any]):
    """What a rule's sentences may name; what nobody knows is `?`."""

    def __missing__(self, _word: str) -> str:
        return "?"


def _words(rule: Rule, live: LiveFault, found: tuple[LiveFault, ...], cause: LiveFault | None) -> _Words:
    """Return {companion}, {count}, {code}, {within}, {after}, {facility} and the fault's own details."""
    words = _Words(live.details)
    words.update(
        count=len(_spread("gpu", found)) if "gpu" in rule.spread else len(found),
        code=live.code,
        within=span(rule.before_seconds),
        after=span(rule.after_seconds),
        facility=live.facility,
    )
    if cause is not None:
        elsewhere = cause.pci is not None and cause.pci != live.pci
        words["companion"] = f"{label(cause)} of {cause.pci}" if elsewhere else label(cause)
    return words


def span(seconds: float) -> str:
    """Return a length of time as a person says it: 60 s, 24 h, 7 days."""
    if seconds >= 2 * _DAY_SECONDS and seconds % _DAY_SECONDS == 0:
        return f"{seconds // _DAY_SECONDS:.0f} days"
    if seconds >= _HOUR_SECONDS and seconds % _HOUR_SECONDS == 0:
        return f"{seconds // _HOUR_SECONDS:.0f} h"
    return f"{seconds:g} s"
