"""Whose lines a log holds: a file may be gathered from many machines, and only this one's faults may act here."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names that this machine goes by, and those that the followed log has shown; domains are left out of both."""

    ours: frozenset[str]
    shown: frozenset[str]

    def is_elsewhere(self, node: str | None) -> bool:
        """Return whether a line is of another machine.

        A log that has only ever named one machine is that machine's, whatever it is called there.
        """
        if node is None or _short(node) in self.ours:
            return False
        return bool(self.ours & self.shown) or len(self.shown) > 1


def hosts_of(ours: Iterable[str | None], shown: Iterable[str | None]) -> Hosts:
    """Return the names without their domains; None names nobody."""
    return Hosts(
        ours=frozenset(_short(name) for name in ours if name), shown=frozenset(_short(name) for name in shown if name)
    )


def words_of(others: Iterable[str]) -> str:
    """Return what a person should know of lines of other machines."""
    names = ", ".join(sorted(others)[:5])
    return (
        f"The log also holds lines of {names}: faults of theirs never act on this machine. "
        "If that is this machine under another name, give it as --node."
    )


def _short(name: str) -> str:
    return name.split(".", 1)[0].lower()
