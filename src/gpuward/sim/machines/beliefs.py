"""The table of what we believe real drivers do. How a pretend machine acts on it is not here."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Belief:
    """One thing that we believe, whence we know it, and how it was tried: hardware, documentation or judgement."""

    id: str
    sentence: str
    source: str
    tried: str


@cache
def beliefs() -> dict[str, Belief]:
    """Return all of them by id."""
    text = resources.files("gpuward.sim.machines").joinpath("beliefs.csv").read_text("utf-8")
    return {row["id"]: Belief(**row) for row in csv.DictReader(text.splitlines())}
