"""What the bits in a line say: NVLink 5 words, Xid 74 registers, and the same in plain words. Levels are not here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rows import BitMeaning, LinkSeverity, NvlinkRow, Pattern, Recovery
from gpuward.model.record import Record

XID_NVLINK = 74
XID_RECOVERY = 154

_FIRST_V2_BRANCH = 575
_BITS = 32
_REASON_SHIFT = 20
_REASON_MASK = 0x3F


class Layout(StrEnum):
    """Which columns of the NVLink 5 sheet count: V1 for drivers below R575, V2 from R575 (rules.md section 1)."""

    V1 = "V1"
    V2 = "V2"


_UNIT_MASKS = {Layout.V1: 0x3FF, Layout.V2: 0x7F}
"""The bits of intrInfo that name the unit, as the sheet draws them in each layout."""

_MEANINGS = {
    BitMeaning.IGNORABLE: "can be ignored",
    BitMeaning.SECONDARY: "follows from another error",
    BitMeaning.ECC_PARITY: "ECC or parity error of the link",
    BitMeaning.POSSIBLE_HARDWARE: "possible hardware fault",
    BitMeaning.MARGINAL_SIGNAL: "marginal signal",
    BitMeaning.REPORT_IF_REPEATED: "worth a report when repeated",
    BitMeaning.DIAGNOSE_IF_REPEATED: "worth diagnostics when repeated",
    BitMeaning.UNEXPECTED: "not expected to happen",
    BitMeaning.FABRIC_RESET: "follows from another error, and the fabric must be reset",
    BitMeaning.THRESHOLD_NOTICE: "notice that a threshold was passed",
}


@dataclass(frozen=True, slots=True)
class NvlinkMatch:
    """A row that fits the words of a line in one layout; `promoted` when its pattern for fatal fits."""

    layout: Layout
    row: NvlinkRow
    promoted: bool

    @property
    def unit(self) -> str:
        """The unit as this layout names it."""
        return self.row.unit_v1 if self.layout is Layout.V1 else self.row.unit_v2

    @property
    def severity(self) -> LinkSeverity:
        """The severity, Fatal when promoted."""
        return LinkSeverity.FATAL if self.promoted else self.row.severity

    @property
    def recovery(self) -> Recovery:
        """The recovery that counts, the second one when promoted."""
        promoted = self.row.promoted_recovery
        return promoted if self.promoted and promoted is not None else self.row.recovery


@dataclass(frozen=True, slots=True)
class SetBit:
    """A set bit of an Xid 74 register; `meaning` is None when the book does not list it."""

    register: int
    bit: int
    meaning: BitMeaning | None
    benign: bool
    sentence: str | None

    @property
    def words(self) -> str:
        """What the bit means, in words."""
        return "not listed" if self.meaning is None else _MEANINGS[self.meaning]


def layouts(driver_version: object) -> tuple[Layout, ...]:
    """Return the layouts that a driver such as `575.51.02` may print: one when it is known, else both."""
    branch = str(driver_version).partition(".")[0]
    if not (branch.isascii() and branch.isdigit()):
        return (Layout.V1, Layout.V2)
    return (Layout.V2,) if int(branch) >= _FIRST_V2_BRANCH else (Layout.V1,)


def words_of(printed: object) -> tuple[int, ...]:
    """Return printed words (`0x...`) as numbers, up to the first that is none; empty when there are none."""
    words: list[int] = []
    for word in printed if isinstance(printed, list | tuple) else ():
        try:
            words.append(int(str(word), 16))
        except ValueError:
            break
    return tuple(words)


def match_nvlink(
    rows: Iterable[NvlinkRow], words: Sequence[int], *, allowed: Sequence[Layout], unit: str | None
) -> tuple[NvlinkMatch, ...]:
    """Return what the words can mean, in the order of `allowed` and of the rows.

    A row fits when (intrInfo & mask) == value and its error status is the second word, or any. Where rows of one
    pattern differ in their unit, those of the unit that the line prints are kept.
    """
    found = [match for layout in allowed for match in _in_layout(rows, words, layout=layout)]
    printed = set((unit or "").split("/"))
    named = [match for match in found if printed & {match.row.unit_v1, match.row.unit_v2}]
    return tuple(named or found)


def nvlink_details(match: NvlinkMatch, words: Sequence[int]) -> dict[str, Any]:
    """Return the decode as JSON values for a fault's details."""
    return {
        "layout": match.layout.value,
        "row": match.row.number,
        "unit": match.unit,
        "severity": match.severity.value,
        "recovery": match.recovery.value,
        "investigate": match.row.investigate.value,
        "origin": match.row.origin,
        "local_effect": match.row.local_effect,
        "remote_effect": match.row.remote_effect,
        "bits": nvlink_bits(match, words),
    }


