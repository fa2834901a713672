"""What a followed log gave, taken apart, for the tests of it."""

from collections.abc import Sequence
from pathlib import Path

from gpuward.adapters.follow import FollowedFile
from gpuward.model.signal import Gap, Signal


def texts(came: Sequence[Signal | Gap]) -> list[str]:
    """Return the texts of the lines."""
    return [one.text for one in came if isinstance(one, Signal)]


def gaps(came: Sequence[Signal | Gap]) -> list[str]:
    """Return why something is missing, a sentence a gap."""
    return [one.why for one in came if isinstance(one, Gap)]


def cursors(came: Sequence[Signal | Gap]) -> list[str]:
    """Return the places after the lines."""
    return [one.cursor for one in came if isinstance(one, Signal)]


def drain(log: FollowedFile) -> list[Signal | Gap]:
    """Read until nothing came for a while."""
    came: list[Signal | Gap] = []
    while more := log.read(0.12):
        came += more
    return came


def add(file: Path, text: bytes) -> None:
    """Write more at the end of a file."""
    with file.open("ab") as out:
        out.write(text)
