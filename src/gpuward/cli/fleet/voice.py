"""How a command of a cluster answers: one JSON object at the end, or lines as they come. What is said is not here."""

from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from gpuward.cli import wiring
from gpuward.cli.fleet.words import painted
from gpuward.cli.objects import dumps
from gpuward.cli.voice import warn
from gpuward.isolation.kernel.text import shown


class Voice:
    """Where an answer goes."""

    def __init__(self, out: TextIO, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = out
        self._paint = painted if wiring.wants_colour(out) else str

    def answer(self, value: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Give the whole answer: the value for programs, or the lines for a person."""
        if self.as_json:
            self._out.write(f"{dumps(value)}\n")
        else:
            self.say(lines)

    def say(self, lines: Iterable[str]) -> None:
        """Tell a person, now; programs hear all at the end."""
        if not self.as_json:
            self._out.write("".join(f"{self._paint(shown(line))}\n" for line in lines))
            self._out.flush()


def say_away(why: str) -> None:
    """Say that the API gives no answer just now; it is asked again, and said again only when it was there meanwhile."""
    warn(f"no answer now, and it is asked again until the time is over: {why}")
