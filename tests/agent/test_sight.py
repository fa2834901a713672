"""What stands in the way of a reset: each row stands and does not, on a GPU that is shown and on a drained one."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.agent.sight import OBSTACLES, Seen, new_memory, obstacle_of, remember, sight_of
from gpuward.isolation.laws import RESETS_A_DAY
from gpuward.model.node import GpuReading, NodeReading, NvLink
from tests.kit.merging import GPU_A
from tests.kit.pretend_driver import a_reading

LINKS = tuple(NvLink(link=link, active=True, speed_gb_per_second=25.0) for link in range(6))
OLD = {"model": "Tesla V100-SXM2-32GB", "links": LINKS}
BOARD = {"model": "NVIDIA A100-SXM4-80GB", "links": LINKS}
UNKNOWN = {"model": "NVIDIA X900", "links": LINKS}
FABRIC = "only while Fabric Manager runs"
PEERS = "with every GPU that it has NVLinks to"


def shown(known: dict[str, Any] | None = None, **about: Any) -> Seen:
    """Return a GPU that the driver shows; `known` changes its reading, the rest what else is seen of it."""
    reading = replace(a_reading(GPU_A, 0), **(known or {}))
    return _seen(reading, drained=False, **about)


def drained(known: dict[str, Any] | None = None, **about: Any) -> Seen:
    """Return a GPU that we drained after it was read so."""
    return _seen(replace(a_reading(GPU_A, 0), **(known or {})), drained=True, **about)


def _seen(reading: GpuReading, *, drained: bool, **about: Any) -> Seen:
    return replace(
        Seen(
            was=remember(reading),
            reading=None if drained else reading,
            read=True,
            holders=(),
            drained=drained,
            lost=False,
            display=False,
        ),
        **about,
    )


both = pytest.mark.parametrize("look", [shown, drained], ids=["shown", "drained"])

STANDS: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({}, {"lost": True}, "does not answer"),
    ({"recovery_action": "Reboot"}, {}, "asks for a reboot"),
    ({"recovery_action": "Node Reboot Required"}, {}, "asks for a reboot"),
    ({"recovery_action": "System Reboot"}, {}, "asks for a reboot"),
    ({"recovery_action": "Recover IMEX Domain"}, {}, "recover the IMEX domain"),
    ({"mig": True}, {}, "MIG is on"),
    ({}, {"display": True}, "drives a display"),
    ({"minor": None}, {}, "device number is not known"),
    (OLD, {}, PEERS),
    ({"model": "Tesla V100-SXM2-32GB"}, {}, PEERS),
    (UNKNOWN, {}, PEERS),
    ({"model": None, "links": LINKS}, {}, PEERS),
    (BOARD, {"switches": True, "fabric_manager": False}, FABRIC),
    (BOARD, {"switches": True}, FABRIC),
    (BOARD, {}, FABRIC),
    ({"model": "NVIDIA A100-SXM4-80GB"}, {"switches": True, "fabric_manager": False}, FABRIC),
    ({}, {"qualified": False}, "never proven"),
    ({}, {"resets_today": RESETS_A_DAY}, "times within a day"),
)
CLEAR: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"recovery_action": "None"}, {}),
    ({"recovery_action": "Reset"}, {}),
    ({"recovery_action": "Drain and Reset"}, {}),
    ({"recovery_action": "Drain P2P"}, {}),
    ({"recovery_action": None}, {}),
    ({"mig": False}, {}),
    ({"mig": None}, {}),
    ({}, {"display": True, "display_told": True}),
    ({"model": "Tesla V100-PCIE-32GB"}, {}),
    ({"model": "NVIDIA X900"}, {}),
    (BOARD, {"switches": True, "fabric_manager": True}),
    (BOARD, {"switches": False, "fabric_manager": False}),
    ({"model": "NVIDIA A100 80GB PCIe"}, {"switches": True, "fabric_manager": False}),
    ({"model": "NVIDIA H100 80GB HBM3", "links": LINKS}, {"switches": True, "fabric_manager": False}),
    ({"model": "NVIDIA B200", "links": LINKS}, {}),
    ({"model": "NVIDIA L40S"}, {}),
    ({}, {"qualified": True}),
    ({}, {"resets_today": RESETS_A_DAY - 1}),
)


@both
@pytest.mark.parametrize(("known", "about", "words"), STANDS)
def test_a_reset_is_held_back(look: Any, known: dict[str, Any], about: dict[str, Any], words: str) -> None:
    assert words in obstacle_of(look(known, **about))


@both
@pytest.mark.parametrize(("known", "about"), CLEAR)
def test_nothing_stands_in_the_way(look: Any, known: dict[str, Any], about: dict[str, Any]) -> None:
    assert obstacle_of(look(known, **about)) == ""


def test_every_row_is_shown_to_stand() -> None:
    told = {obstacle_of(shown(known, **about)) for known, about, _ in STANDS}
    for row in OBSTACLES:
        assert any(row.due_for(shown(known, **about)) in told for known, about, _ in STANDS), row.due
        assert row.due
        assert row.source


def test_what_is_read_now_goes_before_what_was() -> None:
    was = remember(replace(a_reading(GPU_A, 0), mig=True, recovery_action="Reboot"))
    assert obstacle_of(replace(shown(), was=was)) == ""


def test_a_road_that_tells_less_leaves_what_was_known() -> None:
    was = remember(replace(a_reading(GPU_A, 0), recovery_action="Reboot"))
    poor = replace(a_reading(GPU_A, 0), mig=None, recovery_action=None, model=None)
    assert "reboot" in obstacle_of(replace(shown(), was=was, reading=poor))


def test_a_drained_gpu_keeps_in_memory_what_its_last_reading_told() -> None:
    first = NodeReading("nvml", "575.51.02", "12.9", (replace(a_reading(GPU_A, 0), mig=True),))
    memory = new_memory(new_memory({}, first), replace(first, gpus=()))
    seen = replace(drained(), was=memory[GPU_A])
    assert "MIG is on" in obstacle_of(seen)


def test_a_sentence_names_model_driver_and_gpu() -> None:
    words = obstacle_of(drained(qualified=False, driver="575.51.02"))
    assert "NVIDIA H100 80GB HBM3 with driver 575.51.02" in words
    assert f"gpuward retry {GPU_A} --force" in words


def test_a_model_with_strange_letters_is_said_as_it_is() -> None:
    assert "{gpu} {0}" in obstacle_of(shown({"model": "{gpu} {0}"}, qualified=False))


def test_a_display_that_a_person_spoke_of_is_no_display() -> None:
    assert sight_of(shown(display=True)).display
    assert not sight_of(shown(display=True, display_told=True)).display
