"""What to tell the person on call: at most two sentences that fit the level. Which level it is, is not decided here."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rows import Immediate, Scope, SwitchScope, SxidRow, XidRow
from gpuward.model.level import Level

NOTHING = "Nothing to do."


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do while work runs (`now`), when none runs any more (`once_free`), and if the fault returns (`then`)."""

    now: str
    once_free: str
    then: str | None = None


def advice_of_row(book: Book, row: XidRow) -> Advice:
    """Return the advice of an Xid: its immediate bucket, or what it needs where no bucket is published."""
    listed = row.immediate_action is not Immediate.NOT_LISTED
    return advice_of_words(book, row.immediate_action if listed else row.needs, row.investigatory_action)


def advice_of_words(book: Book, immediate: StrEnum, investigation: StrEnum) -> Advice:
    """Return the advice of two bucket words; an investigation that asks for nothing or the same again adds nothing."""
    first = book.actions[immediate]
    second = book.actions[investigation]
    adds = second.acts and second.sentence != first.sentence
    return Advice(first.sentence, first.once_free, second.sentence if adds else None)


def advise(advice: Advice, level: Level, scope: Scope) -> str:
    """Return the action in at most two sentences, beginning with what the level asks for."""
    if level is Level.IGNORE:
        return NOTHING
    opening = _OPENINGS.get(level)
    first = advice.now if opening is None else opening.format(what=_OUT[scope]) + _inner(advice.once_free)
    return first if advice.then is None else f"{first} If it returns, {_inner(advice.then)}"


_OUT = {Scope.GPU: "GPU", Scope.NODE: "node"}
_OPENINGS = {
    Level.P0: "Take the {what} out of service now, then ",
    Level.P1: "Give the {what} no new work; when its current work has ended, ",
}


def advise_switch(row: SxidRow | None, level: Level, *, fatal: bool) -> str:
    """Return the action for an NVSwitch error: the row's own where it speaks of the same severity.

    Fatal errors of the whole fabric take in every partition (rules.md R-SXid).
    """
    if level is Level.IGNORE:
        return NOTHING
    return _SWITCH_OPENINGS[level] + _switch_action(row, fatal=fatal)


_SWITCH_OPENINGS = {
    Level.P0: "Take the node out of service now. ",
    Level.P1: "Give the node no new work. ",
    Level.P2: "",
}
_SWITCH_FABRIC = "Stop every partition of the fabric, and reset every GPU and NVSwitch together or restart the host."
_SWITCH_FATAL = "Stop the jobs on it, and reset every GPU and NVSwitch together or reboot the node."
_SWITCH_NOTICE = "Log it and watch whether it returns."
_SWITCH_QUIET = re.compile(r"(?:none(?: at once)?(?:; )?|ignore)")


def _switch_action(row: SxidRow | None, *, fatal: bool) -> str:
    if row is None or row.fatal is not fatal:
        return _SWITCH_FATAL if fatal else _SWITCH_NOTICE
    if fatal and row.scope is SwitchScope.FABRIC:
        return _SWITCH_FABRIC
    action = row.action.replace(" ->", ":")
    quiet = _SWITCH_QUIET.match(action)
    if quiet is None:
        return action[0].upper() + action[1:] + "."
    rest = action[quiet.end() :]
    return f"Nothing to do now: {rest}." if rest else NOTHING


def _inner(sentence: str) -> str:
    """Return an imperative as it stands inside a sentence."""
    return sentence[0].lower() + sentence[1:]
