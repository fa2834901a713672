"""The ticket of a case: what is known stands in it, what is not is left out."""

from gpuward.isolation.ticket import Subject, in_a_line, ticket
from gpuward.model.case import CaseState, Effect, EffectKind, Outcome
from tests.kit.lives import a_case
from tests.kit.node_lives import a_lost_node

EFFECTS = (
    Effect(1, EffectKind.EVIDENCE, 0.0, Outcome.DONE),
    Effect(2, EffectKind.RESET, 60.0, Outcome.FAILED, ended_at=70.0, why="the tool says no"),
    Effect(3, EffectKind.REBOOT, 120.0, Outcome.ASKED),
)


def test_it_names_the_gpu_the_fault_its_lines_what_was_tried_and_what_is_due() -> None:
    case = a_case(effects=EFFECTS, state=CaseState.PARKED, due="Power cycle it.")
    text = ticket(Subject(case, model="NVIDIA H100", serial="165", lines=("NVRM: Xid 79", "GPU has fallen off")))
    assert text.splitlines() == [
        "Node:   gpu-1",
        "GPU:    0000:3b:00",
        "UUID:   GPU-00000000-1111-2222-3333-444444444444",
        "Serial: 165",
        "Model:  NVIDIA H100",
        "Fault:  Xid 79: GPU lost",
        "Since:  1970-01-01 00:00:00 UTC",
        "Log:    NVRM: Xid 79",
        "        GPU has fallen off",
        "Tried:  reset at 1970-01-01 00:01:00 UTC: failed, the tool says no",
        "Due:    Power cycle it.",
        "Case:   c1",
    ]


def test_what_nobody_knows_is_left_out() -> None:
    fields = [line.partition(":")[0] for line in ticket(Subject(a_lost_node())).splitlines()]
    assert fields == ["Node", "Fault", "Since", "Case"]


def test_in_a_line_it_says_where_the_whole_of_it_is() -> None:
    line = in_a_line(a_case(effects=EFFECTS))
    assert "GPU 0000:3b:00" in line
    assert "Xid 79" in line
    assert "reset at 1970-01-01 00:01:00 UTC: failed" in line
    assert "gpuward why c1 --ticket" in line
    assert "Tried: nothing." in in_a_line(a_case())
