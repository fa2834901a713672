"""Which budgets cover a pod, as policy/v1 has it; held against the pretend server's own answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.controller.budgets import covering
from gpuward.sim.cluster.eviction import covers

KEYS = st.sampled_from(["app", "tier"])
VALUES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=2)
TERMS = st.one_of(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(TERMS, max_size=2)})


def budget(name: str, selector: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": selector}}


@given(selector=SELECTORS, labels=LABELS)
def test_it_covers_what_the_server_says_it_covers(selector: dict[str, Any], labels: dict[str, str]) -> None:
    one = budget("b", selector)
    assert bool(covering([one], labels)) is covers(one, {"metadata": {"labels": labels}})


@pytest.mark.parametrize(("selector", "names"), [({}, ("b",)), (None, ()), ("odd", ())])
def test_an_empty_selector_covers_all_and_an_absent_one_none(selector: Any, names: tuple[str, ...]) -> None:
    assert covering([budget("b", selector)], {"app": "a"}) == names


def test_an_operator_that_nobody_knows_covers_nothing() -> None:
    term = {"key": "app", "operator": "Resembles", "values": ["a"]}
    assert covering([budget("b", {"matchExpressions": [term]})], {"app": "a"}) == ()


def test_all_that_cover_it_are_named_in_order() -> None:
    fits = {"matchLabels": {"app": "a"}}
    budgets = [budget("two", fits), budget("other", {"matchLabels": {"app": "b"}}), budget("one", {})]
    assert covering(budgets, {"app": "a"}) == ("one", "two")
