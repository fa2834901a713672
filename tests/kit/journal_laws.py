"""The laws, read from a journal alone, as the page of the agent promises that anybody can. No code of ours is asked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

Line = Mapping[str, Any]
ENDED = {"closed", "withdrawn"}
FINAL = {"done", "refused", "failed"}
_MARKS = {"drain", "pause"}
_UNDOES = {"undrain": {"drain"}, "restore": {"pause"}}
DAY_SECONDS = 86400.0
RESETS_A_DAY = 3


def broken_laws(journal: Iterable[Line]) -> list[str]:
    """Return every law that a journal shows broken, with the case; empty when all hold."""
    lines = list(journal)
    broken = [f"{one['rule']} ({one.get('case')})" for one in lines if one["what"] == "law"]
    by_case: dict[str, list[Line]] = defaultdict(list)
    for one in lines:
        if "case" in one and ".drill." not in one["case"]:
            by_case[one["case"]].append(one)
    for case, told in by_case.items():
        broken += [f"{law.__name__} ({case})" for law in CASE_LAWS if not law(told)]
    return broken + [law.__name__ for law in NODE_LAWS if not law(list(by_case.values()))]


def _effects(told: Iterable[Line], kind: str, *outcomes: str) -> list[int]:
    return [
        number
        for number, one in enumerate(told)
        if one["what"] == "effect" and one["effect"] == kind and one["outcome"] in outcomes
    ]


def evidence_before_drain(told: list[Line]) -> bool:
    """Before the first drain is asked for, evidence was."""
    drains, evidence = _effects(told, "drain", "asked"), _effects(told, "evidence", "asked")
    return not drains or (bool(evidence) and evidence[0] < drains[0])


def fence_before_fix(told: list[Line]) -> bool:
    """Ask that a reset was asked for only after a drain."""
    resets, drains = _effects(told, "reset", "asked"), _effects(told, "drain", "asked")
    return not resets or (bool(drains) and drains[0] < resets[0])


def evidence_before_reset(told: list[Line]) -> bool:
    """Between the move to repairing and each reset that is asked for, evidence was done."""
    begun = [number for number, one in enumerate(told) if one.get("to") == "repairing"]
    kept = _effects(told, "evidence", "done")
    for reset in _effects(told, "reset", "asked"):
        start = max((number for number in begun if number < reset), default=None)
        if start is None or not any(start < number < reset for number in kept):
            return False
    return True


def prove_before_return(told: list[Line]) -> bool:
    """Ask that a case that closes from probation had its proof done after its newest reset."""
    for number, one in enumerate(told):
        if (one.get("from"), one.get("to")) == ("probation", "closed"):
            resets = [at for at in _effects(told, "reset", "done") if at < number]
            if resets and not any(resets[-1] < at < number for at in _effects(told, "verify", "done")):
                return False
    return True


def closed_is_closed(told: list[Line]) -> bool:
    """After closed or withdrawn a case moves no more and asks for nothing."""
    ended = [number for number, one in enumerate(told) if one.get("to") in ENDED]
    later = told[ended[0] + 1 :] if ended else []
    return not any(one["what"] == "moved" or one.get("outcome") == "asked" for one in later)


def moves_are_a_chain(told: list[Line]) -> bool:
    """Each move begins where the one before it ended; the first begins at suspect."""
    moves = [(one["from"], one["to"]) for one in told if one["what"] == "moved"]
    starts = ["suspect", *(to for _, to in moves)]
    return all(begin == start for (begin, _), start in zip(moves, starts, strict=False))


def nothing_is_done_twice(told: list[Line]) -> bool:
    """No effect has more outcomes than it was asked for, at any moment."""
    owed: dict[str, int] = defaultdict(int)
    for one in told:
        if one["what"] == "effect":
            owed[one["effect"]] += 1 if one["outcome"] == "asked" else -1
            if owed[one["effect"]] < 0:
                return False
    return True


def no_mark_left_behind(told: list[Line]) -> bool:
    """When a case has ended, every drain was lifted, and what was paused or changed was restored."""
    marks: set[str] = set()
    owed: set[str] = set()
    for one in told:
        effect, outcome = one.get("effect"), one.get("outcome")
        if effect in _MARKS:
            (owed.add if outcome == "asked" else owed.discard)(effect)
            # What was refused left nothing; what failed may have.
            marks |= {effect} if outcome in {"done", "failed"} else set()
        elif outcome == "done":
            marks -= _UNDOES.get(effect or "", set())
        elif one.get("to") in ENDED and (marks or owed):
            return False
    return True


def time_only_moves_forward(told: list[Line]) -> bool:
    """No line of a case is older than the one before it."""
    times = [one["at"] for one in told if one["what"] == "moved"]
    return times == sorted(times)


def at_most_three_resets_a_day(cases: list[list[Line]]) -> bool:
    """No GPU is reset more than three times within a day, whatever its cases."""
    resets: dict[str, list[float]] = defaultdict(list)
    for told in cases:
        for number in _effects(told, "reset", "asked"):
            resets[told[number]["gpu"]].append(told[number]["at"])
    return all(
        sum(0 <= at - start < DAY_SECONDS for at in times) <= RESETS_A_DAY
        for times in map(sorted, resets.values())
        for start in times
    )


def one_case_a_gpu(cases: list[list[Line]]) -> bool:
    """Ask that a case of a GPU opens only when the one before it has ended."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for told in cases:
        opened = [one["at"] for one in told if one["what"] == "verdict"]
        ended = [one["at"] for one in told if one.get("to") in ENDED]
        if opened:
            spans[told[0]["gpu"]].append((opened[0], ended[0] if ended else float("inf")))
    return all(before[1] <= after[0] for found in map(sorted, spans.values()) for before, after in pairwise(found))


CASE_LAWS = (
    evidence_before_drain,
    fence_before_fix,
    evidence_before_reset,
    prove_before_return,
    closed_is_closed,
    moves_are_a_chain,
    nothing_is_done_twice,
    no_mark_left_behind,
    time_only_moves_forward,
)
"""Asked of the lines of one case, in their order."""
NODE_LAWS = (at_most_three_resets_a_day, one_case_a_gpu)
"""Asked of the lines of all cases of a server, case by case."""
