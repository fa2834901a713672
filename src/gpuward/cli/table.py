"""Faults and lines as a person reads them in a terminal. What they are is in the objects; nothing is chosen here."""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuward.cli.times import as_shown
from gpuward.model.record import Record

_STYLES = {"P0": "bold red", "P1": "yellow", "P2": "cyan", "ignore": "dim"}
_PIPED_WIDTH = 160
_HEADS = ("FIRST", "LAST", "COUNT", "CODE", "TITLE", "LEVEL", "CLASS", "ACTION", "BECAUSE")
_ROWS_A_TABLE = 1000
_WIDE = frozenset({"TITLE", "ACTION", "BECAUSE"})


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command say what that means; the library would end the process with exit code 1."""
        raise BrokenPipeError


def console() -> Console:
    """Return a console on standard output: colours on a terminal only, and never with NO_COLOR."""
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return _Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def print_faults(groups: Iterable[Iterator[str]], zone: tzinfo) -> None:
    """Print one table a GPU from JSON lines; one with very many faults in several, so that memory stays bounded."""
    out = console()
    for lines in groups:
        while rows := [json.loads(line) for line in islice(lines, _ROWS_A_TABLE)]:
            out.print(Text(_place(rows), style="bold"))
            table = _table()
            for row in rows:
                table.add_row(*_cells(row, zone))
            out.print(table)
            out.print()


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
    switch = last["kind"].startswith("sxid")
    where = f"{'Switch' if switch else 'GPU'} {last['pci']}" if last["pci"] else "Node"
    named = f" ({uuid})" if uuid else ""
    return f"{where}{named}" + (f" on {last['node']}" if last["node"] else "")


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
