"""docs/json.md names exactly the keys that the commands of a cluster write."""

import re
from pathlib import Path
from typing import Any

from gpuward.model.case import CaseState
from tests.controller.fleet import Fleet
from tests.desk.people import ask, beat

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text("utf-8")


def section(heading: str) -> str:
    _, _, rest = PAGE.partition(f"\n## {heading}\n")
    assert rest, heading
    return rest.partition("\n## ")[0]


def keys_of(text: str) -> set[str]:
    """Return the words in code in the first column of a table."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def words_of(text: str, first: str) -> set[str]:
    """Return the words of the list in code that begins with a word."""
    (found,) = re.findall(rf"`({first} [a-z_ \n]+)`", text)
    return set(found.split())


async def answers() -> dict[str, Any]:
    """Return what each command answers of a fleet on which something has happened."""
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.pod("train-0")
    fleet.pool()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=1)
        fleet.order(f"c-{fault}", what="approve", by="alice")
        await fleet.settled(controller, fault, CaseState.CLOSED)
        fleet.fault(79)
        await fleet.until(controller, lambda: fleet.taint() is not None)
        beat(fleet)
        told = {}
        for words in (("status",), ("cases",), ("nodes",), ("why", f"c-{fault}"), ("report",), ("pause",)):
            told[words[0]] = (await ask(fleet, *words, "--json")).object()
        told["release"] = (await ask(fleet, "release", "gpu-1", "--json", controller=controller)).object()
        told["drill"] = (await ask(fleet, "drill", "gpu-1", "1", "13", "--json")).object()
    return told


async def test_every_key_is_promised_and_every_promise_is_kept() -> None:
    told = await answers()
    status, (case,) = told["status"], told["status"]["cases"]
    assert set(status) == keys_of(section("A fleet (`status --json` of a cluster)"))
    assert set(status["pools"][0]) == words_of(section("A fleet (`status --json` of a cluster)"), "pool")
    assert set(case) == keys_of(section("A case of a fleet (`status --json`, `cases --json`)"))
    assert set(told["cases"]) == {"cases"}
    nodes = section("A node of a fleet (`nodes --json`)")
    assert set(told["nodes"]["nodes"][0]) == keys_of(nodes)
    assert set(told["nodes"]["nodes"][0]["gpus"][0]) == words_of(nodes, "gpu pci")
    stories, (story,) = section("Stories of a fleet (`why --json` of a cluster)"), told["why"]["stories"]
    assert set(told["why"]) == words_of(stories, "name")
    assert set(story) == keys_of(stories)
    for name, first in (
        ("effects", "number effect"),
        ("pods", "pod"),
        ("timeline", "at what"),
        ("orders", "number what"),
    ):
        assert set(story[name][0]) == words_of(stories, first), name
    report = section("A report (`report --json`)")
    assert set(told["report"]) == words_of(report, "since")
    assert set(told["report"]["groups"][0]) == words_of(report, "came")
    assert set(told["report"]["cases"][0]) == words_of(report, "case")
    orders = section("An order (`approve`, `retry`, `release`, `off`, `pause`, `resume` of a cluster)")
    assert set(told["release"]["orders"][0]) == words_of(orders, "case")
    assert set(told["pause"]) == words_of(orders, "paused")
    assert set(told["drill"]) == words_of(stories, "case level")
