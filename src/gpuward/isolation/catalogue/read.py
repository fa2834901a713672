"""CSV text to rows, checked, every mistake of a file told at once. Where the text comes from is not here."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from gpuward.isolation.catalogue import forms
from gpuward.isolation.catalogue.forms import Form, Mistake, Row
from gpuward.isolation.catalogue.rows import (
    ACTION_WORDS,
    ActionRow,
    NvlinkRow,
    OtherRow,
    PhraseRow,
    PolicyRow,
    RecoveryRow,
    RegisterRow,
    SxidRow,
    XidRow,
)


class CatalogueError(ValueError):
    """Rows that cannot be trusted; its text has one mistake a line: file, line, column, what is wrong and allowed."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, slots=True)
class Sheet(Generic[Row]):
    """The rows of one file, each with its line."""

    file: str
    rows: tuple[Row, ...]
    lines: tuple[int, ...]


def read_xids(text: str, file: str = "xid.csv") -> Sheet[XidRow]:
    """Return the Xid rows of `text`. Raises CatalogueError with every mistake in it, as all readers here do."""
    return _read(text, file, form=forms.XID)


def read_sxids(text: str, file: str = "sxid.csv") -> Sheet[SxidRow]:
    """Return the SXid rows of `text`."""
    return _read(text, file, form=forms.SXID)


def read_nvlinks(text: str, file: str = "nvlink5.csv") -> Sheet[NvlinkRow]:
    """Return the NVLink 5 decode rows of `text`; a mask must hold its value and agree with the drawn bits."""
    return _read(text, file, form=forms.NVLINK)


def read_policies(text: str, file: str = "policy.csv") -> Sheet[PolicyRow]:
    """Return the policy rows of `text`."""
    return _read(text, file, form=forms.POLICY)


def read_others(text: str, file: str = "policy_other.csv") -> Sheet[OtherRow]:
    """Return the policy rows of the kinds that are no single Xid."""
    return _read(text, file, form=forms.OTHER)


def read_registers(text: str, file: str = "nvlink74.csv") -> Sheet[RegisterRow]:
    """Return the register bits of Xid 74."""
    return _read(text, file, form=forms.REGISTER)


def read_actions(text: str, file: str = "actions.csv") -> Sheet[ActionRow]:
    """Return the sentence of every bucket word; a word without one is a mistake."""
    sheet = _read(text, file, form=forms.ACTION)
    missing = sorted(ACTION_WORDS - {row.word for row in sheet.rows})
    if missing:
        last = sheet.lines[-1] if sheet.lines else 1
        raise CatalogueError([_tell(file, last, mistake=("word", f"{word!r} has no row; add one")) for word in missing])
    return sheet


def read_recoveries(text: str, file: str = "recovery.csv") -> Sheet[RecoveryRow]:
    """Return the driver's recovery actions; no two rows may share a label."""
    return _read(text, file, form=forms.RECOVERY)


def read_phrases(text: str, file: str = "phrases.csv") -> Sheet[PhraseRow]:
    """Return the phrases of `text`."""
    return _read(text, file, form=forms.PHRASE)


def require_same_codes(xids: Sheet[XidRow], policies: Sheet[PolicyRow]) -> None:
    """Raise CatalogueError unless every Xid has a policy and every policy an Xid."""
    mistakes = [*_strangers(policies, xids), *_strangers(xids, policies)]
    if mistakes:
        raise CatalogueError(mistakes)


def _strangers(sheet: Sheet[Any], other: Sheet[Any]) -> Iterator[str]:
    known = {row.code for row in other.rows}
    for row, line in zip(sheet.rows, sheet.lines, strict=True):
        if row.code not in known:
            what = f"{row.code} has no row in {other.file}; add one there or take this one out"
            yield _tell(sheet.file, line, mistake=("code", what))


def _read(text: str, file: str, *, form: Form[Row]) -> Sheet[Row]:
    reader = csv.reader(text.splitlines(keepends=True))
    mistakes = [_tell(file, 1, mistake=mistake) for mistake in _wrong_columns(next(reader, []), tuple(form.columns))]
    if mistakes:
        raise CatalogueError(mistakes)
    rows: list[Row] = []
    lines: list[int] = []
    seen: dict[object, int] = {}
    for line in reader:
        values: dict[str, Any] = {}
        found = list(_fill(values, line, form=form))
        if not found:
            row = form.make(values, len(rows) + 1)
            found = [(form.key_column, what) for what in _repeated(form.keys(row), seen, line=reader.line_num)]
            rows.append(row)
            lines.append(reader.line_num)
        mistakes += [_tell(file, reader.line_num, mistake=mistake) for mistake in found]
    if mistakes:
        raise CatalogueError(mistakes)
    return Sheet(file, tuple(rows), tuple(lines))


def _tell(file: str, line: int, *, mistake: Mistake) -> str:
    column, what = mistake
    return f"{file} line {line}, column {column}: {what}"


def _wrong_columns(found: Sequence[str], wanted: Sequence[str]) -> Iterator[Mistake]:
    allowed = f"the columns are {','.join(wanted)}"
    for column in wanted:
        if column not in found:
            yield column, f"is missing; {allowed}"
    for column in found:
        if column not in wanted:
            yield column, f"is not known; {allowed}"
    if set(found) == set(wanted) and tuple(found) != tuple(wanted):
        yield found[0], f"is out of order or twice; {allowed}"


def _fill(values: dict[str, Any], line: Sequence[str], *, form: Form[Row]) -> Iterator[Mistake]:
    """Read each cell into `values` and yield what is wrong with the line."""
    if len(line) != len(form.columns):
        yield next(iter(form.columns)), f"the line has {len(line)} cells; a row has {len(form.columns)}"
        return
    for (column, read), cell in zip(form.columns.items(), line, strict=True):
        try:
            values[column] = read(cell)
        except ValueError as mistake:
            yield column, str(mistake)
    if len(values) == len(line):
        yield from form.check(values)


def _repeated(keys: Iterable[object], seen: dict[object, int], *, line: int) -> Iterator[str]:
    for key in keys:
        first = seen.setdefault(key, line)
        if first != line:
            yield f"repeats line {first}; every row speaks for something else"
