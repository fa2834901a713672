"""An agent killed before and after any call of any port: the next one ends where an unharmed one would have ended.

Nothing is done twice, nothing is left behind, and the journal tells each thing once.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind, Mode, Outcome
from tests.kit.merging import GPU_A
from tests.kit.mortal import BOOT_SECONDS, SERVICE, Fate, Scenario, Server, Work, a_world, xid_line

pytestmark = [pytest.mark.long, pytest.mark.no_cover]

DOUBLE_BIT = xid_line(2.0, 48, "An uncorrectable double bit error (DBE) has been detected")
FAULT = xid_line(2.0, 31, "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS")
LOST = xid_line(2.0, 79, "GPU has fallen off the bus.")


def urgent() -> Scenario:
    """Return a P0 whose work ends: drained, repaired, returned."""
    return Scenario(lines=(DOUBLE_BIT,), world=lambda: a_world(Work(0, 0, BOOT_SECONDS + 6)), seconds=25)


def patient() -> Scenario:
    """Return a P1 whose work ends: it waits, is drained, repaired, returned."""
    return Scenario(lines=(FAULT,), world=lambda: a_world(Work(0, 0, BOOT_SECONDS + 6)), seconds=25)


def lost() -> Scenario:
    """Return a GPU that is lost, drained and parked, and that a person releases."""
    return Scenario(lines=(LOST,), world=a_world, seconds=25, release_at=10.0)


SCENARIOS = {scenario.__name__: scenario for scenario in (urgent, patient, lost)}
OFTEN = 4
"""How often a call that comes back again and again is killed at, where not at each."""


@dataclass(frozen=True)
class End:
    """All that an agent leaves: on the server, in its state folder, in its journal."""

    cases: list[Any]
    gpus: dict[str, Any]
    drained: set[str]
    running: set[str]
    changes: list[str]
    resets: int
    evidence: list[str]
    litter: list[str]
    journal: list[dict[str, Any]]
    """Without what was said meanwhile: why a case waits is said when it is seen, and is counted by itself."""
    said: Counter[str]


def end_of(server: Server) -> End:
    world = server.world()
    cases = [
        (case.id, case.state, [(effect.kind, effect.outcome, effect.why) for effect in case.effects])
        for case in server.cases()
    ]
    return End(
        cases=cases,
        gpus=world.gpus,
        drained=world.drained,
        running=world.running,
        changes=world.changes,
        resets=world.done_resets,
        evidence=server.evidence(),
        litter=server.litter(),
        journal=[one for one in server.journal() if one["what"] != "said"],
        said=Counter(one["because"] for one in server.journal() if one["what"] == "said"),
    )


@cache
def unharmed(name: str) -> tuple[End, Fate]:
    """Return the end of a life that nobody ends, and the moments that it went through."""
    with TemporaryDirectory() as folder:
        server = Server(Path(folder), SCENARIOS[name]())
        fate = server.live()
        assert fate is not None
        return end_of(server), fate


def moments(name: str) -> Iterator[int]:
    """Yield the moments to be killed at: all of the first scenario, of the others those that do not only repeat."""
    often: Counter[str] = Counter()
    for number, call in enumerate(unharmed(name)[1].names):
        often[call] += 1
        if name == "urgent" or often[call] <= OFTEN:
            yield number


def test_the_lives_that_are_cut_short_are_worth_it() -> None:
    end, fate = unharmed("urgent")
    assert [state for _, state, _ in end.cases] == [CaseState.CLOSED]
    assert end.changes == [
        *("persistence False", "drained True", f"stop {SERVICE}", "drained False", f"start {SERVICE}"),
        "persistence True",
    ]
    assert (end.resets, end.drained, end.running) == (1, set(), {SERVICE})
    assert end.gpus[GPU_A].persistence is True
    kinds = [kind for _, _, effects in end.cases for kind, outcome, _ in effects if outcome is Outcome.DONE]
    assert EffectKind.RESET in kinds
    ports = {name.split(".")[0].split(" ")[1] for name in fate.names}
    assert ports == {"log", "place", "driver", "holders", "services", "evidence", "cases", "pauses", "chronicle"}
    end, _ = unharmed("lost")
    assert [state for _, state, _ in end.cases] == [CaseState.CLOSED]
    assert (end.resets, end.drained) == (0, set())


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("part", range(3))
def test_an_agent_killed_at_any_call_of_a_port_ends_as_if_it_had_lived(name: str, part: int, tmp_path: Path) -> None:
    end, fate = unharmed(name)
    for number in list(moments(name))[part::3]:
        server = Server(tmp_path / str(number), SCENARIOS[name]())
        server.folder.mkdir()
        assert server.live(deadly=number) is None
        assert server.live() is not None
        assert end_of(server) == end, f"killed {fate.names[number]}, moment {number}"


def test_an_agent_that_is_killed_again_and_again_gets_there_all_the_same(tmp_path: Path) -> None:
    end, fate = unharmed("urgent")
    server = Server(tmp_path, urgent())
    deaths = 0
    for number in range(10, len(fate.names), 11):
        if server.live(deadly=number) is None:
            deaths += 1
    assert deaths >= 5
    server.live()
    assert end_of(server) == end


def test_an_agent_that_comes_back_in_a_lesser_mode_leaves_nothing_half_done(tmp_path: Path) -> None:
    _, fate = unharmed("urgent")
    scenario = Scenario(
        lines=(DOUBLE_BIT,), world=a_world, seconds=40, modes=(Mode.REPAIR, Mode.ISOLATE), release_at=25
    )
    for number in range(0, len(fate.names), 7):
        server = Server(tmp_path / str(number), scenario)
        server.folder.mkdir()
        server.live(deadly=number)
        server.live()
        world = server.world()
        assert world.drained == set(), fate.names[number]
        assert world.running == {SERVICE}, fate.names[number]
        assert world.gpus[GPU_A].persistence is True, fate.names[number]
        assert [case.state for case in server.cases()] == [CaseState.CLOSED], fate.names[number]
