"""Selectors of the pretend cluster: every line of the tables was tried on a real API server, version 1.36."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.model.resource import EVENTS, GPU_CASES, JOBS, LEASES, NAMESPACES, NODES, PODS, Resource
from gpuward.ports import Refused
from gpuward.sim.cluster import selectors
from gpuward.sim.cluster.selection import select

WITH, WITHOUT = {"a": ""}, {"b": "x"}


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("a", True, False),
        ("!a", False, True),
        ("! a", False, True),
        ("a=", True, False),
        ("a==", True, False),
        ("a!=", False, True),
        ("a in ()", True, False),
        ("a in (,)", True, False),
        ("a in (x,)", True, False),
        ("a in(x)", False, False),
        ("a notin (x,y)", True, True),
        ("a>1", False, False),
        ("a = b", False, False),
        ("a\t=\nb", False, False),
        ("  ", True, True),
        ("in=x", False, False),
        ("notin in (in,notin)", False, False),
        ("a!=b,!c", True, True),
        ("b", False, True),
        ("a/b=c", False, False),
    ],
)
def test_a_label_selector_chooses_what_the_real_server_chooses(text: str, has: bool, lacks: bool) -> None:  # noqa: FBT001  a table
    chosen = selectors.labels(text)
    assert (chosen(WITH), chosen(WITHOUT)) == (has, lacks)


@pytest.mark.parametrize(
    "text",
    [
        *("a in (x", "a in x", "a=b,", "a=b,,c=d", ",a", "a<x", "a>=1", "a b", "a=b c", "A/b/c", "a=b!", "a=-b"),
        *("/b=c", "a/=c", "!a=b", "a=!b", "a,(b)", "a===b", "a=b=c", "!", "a in", "a in (b))", "-a", "a,!=b"),
        "a" * 64,
    ],
)
def test_a_label_selector_that_the_real_server_refuses_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        select(NODES, None, text, "")


KEY = st.sampled_from(["a", "b.c/d", "in"])
VALUE = st.sampled_from(["", "x", "in", "9"])
LABELS = st.dictionaries(KEY, VALUE)


@st.composite
def requirements(draw: st.DrawFn) -> tuple[str, Any]:
    """Return one requirement as text, and what it means."""
    key, values = draw(KEY), draw(st.lists(VALUE, min_size=1, max_size=3))
    blank = draw(st.sampled_from(["", " ", "\t "]))
    listed = "(" + f",{blank}".join(values) + ")"
    chosen: tuple[str, Any] = draw(
        st.sampled_from(
            [
                (key, lambda found: key in found),
                (f"!{blank}{key}", lambda found: key not in found),
                (f"{key}{blank}={blank}{values[0]}", lambda found: found.get(key) == values[0]),
                (f"{key}=={values[0]}", lambda found: found.get(key) == values[0]),
                (f"{key}!={blank}{values[0]}", lambda found: found.get(key) != values[0]),
                (f"{key} in{blank}{listed}", lambda found: found.get(key) in values),
                (f"{key} notin {listed}", lambda found: found.get(key) not in values),
            ]
        )
    )
    return chosen


@given(st.lists(requirements(), max_size=4), LABELS)
def test_a_label_selector_is_all_its_requirements(rules: list[tuple[str, Any]], found: dict[str, str]) -> None:
    chosen = selectors.labels(",".join(text for text, _ in rules))
    assert chosen(found) is all(means(found) for _, means in rules)


@given(st.text(alphabet="ab=!(), in\\<>/.-", max_size=12), LABELS)
def test_any_text_is_a_label_selector_or_unreadable(text: str, found: dict[str, str]) -> None:
    try:
        assert selectors.labels(text)(found) in (True, False)
    except selectors.Unreadable as error:
        assert str(error)  # noqa: PT017  either is right


@given(st.text(alphabet="ab.=!,\\", max_size=12))
def test_any_text_is_a_field_selector_or_unreadable(text: str) -> None:
    try:
        assert all(term.path in text for term in selectors.field_terms(text))
    except selectors.Unreadable as error:
        assert str(error)  # noqa: PT017  either is right


@given(st.text(max_size=8))
def test_any_value_can_be_asked_for_when_it_is_escaped(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    assert selectors.field_terms(f"metadata.name={escaped}") == (
        selectors.FieldTerm("metadata.name", value, equal=True),
    )


POD = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
FREE = {"metadata": {"name": "q", "namespace": "n"}, "spec": {}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("metadata.name=p", (True, False)),
        ("metadata.namespace=n", (True, True)),
        ("spec.nodeName=n1", (True, False)),
        ("spec.nodeName==n1", (True, False)),
        ("spec.nodeName!=", (True, False)),
        ("spec.nodeName=", (False, True)),
        ("status.phase!=Running", (False, True)),
        ("spec.hostNetwork=false", (True, True)),
        ("status.podIP=", (True, True)),
        ("spec.nodeName=n1,,status.phase!=Failed", (True, False)),
        ("metadata.name=p,", (True, False)),
        ("metadata.name=a\\,b", (False, False)),
        ("", (True, True)),
    ],
)
def test_a_field_selector_chooses_what_the_real_server_chooses(fields: str, expected: tuple[bool, bool]) -> None:
    chosen = select(PODS, None, "", fields)
    assert (chosen.has(POD), chosen.has(FREE)) == expected


@pytest.mark.parametrize(
    ("resource", "fields"),
    [
        (PODS, "spec.foo=1"),
        (PODS, "spec.priority=1"),
        (PODS, "metadata.name"),
        (PODS, "metadata.name>1"),
        (PODS, "metadata.name in (a)"),
        (PODS, "=a"),
        (PODS, "spec.nodeName = n1"),
        (PODS, "metadata.labels=x"),
        (PODS, "metadata.name=a=b"),
        (NODES, "metadata.namespace=x"),
        (NODES, "status.phase="),
        (NAMESPACES, "name=default"),
        (LEASES, "spec.holderIdentity=x"),
        (EVENTS, "involvedObject.kind=Node"),
        (EVENTS, "note=x"),
        (JOBS, "status.phase=x"),
        (GPU_CASES, "metadata.namespace=x"),
        (GPU_CASES, "spec.gpu=1"),
    ],
)
def test_a_field_that_a_kind_cannot_be_asked_by_is_refused(resource: Resource, fields: str) -> None:
    with pytest.raises(Refused):
        select(resource, None, "", fields)


@pytest.mark.parametrize(
    ("resource", "fields"),
    [
        (NODES, "spec.unschedulable=false"),
        (NAMESPACES, "status.phase=Active"),
        (LEASES, "metadata.namespace=x"),
        (EVENTS, "regarding.kind=Node,reason=x,type=Normal,reportingController=x"),
        (JOBS, "status.successful=1"),
        (GPU_CASES, "metadata.name=x"),
    ],
)
def test_a_field_that_a_kind_can_be_asked_by_is_taken(resource: Resource, fields: str) -> None:
    assert select(resource, None, "", fields).has(None) is False


def test_a_selector_of_an_object_may_be_empty_or_absent_and_that_is_not_the_same() -> None:
    assert selectors.of_object({})({}) is True
    assert selectors.of_object(None)({"a": "b"}) is False


def test_the_expressions_of_an_object_mean_what_their_operators_say() -> None:
    def chosen(operator: str, *values: str) -> list[bool]:
        rule = selectors.of_object({"matchExpressions": [{"key": "a", "operator": operator, "values": [*values]}]})
        return [rule(found) for found in ({"a": "x"}, {"a": "y"}, {})]

    assert chosen("In", "x") == [True, False, False]
    assert chosen("NotIn", "x") == [False, True, True]
    assert chosen("Exists") == [True, True, False]
    assert chosen("DoesNotExist") == [False, False, True]
    with pytest.raises(selectors.Unreadable):
        chosen("Like", "x")
