"""The ledger of orders by itself: pure decisions, and any order of events keeps their laws."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.agent.bench import Remembered
from gpuward.agent.order_book import OrderBook
from gpuward.agent.orders import (
    Grounds,
    Ledger,
    after_boot,
    answers_of,
    local_case,
    with_order,
    with_outcome,
    without_removed,
)
from gpuward.model.case import EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_node import ORDERED, GpuOrder
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend import PretendStore

_WAS = {
    pci: Remembered(pci=pci, uuid=f"GPU-{pci[5:7]}", minor=0, persistence=True, links_active=0, pcie_width=16)
    for pci in (GPU_A, GPU_B)
}


UNDOES = (EffectKind.UNDRAIN, EffectKind.RESTORE)


def _grounds(**changes: Any) -> Grounds:
    whole = Grounds(now=1000.0, node="gpu-1", boot="b", mode=Mode.REPAIR, gpus=_WAS, obstacles={}, faults={})
    return replace(whole, **changes)


def _order(
    number: int, what: EffectKind = EffectKind.DRAIN, *, case: str = "one", pci: str = GPU_A, **more: Any
) -> GpuOrder:
    return GpuOrder(f"{case}.{number}", case, boot="b", pci=pci, what=what, asked_at=1.0, uuid=_WAS[pci].uuid, **more)


def test_a_gpu_that_an_order_of_another_case_works_on_takes_no_second() -> None:
    ledger = with_order(Ledger(), _order(1), _grounds())
    ledger = with_order(ledger, _order(1, case="two"), _grounds())
    assert ledger.taken["two.1"].outcome is Outcome.REFUSED
    assert "another order works on this GPU" in ledger.taken["two.1"].why


@pytest.mark.parametrize("what", [EffectKind.UNDRAIN, EffectKind.RESTORE])
def test_a_mark_is_undone_also_where_another_card_came_in_the_place(what: EffectKind) -> None:
    order = replace(_order(1, what), uuid="GPU-taken-out")
    assert with_order(Ledger(), order, _grounds()).taken["one.1"].outcome is Outcome.ASKED
    drain = replace(_order(2), uuid="GPU-taken-out")
    assert with_order(Ledger(), drain, _grounds()).taken["one.2"].outcome is Outcome.REFUSED


def test_orders_of_one_case_wait_for_one_another() -> None:
    ledger = with_order(with_order(Ledger(), _order(1, EffectKind.EVIDENCE), _grounds()), _order(2), _grounds())
    assert [one.outcome for one in answers_of(ledger)] == [Outcome.ASKED, Outcome.ASKED]
    assert [effect.number for effect in ledger.cases[local_case(_order(1))].effects] == [1, 2]


def test_one_case_of_two_gpus_works_on_both_at_once() -> None:
    ledger = with_order(with_order(Ledger(), _order(1), _grounds()), _order(2, pci=GPU_B), _grounds())
    assert len(ledger.cases) == 2


def test_what_stands_in_the_way_of_a_reset_refuses_it_in_its_words() -> None:
    grounds = _grounds(obstacles={GPU_A: "MIG is on."})
    assert with_order(Ledger(), _order(1, EffectKind.RESET), grounds).taken["one.1"].why == "MIG is on."
    assert with_order(Ledger(), _order(1), grounds).taken["one.1"].outcome is Outcome.ASKED


def test_an_answer_is_kept_until_the_order_is_taken_away_and_one_under_way_longer() -> None:
    ledger = with_order(Ledger(), _order(1), _grounds())
    assert without_removed(ledger, [], now=2.0).taken
    ledger = with_outcome(ledger, local_case(_order(1)), 1, outcome=Outcome.DONE, at=2.0, why="")
    assert without_removed(ledger, ["one.1"], now=2.0) is ledger
    gone = without_removed(ledger, [], now=2.0)
    assert not gone.taken
    assert gone.knows("one.1")
    assert gone.cases[local_case(_order(1))].marks.drained, "who drained it must not be forgotten"


def test_a_new_boot_leaves_no_drain_and_nothing_under_way() -> None:
    ledger = with_order(Ledger(), _order(1), _grounds())
    ledger = with_outcome(ledger, local_case(_order(1)), 1, outcome=Outcome.DONE, at=2.0, why="")
    ledger = after_boot(with_order(ledger, _order(2, EffectKind.UNDRAIN), _grounds()), at=3.0)
    assert not any(case.marks or case.pending() for case in ledger.cases.values())
    assert [one.outcome for one in answers_of(ledger)] == [Outcome.DONE, Outcome.DONE]
    assert "no drain outlives a boot" in ledger.taken["one.2"].why


@pytest.mark.parametrize("what", ORDERED)
def test_what_was_under_way_at_a_boot_is_done_by_it_if_it_was_an_undo_and_else_has_failed(what: EffectKind) -> None:
    ledger = after_boot(with_order(Ledger(), _order(1, what), _grounds()), at=3.0)
    [answer] = answers_of(ledger)
    assert answer.outcome is (Outcome.DONE if what in UNDOES else Outcome.FAILED)
    assert not any(case.marks or case.pending() for case in ledger.cases.values())


@pytest.mark.parametrize("drill", [False, True])
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("what", ORDERED)
def test_an_order_of_an_earlier_boot_is_done_by_this_one_if_it_undoes_and_else_is_refused(
    what: EffectKind, mode: Mode, *, drill: bool
) -> None:
    grounds = _grounds(boot="later", mode=mode)
    ledger = with_order(Ledger(), _order(1, what, drill=drill), grounds)
    [answer] = answers_of(ledger)
    assert answer.outcome is (Outcome.DONE if what in UNDOES else Outcome.REFUSED)
    assert ledger.cases == {}, "nothing is done to the machine"
    assert with_order(ledger, replace(_order(1, what), boot="later"), grounds) is ledger


@pytest.mark.parametrize("what", UNDOES)
@pytest.mark.parametrize(("was", "now"), [("none", "b"), ("b", "none"), ("b", "")])
def test_where_the_boot_has_no_name_no_undo_is_taken_for_done(what: EffectKind, was: str, now: str) -> None:
    order = replace(_order(1, what), boot=was)
    assert with_order(Ledger(), order, _grounds(boot=now)).taken["one.1"].outcome is Outcome.REFUSED


@pytest.mark.parametrize("what", UNDOES)
def test_an_undo_is_done_by_the_boot_also_where_the_card_is_no_longer_there(what: EffectKind) -> None:
    grounds = _grounds(boot="later", gpus={})
    assert with_order(Ledger(), _order(1, what), grounds).taken["one.1"].outcome is Outcome.DONE


_orders = st.builds(
    _order,
    st.integers(1, 6),
    st.sampled_from(ORDERED),
    case=st.sampled_from(["one", "two"]),
    pci=st.sampled_from([GPU_A, GPU_B]),
    drill=st.booleans(),
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("order"), _orders),
        st.tuples(st.just("outcome"), st.sampled_from([Outcome.DONE, Outcome.REFUSED, Outcome.FAILED])),
        st.tuples(st.just("remove"), st.none()),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("boot"), st.none()),
        st.tuples(st.just("mode"), st.sampled_from(list(Mode))),
    ),
    max_size=40,
)


@given(steps=_steps)
def test_whatever_comes_in_whatever_order_an_id_is_asked_for_once_and_nothing_is_lost(
    steps: list[tuple[str, Any]],
) -> None:
    ledger, grounds, store = Ledger(), _grounds(), PretendStore()
    asked: list[str] = []
    for number, (step, value) in enumerate(steps):
        at = 1000.0 + number
        pending = [one for one in ledger.taken.values() if one.outcome is Outcome.ASKED]
        match step:
            case "order":
                before = set(ledger.taken)
                ledger = with_order(ledger, value, grounds)
                fresh = set(ledger.taken) - before
                asked += [one for one in fresh if ledger.taken[one].outcome is Outcome.ASKED]
            case "outcome" if pending:
                first = pending[0]
                ledger = with_outcome(ledger, first.case, first.number, outcome=value, at=at, why="so")
                assert ledger.taken[first.id].outcome is value
            case "remove":
                ledger = without_removed(ledger, [], now=at)
            case "restart":
                OrderBook(store).keep(ledger, "b", mode=grounds.mode, held="", more={})
                again = OrderBook(store)
                again.load("b", at=at)
                assert again.ledger == ledger
            case "boot":
                ledger = after_boot(ledger, at=at)
            case "mode":
                grounds = replace(grounds, mode=value)
        assert len(asked) == len(set(asked)), "an id was asked for twice"
        for one in ledger.taken.values():
            if one.number:
                effect = ledger.cases[one.case].effects[one.number - 1]
                assert (effect.outcome is Outcome.ASKED) is (one.outcome is Outcome.ASKED)
        busy = [case.gpu for case in ledger.cases.values() if case.drill is None and case.pending()]
        assert len(busy) == len(set(busy)), "two cases work on one GPU"
