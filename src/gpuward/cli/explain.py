"""`gpuward explain`: what a code, fault kind, rule or line means, from the rows. Nothing is known but what they say."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from gpuward.cli import wiring
from gpuward.cli.meaning import Meaning, meaning_of_code, meaning_of_kind, meaning_of_line
from gpuward.cli.objects import dumps
from gpuward.cli.ruling import Ruling, ruling_of
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.load import load
from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import Signal
from gpuward.settings import Settings

_CODE = re.compile(r"(?:(?P<family>s?xid):?\s*)?(?P<code>\d{1,5})", re.IGNORECASE | re.ASCII)
_FIRST_SXID = 10_000
"""Xids have up to three digits, SXids five (NVIDIA open driver 595.45.04)."""
_QUOTED = re.compile(r"NVRM: Xid\b|nvidia-nvswitch\d*: SXid\b", re.ASCII)
_MARKS = ">-*• \t"
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))
EXIT_UNKNOWN = 1


def explain(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    settings, terms = wiring.judgement(asked.config, asked.profile)
    if asked.list:
        rules = [row.id for row in terms.rules.identities] + [row.id for row in terms.rules.rules]
        return _list(load(), settings, rules=rules, as_json=asked.json)
    if asked.what is None:
        raise wiring.UsageError("say what: a code, a fault kind, a rule, a log line in quotes, or --list")
    meanings = _meanings(asked.what, settings)
    known = bool(meanings) and all(meaning.known for meaning in meanings)
    if asked.json:
        sys.stdout.writelines(dumps(meaning.as_object()) + "\n" for meaning in meanings)
    else:
        sys.stdout.write("\n".join("\n".join(meaning.as_text()) for meaning in meanings))
        sys.stdout.write("\n" if meanings else "")
    if not meanings:
        sys.stderr.write(
            f"gpuward explain: {_short(asked.what)} is no code, fault kind, rule or NVIDIA kernel line; "
            "`gpuward explain --list` shows what is known\n"
        )
    return 0 if known else EXIT_UNKNOWN


def _short(text: str) -> str:
    return repr(text if len(text) <= 120 else f"{text[:117]}...")  # noqa: PLR2004  a screen line


def _meanings(what: str, settings: Settings) -> Sequence[Meaning | Ruling]:
    """Return what was asked about: a code, a kind, a rule, or each line that was pasted."""
    book = load()
    match = _CODE.fullmatch(what.strip())
    if match is not None:
        code = int(match["code"])
        family = (match["family"] or ("sxid" if code >= _FIRST_SXID else "xid")).lower()
        return [meaning_of_code(family, code, settings)]
    if what.strip() in book.others:
        return [meaning_of_kind(what.strip(), settings)]
    ruling = ruling_of(what.strip(), settings)
    if ruling is not None:
        return [ruling]
    return _of_lines(what, settings)


def _of_lines(text: str, settings: Settings) -> list[Meaning]:
    clock = wiring.clock()
    reader = KernelReader(Context(source="line", timezone=wiring.zone(None), now=clock.now()))
    lines = enumerate(text.splitlines(), 1)
    records = (record for number, line in lines for record in _records(reader, number, _unquoted(line)))
    return [meaning_of_line(record, settings) for record in records]


def _records(reader: KernelReader, number: int, line: str) -> Iterator[Record]:
    """Yield the record of a line, and behind it what the line quotes, for that is what a person asks about."""
    record = reader.read(Signal(source="line", line=number, cursor=f"f{number}", text=line))
    if record is None:
        return
    yield record
    quoted = _QUOTED.search(line)
    if record.kind is RecordKind.XID_QUOTED and quoted is not None and quoted.start():
        yield from _records(reader, number, line[quoted.start() :])


def _unquoted(line: str) -> str:
    """Return a pasted line without the quotes, list marks and code fences that mails and tickets put around it."""
    bare = line.strip().lstrip(_MARKS).strip("`").strip()
    if not bare.startswith("{"):  # in a journal entry the escapes are part of it
        bare = bare.replace('\\"', '"')
    for opening, closing in _QUOTES:
        if len(bare) > 1 and bare[0] == opening and bare[-1] == closing:
            bare = bare[1:-1]
    return bare


def _list(book: Book, settings: Settings, *, rules: list[str], as_json: bool) -> int:
    """List every code and kind with its grade, then the rules."""
    rows = [_row(meaning_of_code("xid", code, settings)) for code in book.codes()]
    rows += [_row(meaning_of_kind(kind, settings)) for kind in sorted(book.others)]
    rows += [_row(meaning_of_code("sxid", code, settings)) for code in book.sxid_codes()]
    if as_json:
        sys.stdout.writelines(dumps(row) + "\n" for row in rows)
        sys.stdout.writelines(dumps({"rule": rule}) + "\n" for rule in rules)
        return 0
    for row in rows:
        sys.stdout.write(f"{row['fault']:<20} {row['level']:<10} {row['class']:<12} {row['title']}\n")
    sys.stdout.write(f"\nrules: {', '.join(rules)}\n")
    return 0


def _row(meaning: Meaning) -> dict[str, Any]:
    return {
        "fault": meaning.fault,
        "level": meaning.level,
        "class": meaning.fault_class,
        "title": meaning.title,
    }
