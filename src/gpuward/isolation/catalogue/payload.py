"""Xids whose meaning is in their line (74, 144 to 150, 154): level, reason and advice from it. Policy is not here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuward.isolation.catalogue import decode
from gpuward.isolation.catalogue.advice import Advice, advice_of_row, advice_of_words
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.decode import Layout, NvlinkMatch
from gpuward.isolation.catalogue.rows import Investigation, LinkSeverity, OwnAction, Recovery, RecoveryRow
from gpuward.model.level import Level
from gpuward.model.record import Record


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line's own words say: a level for policies that leave it to them, and why, as a clause.

    `deciding` is said as well where this level is the one that counts.
    """

    level: Level
    because: str
    advice: Advice
    details: Mapping[str, Any]
    rows: tuple[str, ...]
    deciding: str = ""


def read_payload(book: Book, record: Record) -> Reading | None:
    """Return what the payload of an Xid line says; None for codes that carry none."""
    read = _READERS.get(record.code or 0)
    return None if read is None else read(book, record)


_FATAL = frozenset({LinkSeverity.FATAL, LinkSeverity.LINK_FATAL})
_RECOVERY_LEVELS = {
    Recovery.RESET_GPU: Level.P0,
    Recovery.XID_154_EVAL: Level.P2,
    Recovery.IGNORE: Level.P2,
    Recovery.NOT_LISTED: Level.P2,
}
"""rules.md section 6: RESET_GPU rows P0, XID_154_EVAL rows follow an Xid 154 else P2, IGNORE rows P2 or ignore."""


def _nvlink(book: Book, record: Record) -> Reading:
    printed = record.details.get("nvlink") or {}
    words = decode.words_of(printed.get("words"))
    allowed = decode.layouts(record.details.get("driver_version"))
    matches = decode.match_nvlink(book.nvlink(record.code or 0), words, allowed=allowed, unit=printed.get("unit"))
    if not matches:
        return _no_match(book, record, words=bool(words))
    best = max(matches, key=lambda match: (_level_of(book, match), match.severity in _FATAL))
    reading = _of_match(book, best, words=words)
    return _said(reading, best, printed_word=printed.get("severity"), rivals=_rivals(matches, allowed))


def _rivals(matches: Sequence[NvlinkMatch], allowed: Sequence[Layout]) -> str | None:
    """Say how the layout was found when more than one was allowed."""
    if len(allowed) == 1:
        return None
    if len({match.layout for match in matches}) == 1:
        return "the only layout that fits,"
    return "the stronger result of both layouts,"


def _no_match(book: Book, record: Record, *, words: bool) -> Reading:
    missing = "no row of the decode table matched its words" if words else "it has no words, so no row matched"
    row = book.xids[record.code or 0]
    return Reading(Level.P2, missing, advice_of_row(book, row), details={}, rows=())


def _of_match(book: Book, match: NvlinkMatch, *, words: tuple[int, ...]) -> Reading:
    row = match.row
    promoted = ", promoted to fatal" if match.promoted else ""
    return Reading(
        level=_level_of(book, match),
        because=f"row {row.number} of the decode table ({match.unit}, layout {match.layout}) says {match.recovery}"
        + promoted,
        advice=advice_of_words(book, match.recovery, row.investigate),
        details={"decode": decode.nvlink_details(match, words)},
        rows=(f"nvlink5:{row.xid}:{row.number}",),
    )


def _said(reading: Reading, match: NvlinkMatch, *, printed_word: object, rivals: str | None) -> Reading:
    """Weigh the row against the word in the line, and say where the driver's layout was not known."""
    because = reading.because
    if rivals is not None:
        because += f", {rivals} as the driver version is not known"
    stronger = printed_word == "Fatal" and match.severity is LinkSeverity.NON_FATAL
    weaker = printed_word == "Nonfatal" and match.severity in _FATAL
    if not stronger and not weaker:
        return replace(reading, because=because)
    return replace(
        reading,
        level=Level.P0 if stronger else reading.level,
        because=f"{because}, but the line says {printed_word} and the row {match.severity}",
        deciding=", and the stronger of the two counts",
    )


def _level_of(book: Book, match: NvlinkMatch) -> Level:
    level = _RECOVERY_LEVELS[match.recovery]
    if match.recovery is Recovery.IGNORE and not book.actions[match.row.investigate].acts:
        return Level.IGNORE
    return level


def _registers(book: Book, record: Record) -> Reading:
    """Read Xid 74: benign only when at least one bit is set and every set bit is listed as benign (rules.md R74)."""
    bits = decode.read_registers(book, record.details.get("registers"))
    benign = bool(bits) and all(bit.benign for bit in bits)
    listed = ", ".join(f"{bit.register}.{bit.bit} ({bit.words})" for bit in bits)
    worst = next((bit.sentence for bit in bits if bit.sentence and bit.benign == benign), None)
    row = advice_of_row(book, book.xids[decode.XID_NVLINK])
    advice = replace(row, now=worst or row.now, then=row.then if benign or not worst else worst)
    return Reading(
        level=Level.P2 if benign else Level.P0,
        because=_registers_clause(listed, benign=benign),
        advice=advice,
        details={"decode": decode.register_details(bits)} if bits else {},
        rows=tuple(f"nvlink74:{bit.register}:{bit.bit}" for bit in bits if bit.meaning is not None),
    )


def _registers_clause(listed: str, *, benign: bool) -> str:
    if not listed:
        return "its line shows no register bit that would make it harmless"
    if benign:
        return f"every register bit that is set is harmless: {listed}"
    return f"the register bits set are {listed}"


def _recovery(book: Book, record: Record) -> Reading:
    """Read Xid 154 by the label it moves to; the number counts only where no label is printed (rules.md R154)."""
    before, after = decode.recovery_names(record.details)
    row = find_recovery(book, record.details.get("recovery_to_label"), record.details.get("recovery_to"))
    moved = f"the driver's recovery action changed from {before or 'unknown'} to {after or 'unknown'}"
    if row is None:
        advice = advice_of_words(book, OwnAction.READ_RECOVERY, Investigation.NOT_LISTED)
        because = f"{moved}, which is not in the book" if after else "its line names no recovery action"
        return Reading(Level.P2, because, advice, details={}, rows=())
    return Reading(
        level=row.level,
        because=moved,
        advice=Advice(row.sentence, row.sentence),
        details={"decode": {"value": row.value, "label": row.labels[0], "level": str(row.level)}},
        rows=(f"recovery:{row.labels[0]}",),
    )


def find_recovery(book: Book, label: object, value: object) -> RecoveryRow | None:
    """Return the recovery action that a label names, or a number (`0x4` or 4) where there is no label."""
    if label:
        return book.recovery_by_label(str(label))
    try:
        return book.recovery_by_value(int(str(value), 0))
    except ValueError:
        return None


_READERS: Mapping[int, Callable[[Book, Record], Reading]] = {
    decode.XID_NVLINK: _registers,
    decode.XID_RECOVERY: _recovery,
    **dict.fromkeys((144, 145, 146, 147, 148, 149, 150), _nvlink),
}
