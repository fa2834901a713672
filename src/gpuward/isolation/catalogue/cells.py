"""Readers of single CSV cells: a value, or ValueError saying what is wrong and what is allowed. Rows are not here."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from gpuward.isolation.catalogue.rows import ACTION_WORDS, Pattern

Cell = Callable[[str], Any]
BITS = 32
_LARGEST = 99999


def free(cell: str) -> str:
    """Read any text."""
    return cell


def filled(cell: str) -> str:
    """Read text that must not be empty."""
    if not cell.strip():
        raise ValueError("is empty; write it out")
    return cell


def source(cell: str) -> str:
    """Read the source of a fact."""
    if not cell.strip():
        raise ValueError("is empty; name where the fact comes from")
    return cell


def number(largest: int) -> Callable[[str], int]:
    """Return the reader of a whole number up to `largest`."""

    def read(cell: str) -> int:
        if not (cell.isascii() and cell.isdigit()):
            raise ValueError(f"{cell!r} is not a number; write digits only")
        value = int(cell)
        if value > largest:
            raise ValueError(f"{cell} is too large; at most {largest}")
        return value

    return read


code = number(_LARGEST)


def optional_code(cell: str) -> int | None:
    """Read a whole number, or nothing."""
    return code(cell) if cell else None


def hexadecimal(cell: str) -> int:
    """Read a number written as 0x and hexadecimal digits."""
    try:
        if cell.startswith("0x"):
            return int(cell, 16)
    except ValueError:
        pass
    raise ValueError(f"{cell!r} is not a number; write 0x and hexadecimal digits")


def optional_hexadecimal(cell: str) -> int | None:
    """Read a hexadecimal number, or nothing."""
    return hexadecimal(cell) if cell else None


def statuses(cell: str) -> tuple[int, ...]:
    """Read `any` as no status, else the statuses between slashes."""
    return () if cell == "any" else tuple(hexadecimal(one) for one in cell.split("/"))


def drawn(cell: str) -> Pattern | None:
    """Read a pattern drawn as 32 signs, or nothing: 0 and 1 must be so, - may be either."""
    if not cell:
        return None
    if len(cell) != BITS or cell.strip("01-"):
        raise ValueError(f"{cell!r} is not {BITS} bits; draw each as 0, 1 or -")
    return Pattern(int(cell.replace("0", "1").replace("-", "0"), 2), int(cell.replace("-", "0"), 2))


def labels(cell: str) -> tuple[str, ...]:
    """Read one label or more, between upright strokes."""
    return tuple(filled(label) for label in cell.split("|"))


def among(words: Mapping[str, Any]) -> Cell:
    """Return the reader of a closed vocabulary."""

    def read(cell: str) -> Any:
        if cell not in words:
            raise ValueError(f"{cell!r} is not one of: {', '.join(map(repr, words))}")
        return words[cell]

    return read


def word(words: type[StrEnum]) -> Cell:
    """Return the reader of the words of `words`."""
    return among({str(member): member for member in words})


def optional(read: Cell) -> Cell:
    """Return `read`, with an empty cell read as nothing."""
    return lambda cell: read(cell) if cell else None


flag = among({"true": True, "false": False})
action_word = among({spelled: spelled for spelled in sorted(ACTION_WORDS)})
