"""Counts in sentences: one is one, and nobody reads `1 times`."""

import ast
import re
from pathlib import Path

import pytest

from gpuward.model.counted import many, verb

SOURCE = Path(__file__).parents[2] / "src" / "gpuward"
_COUNTED = re.compile(
    r"\{\}(?: further| more)? (GPUs|nodes|pods|times|days|agents|cases|faults|lines|files|drills|jobs|kills|gaps)\b"
)
_ALWAYS_MORE = {
    "agent/sight.py": "three resets a day",
    "isolation/budget.py": "a class of faults, and no count",
    "isolation/judge.py": "two days or more",
    "isolation/job_faults.py": "three GPUs or more",
    "sim/demo.py": "times as fast",
    "sim/fleet/showing.py": "the pods of 16 nodes",
    "agent/watch.py": "one lost line is not counted",
    "agent/scan.py": "the other branch says 1 line",
    "cli/sentence.py": "one line is not counted",
    "cli/taking_away.py": "three tries, or more cases than one",
    "controller/heed.py": "far more than one",
    "controller/desk/naming.py": "more nodes than one",
}
"""Where it is more than one whatever happens, and why."""


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (1.5, "1.5 nodes"), (1_000_000, "1000000 nodes")]
)
def test_a_count_goes_with_its_noun(count: float, said: str) -> None:
    assert many(count, "node") == said


def test_a_plural_that_is_not_the_noun_and_an_s_is_named() -> None:
    assert many(1, "fault is", "faults are") == "1 fault is"
    assert many(3, "fault is", "faults are") == "3 faults are"
    assert (verb(1, "is", "are"), verb(0, "is", "are")) == ("is", "are")


def test_no_sentence_counts_without_it() -> None:
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                said = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
                if _COUNTED.search(said):
                    found[str(file.relative_to(SOURCE))] = said
    assert {place: said for place, said in found.items() if place not in _ALWAYS_MORE} == {}
    assert found.keys() == _ALWAYS_MORE.keys(), "an exception that is none any more"