def nvlink_bits(match: NvlinkMatch, words: Sequence[int]) -> dict[str, Any]:
    """Return the fields of the first two words by name: the reason (bits 25:20), the unit's code, the status bits."""
    info = words[0]
    bits: dict[str, Any] = {
        "reason": info >> _REASON_SHIFT & _REASON_MASK,
        "unit_code": info & _UNIT_MASKS[match.layout],
    }
    if match.row.promoted_recovery is not None:
        bits["promoted"] = match.promoted
    if len(words) > 1:
        bits["error_status"] = f"0x{words[1]:08x}"
        bits["error_status_bits"] = bits_set(words[1])
    return bits


def bits_set(word: int) -> list[int]:
    """Return the numbers of the set bits, lowest first."""
    return [bit for bit in range(_BITS) if word >> bit & 1]


def read_registers(book: Book, registers: object) -> tuple[SetBit, ...]:
    """Return every set bit of an Xid 74's registers, which count from 1; empty when the line has none."""
    values = registers if isinstance(registers, list | tuple) else ()
    return tuple(
        _set_bit(book, register, bit=bit)
        for register, value in enumerate(values, start=1)
        if isinstance(value, int)
        for bit in bits_set(value)
    )


def register_details(bits: Iterable[SetBit]) -> list[dict[str, Any]]:
    """Return the set bits as JSON values for a fault's details."""
    return [{"register": bit.register, "bit": bit.bit, "meaning": bit.words, "benign": bit.benign} for bit in bits]


def in_words(book: Book, record: Record) -> tuple[str, ...]:
    """Return what the bits of a record say, one sentence each, for a person; empty when it carries none."""
    if record.code is None:
        return ()
    if record.code == XID_NVLINK:
        return tuple(_register_words(read_registers(book, record.details.get("registers"))))
    if record.code == XID_RECOVERY:
        return tuple(_recovery_words(record.details))
    return tuple(_nvlink_words(book.nvlink(record.code), record.details))


def _in_layout(rows: Iterable[NvlinkRow], words: Sequence[int], *, layout: Layout) -> Iterator[NvlinkMatch]:
    for row in rows:
        if not _status_fits(row, words):
            continue
        plain, promoted = (row.v1, row.promoted_v1) if layout is Layout.V1 else (row.v2, row.promoted_v2)
        if _fits(promoted, words):
            yield NvlinkMatch(layout, row, promoted=True)
        elif _fits(plain, words):
            yield NvlinkMatch(layout, row, promoted=False)


def _fits(pattern: Pattern | None, words: Sequence[int]) -> bool:
    return pattern is not None and bool(words) and pattern.fits(words[0])


def _status_fits(row: NvlinkRow, words: Sequence[int]) -> bool:
    return not row.error_status or (len(words) > 1 and words[1] in row.error_status)


def _set_bit(book: Book, register: int, *, bit: int) -> SetBit:
    row = book.register_bit(register, bit)
    if row is None:
        return SetBit(register, bit, meaning=None, benign=False, sentence=None)
    return SetBit(register, bit, meaning=row.meaning, benign=row.benign, sentence=row.sentence)


def _register_words(bits: Iterable[SetBit]) -> Iterator[str]:
    for bit in bits:
        yield f"Register {bit.register} bit {bit.bit}: {bit.words}{', benign' if bit.benign else ''}."


def _recovery_words(details: Mapping[str, Any]) -> Iterator[str]:
    before, after = recovery_names(details)
    if after is not None:
        yield f"The driver's recovery action went from {before or 'unknown'} to {after}."


def recovery_names(details: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the recovery action before and after as an Xid 154 names them: by label, else by number."""
    before = details.get("recovery_from_label") or details.get("recovery_from")
    after = details.get("recovery_to_label") or details.get("recovery_to")
    return before, after


def _nvlink_words(rows: Sequence[NvlinkRow], details: Mapping[str, Any]) -> Iterator[str]:
    printed = details.get("nvlink") or {}
    words = words_of(printed.get("words"))
    if not rows or not words:
        return
    matches = match_nvlink(rows, words, allowed=layouts(details.get("driver_version")), unit=printed.get("unit"))
    if not matches:
        yield f"intrInfo 0x{words[0]:08x} fits no row of the decode table."
    for match in matches:
        yield _match_words(match, words)


def _match_words(match: NvlinkMatch, words: Sequence[int]) -> str:
    bits = nvlink_bits(match, words)
    status = bits.get("error_status_bits")
    set_bits = "" if status is None else f", error status bits {status or 'none'}"
    return (
        f"In layout {match.layout} it is {match.unit} (unit code 0x{bits['unit_code']:x}, reason {bits['reason']}"
        f"{set_bits}): {match.severity}, recovery {match.recovery}, investigate {match.row.investigate}, "
        f"origin {match.row.origin}, row {match.row.number}."
    )
