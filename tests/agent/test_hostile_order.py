"""Two hundred servers on which all comes at the wrong moment, and then calm: every case ends, and nothing is left.

Work comes back while a GPU is reset, a person releases it in the middle, agents are killed at any call, come back in
another mode, or find what an older version saved.
"""

import json
import random
from pathlib import Path

import pytest

from gpuward.model.case import ENDED, CaseState, EffectKind, Mode, Outcome
from tests.kit.journal_laws import broken_laws
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.mortal import BOOT_SECONDS, SERVICE, Scenario, Server, Work, World, a_world, xid_line

pytestmark = [pytest.mark.long, pytest.mark.no_cover]

TEXTS = {
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    45: "Ch 00000008",
    48: "An uncorrectable double bit error (DBE) has been detected",
    79: "GPU has fallen off the bus.",
    94: "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP!",
}
STORM_SECONDS = 60.0
CALM_SECONDS = 700.0
MOMENTS = ("", "before driver.reset", "after driver.reset", "before services.stop", "after driver.set_drained")
SINCE_THE_FIRST_VERSION = {"drill", "forced", "model", "mig", "recovery_action", "findings", "speeds"}
"""Not what is still to be written down: an older version had lost that."""
SEEDS = 200


def a_storm(seed: int) -> tuple[Scenario, random.Random]:
    """Return what happens on the server of this seed, and the chance that goes on with it."""
    chance = random.Random(seed)  # noqa: S311  a seed is the whole bug report
    lines = sorted(
        (
            xid_line(chance.uniform(1, STORM_SECONDS), code, TEXTS[code], pci=chance.choice([GPU_A, GPU_A, GPU_B]))
            for code in chance.choices(list(TEXTS), k=chance.randint(1, 5))
        ),
        key=lambda line: line.at,
    )
    works = [
        Work(chance.randint(0, 1), BOOT_SECONDS + begins, BOOT_SECONDS + begins + chance.uniform(1, 30))
        for begins in (chance.uniform(0, STORM_SECONDS) for _ in range(chance.randint(0, 4)))
    ]

    def world() -> World:
        return a_world(*works)

    scenario = Scenario(
        lines=tuple(lines),
        world=world,
        seconds=CALM_SECONDS,
        modes=(*(chance.choice(list(Mode)) for _ in range(chance.randint(0, 5))), Mode.REPAIR),
        release_at=STORM_SECONDS + 200,
        release_during=chance.choice(MOMENTS),
        holder_during=chance.choice(MOMENTS),
    )
    return scenario, chance


def of_an_older_version(server: Server) -> None:
    """Leave of what was saved only what the first version knew."""
    file = server.state / "cases.json"
    if file.exists():
        file.write_text(json.dumps(_without(json.loads(file.read_text("utf-8")))), "utf-8")


def _without(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without(one) for name, one in value.items() if name not in SINCE_THE_FIRST_VERSION}
    return [_without(one) for one in value] if isinstance(value, list) else value


def lived(seed: int, folder: Path) -> Server:
    """Let agents live and die on the server of a seed, the last of them to its end."""
    scenario, chance = a_storm(seed)
    server = Server(folder, scenario)
    for _ in range(len(scenario.modes) - 1):
        server.live(deadly=chance.randint(0, 250))
        if chance.random() < 0.2:
            of_an_older_version(server)
    server.live()
    return server


@pytest.mark.parametrize("part", range(8))
def test_after_a_storm_and_a_calm_every_case_has_ended_and_nothing_is_left(part: int, tmp_path: Path) -> None:
    for seed in range(SEEDS)[part::8]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        server = lived(seed, folder)
        world = server.world()
        assert [case.id for case in server.cases() if case.state not in ENDED] == [], seed
        assert (world.drained, world.running) == (set(), {SERVICE}), seed
        assert all(gpu.persistence for gpu in world.gpus.values()), seed
        assert json.loads((server.state / "pauses.json").read_text("utf-8"))["saved"] == {} if _paused(server) else True
        assert server.litter() == [], seed
        journal = [json.loads(line) for line in (server.state / "journal.jsonl").read_text("utf-8").splitlines()]
        assert broken_laws(journal) == [], seed
        server.evidence()


def _paused(server: Server) -> bool:
    return (server.state / "pauses.json").exists()


def test_the_storms_are_storms(tmp_path: Path) -> None:
    states: set[CaseState] = set()
    outcomes: set[tuple[EffectKind, Outcome]] = set()
    all_states = set(CaseState) - {CaseState.SUSPECT, CaseState.WITHDRAWN}
    resets = {(EffectKind.RESET, Outcome.REFUSED), (EffectKind.RESET, Outcome.DONE)}
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        server = lived(seed, folder)
        states |= {CaseState(one["to"]) for one in server.journal() if one["what"] == "moved"}
        outcomes |= {(effect.kind, effect.outcome) for case in server.cases() for effect in case.effects}
        if states >= all_states and outcomes >= resets:
            return
    assert (states, outcomes & resets) == (all_states, resets), "of forty none came to that"
