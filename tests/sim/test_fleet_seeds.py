"""Two thousand short lives in two acts, foul weather and calm: no law is broken, all end, nothing is left."""

from collections import Counter

import pytest

from gpuward.model.happening import as_object
from gpuward.sim.fleet.acts import play
from tests.kit.journal_laws import broken_laws

SEEDS = 2000
PARTS = 20


def laws_broken(lines: list[dict[str, object]]) -> list[str]:
    """Return what the steps of all cases, as they were saved, break; the laws look at one machine at a time."""
    by_node: dict[object, list[dict[str, object]]] = {}
    for line in lines:
        by_node.setdefault(line["node"], []).append(line)
    return [f"{node}: {law}" for node, told in by_node.items() for law in broken_laws(told)]


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(PARTS))
def test_no_life_breaks_a_law_and_all_come_to_an_end(part: int) -> None:
    states: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        played = play(seed)
        assert played.complaints == [], f"seed {seed}"
        assert laws_broken([as_object(one) for one in played.witnessed]) == [], f"seed {seed}"
        states.update(str(case.state) for case in played.cases)
    assert states["closed"] > SEEDS // PARTS / 4, "hardly anything happened"
