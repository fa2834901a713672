"""The taint of a node: the worst of its open cases, ours alone, and no other taint is ever touched."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.tainting import OURS, is_tainted, taint_operations, value_of
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode, Outcome
from gpuward.model.level import Level
from gpuward.model.objects.owned import OWNED, Owned, Taint, read_owned, write_owned
from gpuward.model.objects.values import ObjectError
from gpuward.sim.cluster.frozen import freeze, thaw
from gpuward.sim.cluster.jsonpatch import apply
from tests.kit.lives import a_case

AT = 1_790_000_000.0
FOREIGN = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
THEIRS = {"key": OURS.key, "effect": OURS.effect, "value": "by-hand"}


def a_node(*taints: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    node: dict[str, Any] = {"metadata": {"name": "gpu-1", "resourceVersion": "7"}, "spec": {}}
    if taints:
        node["spec"]["taints"] = list(taints)
    if annotations is not None:
        node["metadata"]["annotations"] = annotations
    return node


def changed(node: dict[str, Any], value: str | None) -> dict[str, Any]:
    after = thaw(apply(freeze(node), taint_operations(node, value, at=AT)))
    assert isinstance(after, dict)
    return after


def tainting(level: Level = Level.P0, **changes: Any) -> Case:
    effects = (Effect(1, EffectKind.TAINT, 0.0, Outcome.DONE),)
    return a_case(level=level, state=CaseState.FENCED, effects=effects, **changes)


@pytest.mark.parametrize(
    "node", [a_node(), a_node(FOREIGN), a_node(annotations={}), a_node(FOREIGN, annotations={"a/b": "c"})]
)
def test_a_node_is_tainted_with_the_time_and_untainted_again_to_what_it_was(node: dict[str, Any]) -> None:
    tainted = changed(node, "xid-79")
    (ours,) = [one for one in tainted["spec"]["taints"] if one["key"] == OURS.key]
    assert ours == {
        "key": "gpu.infra.status/hardware-fault",
        "value": "xid-79",
        "effect": "NoSchedule",
        "timeAdded": "2026-09-21T14:13:20Z",
    }
    assert read_owned(tainted).taints == {OURS}
    assert is_tainted(tainted)
    back = changed(tainted, None)
    assert back["spec"].get("taints", []) == node["spec"].get("taints", [])
    assert OWNED not in back["metadata"].get("annotations", {})
    assert not is_tainted(back)


def test_what_is_so_already_is_not_patched() -> None:
    tainted = changed(a_node(FOREIGN), "xid-79")
    assert taint_operations(tainted, "xid-79", at=AT + 5) == ()
    assert taint_operations(a_node(FOREIGN), None, at=AT) == ()


def test_a_worse_case_changes_the_value_and_nothing_else() -> None:
    tainted = changed(a_node(FOREIGN), "xid-31")
    worse = changed(tainted, "xid-79")
    assert worse["spec"]["taints"] == [FOREIGN, {**tainted["spec"]["taints"][1], "value": "xid-79"}]


def test_a_taint_of_our_key_that_somebody_else_put_there_is_left_alone() -> None:
    node = a_node(THEIRS)
    assert taint_operations(node, "xid-79", at=AT) == ()
    assert taint_operations(node, None, at=AT) == ()


def test_a_taint_that_a_person_took_away_leaves_only_our_note_to_clear() -> None:
    tainted = changed(a_node(FOREIGN), "xid-79")
    tainted["spec"] = {"taints": [FOREIGN]}
    assert changed(tainted, None) == a_node(FOREIGN, annotations={})


def test_other_notes_of_ours_stay() -> None:
    other = Taint("gpuward.io/standby", "NoSchedule")
    node = a_node(annotations={OWNED: write_owned(Owned(taints=frozenset({other})))})
    assert read_owned(changed(node, "ecc")).taints == {OURS, other}
    assert read_owned(changed(changed(node, "ecc"), None)).taints == {other}


def test_every_change_is_tied_to_the_version_that_was_read() -> None:
    operations = taint_operations(a_node(), "xid-79", at=AT)
    assert operations[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}


def test_a_broken_note_is_told_and_nothing_is_taken_for_ours() -> None:
    with pytest.raises(ObjectError, match="broken"):
        taint_operations(a_node(THEIRS, annotations={OWNED: "{"}), None, at=AT)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"key": st.sampled_from(["a", "b/c", OURS.key]), "effect": st.sampled_from(["NoSchedule", "NoExecute"])}
        ),
        unique_by=lambda taint: (taint["key"], taint["effect"]),
        max_size=4,
    ),
    st.lists(st.sampled_from([None, "xid-79", "xid-31", "ecc"]), max_size=6),
)
def test_whatever_is_asked_for_the_taints_of_others_stand_as_they_were(
    taints: list[dict[str, Any]], values: list[str | None]
) -> None:
    node = a_node(*taints)
    foreign = list(taints)
    for value in values:
        node = changed(node, value)
        now = node["spec"].get("taints", [])
        assert [one for one in now if "timeAdded" not in one] == foreign
        keys = [(one["key"], one["effect"]) for one in now]
        assert len(keys) == len(set(keys))
        theirs = (OURS.key, OURS.effect) in [(one["key"], one["effect"]) for one in foreign]
        assert [one["value"] for one in now if "timeAdded" in one] == ([] if theirs or value is None else [value])


KINDS = {"ecc_uncorrectable": "ecc", "nvlink_down": "nvlink"}


@pytest.mark.parametrize(
    ("cases", "value"),
    [
        ([], None),
        ([tainting(code=79)], "xid-79"),
        ([tainting(Level.P1, code=31), tainting(code=48, opened_at=9.0)], "xid-48"),
        ([tainting(code=48, opened_at=9.0), tainting(code=79, opened_at=3.0)], "xid-79"),
        ([tainting(kind="sxid", code=12028)], "sxid-12028"),
        ([tainting(kind="ecc_uncorrectable", code=None)], "ecc"),
        ([tainting(kind="node_lost", code=None)], "node-lost"),
        ([tainting(kind="xid_unknown", code=999)], "xid-999"),
        ([tainting(code=79, drill=Mode.REPAIR)], None),
        ([a_case(code=79, state=CaseState.SUSPECT)], None),
    ],
)
def test_the_value_is_that_of_the_worst_open_case_of_these_the_oldest(cases: list[Case], value: str | None) -> None:
    assert value_of(cases, KINDS) == value


def test_a_case_that_has_ended_taints_no_more() -> None:
    effects = (Effect(1, EffectKind.TAINT, 0.0, Outcome.DONE),)
    assert value_of([a_case(state=CaseState.CLOSED, effects=effects)], KINDS) is None
    gone = (*effects, Effect(2, EffectKind.UNTAINT, 1.0, Outcome.DONE))
    assert value_of([a_case(state=CaseState.PROBATION, effects=gone)], KINDS) is None
