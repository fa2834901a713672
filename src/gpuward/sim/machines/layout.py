"""The long listings of nvidia-smi, drawn from rows: one layout gives the text and the XML. No value is decided here."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_HERE = os.path.dirname(__file__)  # noqa: PTH120  pathlib would be a fifth of the program's start
_COLUMN = 55
_NARROW_COLUMN = 42
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Line:
    """A value, or the head of a group where `value` is None; the XML stands `deeper` levels below the text."""

    depth: int
    label: str
    tag: str
    value: str | None
    column: int = _COLUMN
    deeper: int = 0


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of this folder; no value in these has a comma."""
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123  as above: no pathlib
        head, *rows = file.read().splitlines()
    return [dict(zip(head.split(","), row.split(","), strict=True)) for row in rows]


def lines(
    name: str, values: Mapping[str, str], true: frozenset[str], *, instead: str | None = None, deeper: int = 0
) -> Iterator[Line]:
    """Yield the lines of a layout whose conditions are all true; `instead` replaces every live value."""
    for row in table(name):
        when = row["when"].split()
        if not true.issuperset(set(when) - {"narrow"}):
            continue
        value = row["value"].format_map(values) if row["value"] else None
        if instead is not None and "live" in when and value is not None:
            value = instead
        column = _NARROW_COLUMN if "narrow" in when else _COLUMN
        yield Line(int(row["depth"]), row["label"], row["tag"], value, column, deeper)


def text(drawn: Iterable[Line]) -> str:
    """Return the lines as `-q` prints them."""
    out = []
    for line in drawn:
        if not line.label:
            continue
        label = _INDENT * line.depth + line.label
        out.append(label if line.value is None else f"{label:<{line.column}}: {line.value}")
    return "\n".join(out) + "\n"


def xml(drawn: Iterable[Line], *, depth: int) -> str:
    """Return the lines as `-q -x` prints them, `depth` tabs in; a group ends where a line stands no deeper than it."""
    out: list[str] = []
    open_groups: list[tuple[int, str]] = []
    for line in drawn:
        if not line.tag:
            continue
        level = line.depth + line.deeper
        _close(out, open_groups, level, depth)
        tabs = "\t" * (depth + level)
        if line.value is None:
            out.append(f"{tabs}<{line.tag}>")
            open_groups.append((level, line.tag))
        else:
            out.append(f"{tabs}<{line.tag}>{_escaped(line)}</{line.tag}>")
    _close(out, open_groups, 0, depth)
    return "\n".join(out) + "\n"


def _close(out: list[str], open_groups: list[tuple[int, str]], level: int, depth: int) -> None:
    while open_groups and open_groups[-1][0] >= level:
        ended, tag = open_groups.pop()
        out.append("\t" * (depth + ended) + f"</{tag}>")


def _escaped(line: Line) -> str:
    """Return the value for XML, where the tool leaves out the 0x of PCI numbers."""
    value = line.value or ""
    if line.tag.startswith("pci_"):
        value = value.removeprefix("0x")
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
