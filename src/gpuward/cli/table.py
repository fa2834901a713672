"""Faults and lines as a person reads them in a terminal. What they are is in the objects; nothing is chosen here."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from itertools import chain, islice, repeat
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuward.cli.times import as_shown
from gpuward.model.record import Record

_STYLES = {"P0": "bold red", "P1": "yellow", "P2": "cyan", "ignore": "dim"}
_PIPED_WIDTH = 160
_TABLE_WIDTH = 132
"""A terminal narrower than this would fold every cell to a few letters: there each fault is a block of lines."""
_INDENT = 8
_NARROWEST = 24
_HEADS = ("FIRST", "LAST", "COUNT", "CODE", "TITLE", "LEVEL", "CLASS", "ACTION", "BECAUSE")
_ROWS_A_TABLE = 1000
_WIDE = frozenset({"TITLE", "ACTION", "BECAUSE"})


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command say what that means; the library would end the process with exit code 1."""
        raise BrokenPipeError


def console() -> Console:
    """Return a console on standard output: colours on a terminal only, and never with NO_COLOR."""
    terminal = sys.stdout.isatty()
    return _Console(
        file=sys.stdout,
        width=_width(terminal=terminal),
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def _width(*, terminal: bool) -> int:
    """Return the width of the terminal, or what COLUMNS says; what is piped without it is wide."""
    if terminal or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size((80 if terminal else _PIPED_WIDTH, 24)).columns
    return _PIPED_WIDTH


def print_faults(groups: Iterable[Iterator[str]], zone: tzinfo) -> None:
    """Print one table a GPU from JSON lines; one with very many faults in several, so that memory stays bounded.

    Where a table would not fit each fault is a block of wrapped lines.
    """
    out = console()
    draw = _print_table if out.width >= _TABLE_WIDTH else _print_blocks
    for lines in groups:
        while rows := [json.loads(line) for line in islice(lines, _ROWS_A_TABLE)]:
            out.print(Text(_place(rows), style="bold"))
            draw(out, rows, zone)
            out.print()


def _print_table(out: Console, rows: list[dict[str, Any]], zone: tzinfo) -> None:
    table = _table()
    for row in rows:
        table.add_row(*_cells(row, zone))
    out.print(table)


def _print_blocks(out: Console, rows: list[dict[str, Any]], zone: tzinfo) -> None:
    width = max(_NARROWEST, out.width - _INDENT)
    for row in rows:
        level = Text(f"{row['level']:<{_INDENT}}", style=_STYLES[row["level"]])
        margins = chain([level], repeat(Text(" " * _INDENT)))
        wrapped = (line for part in _parts(row, zone) for line in Text(part).wrap(out, width))
        for margin, line in zip(margins, wrapped, strict=False):
            line.rstrip()
            out.print(Text.assemble(margin, line), soft_wrap=True)


def _parts(row: dict[str, Any], zone: tzinfo) -> Iterator[str]:
    """Yield what a block says, each part on lines of its own."""
    first, last = _shown(row["time"], zone), _shown(row["last"], zone)
    yield f"{first}  {_where(row)}  {_named(row)}"
    until = "" if last == first else f", the last at {last}"
    yield f"{row['class']}, {row['count']} line{'' if row['count'] == 1 else 's'}{until}"
    yield f"do: {row['action']}"
    yield f"why: {row['because']}"


def _named(row: dict[str, Any]) -> str:
    if row["code"] is None:
        return str(row["title"])
    return f"{'SXid' if row['kind'].startswith('sxid') else 'Xid'} {row['code']}: {row['title']}"


def _table() -> Table:
    table = Table(show_lines=True, expand=False, pad_edge=False)
    for head in _HEADS:
        table.add_column(
            head,
            overflow="fold",
            no_wrap=head in {"COUNT", "CODE", "LEVEL", "CLASS"},
            ratio=2 if head in _WIDE else None,
            min_width=14 if head in _WIDE else None,
        )
    return table


def line_text(record: Record, zone: tzinfo) -> str:
    """Return a recognised line as one row: line, time, kind, code, GPU, process, text."""
    code = "-" if record.code is None else str(record.code)
    process = "-" if record.process is None else record.process
    pid = "-" if record.pid is None else str(record.pid)
    stamp = as_shown(record.moment.wall, zone)
    return (
        f"{record.line:>7}  {stamp:<19}  {record.kind:<20}  {code:>5}  {record.pci or '-':<12}  {pid:>7}  "
        f"{process:<15}  {record.text}"
    )


def _place(rows: list[dict[str, Any]]) -> str:
    last = rows[-1]
    uuid = next((row["gpu_uuid"] for row in reversed(rows) if row["gpu_uuid"]), None)
    named = f" ({uuid})" if uuid else ""
    return f"{_where(last)}{named}" + (f" on {last['node']}" if last["node"] else "")


def _where(row: dict[str, Any]) -> str:
    switch = row["kind"].startswith("sxid")
    return f"{'Switch' if switch else 'GPU'} {row['pci']}" if row["pci"] else "Node"


def _cells(row: dict[str, Any], zone: tzinfo) -> list[Text]:
    code = "-" if row["code"] is None else str(row["code"])
    return [
        Text(_shown(row["time"], zone)),
        Text(_shown(row["last"], zone)),
        Text(str(row["count"]), justify="right"),
        Text(code),
        Text(row["title"]),
        Text(row["level"], style=_STYLES[row["level"]]),
        Text(row["class"]),
        Text(row["action"]),
        Text(row["because"]),
    ]


def _shown(stamp: str | None, zone: tzinfo) -> str:
    return as_shown(None if stamp is None else datetime.fromisoformat(stamp).timestamp(), zone)
