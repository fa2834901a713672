"""The note on a node of which marks are ours, and what follows from it when they are taken off."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.cli.unmarking import is_marked, strangers, uncondition, unmark, unnotice
from gpuward.model.objects.owned import (
    CONDITION,
    FAULT_TAINT,
    NOTICE,
    OWNED,
    STANDBY,
    Label,
    Owned,
    Taint,
    read_owned,
    write_owned,
)
from gpuward.model.objects.values import ObjectError

TEXT = st.text(max_size=12)
TAINTS = st.builds(Taint, key=st.text(min_size=1, max_size=8), effect=st.sampled_from(["NoSchedule", "NoExecute"]))
NOTES = st.builds(
    Owned,
    taints=st.frozensets(TAINTS, max_size=3),
    labels=st.dictionaries(TEXT, st.builds(Label, value=TEXT, former=st.none() | TEXT), max_size=3),
    annotations=st.frozensets(TEXT, max_size=3),
)
FAULTY = Taint(FAULT_TAINT, "NoSchedule")


def node(owned: Owned | str | None = None, *, taints: Any = (), **metadata: Any) -> dict[str, Any]:
    note = owned if isinstance(owned, str) or owned is None else write_owned(owned)
    annotations = {"other": "yes"} | ({} if note is None else {OWNED: note})
    return {"metadata": {"name": "gpu-1", "annotations": annotations, **metadata}, "spec": {"taints": list(taints)}}


@given(NOTES)
def test_a_note_comes_back_as_it_was(owned: Owned) -> None:
    assert read_owned(node(owned)) == owned
    assert write_owned(read_owned(node(owned))) == write_owned(owned)


@pytest.mark.parametrize(
    "note",
    [
        *("", "[]", "7", "{", "[" * 100_000),
        *('{"taints":["nocolon"]}', '{"taints":7}', '{"annotations":[7]}'),
        *('{"labels":{"a":"b"}}', '{"labels":{"a":["b"]}}', '{"labels":{"a":[null,null]}}'),
    ],
)
def test_a_note_that_somebody_broke_is_told_and_nothing_is_taken_for_ours(note: str) -> None:
    with pytest.raises(ObjectError, match="broken"):
        read_owned(node(note))


def test_a_node_without_a_note_has_nothing_of_ours() -> None:
    assert not read_owned({})
    assert not read_owned(node())
    assert not is_marked(node())


def test_taints_of_others_stay_and_ours_go_from_the_end() -> None:
    taints = [
        {"key": FAULT_TAINT, "value": "xid-79", "effect": "NoSchedule"},
        {"key": "theirs", "effect": "NoSchedule"},
        {"key": FAULT_TAINT, "effect": "NoExecute"},
        {"key": STANDBY, "effect": "NoSchedule"},
    ]
    owned = Owned(taints=frozenset({FAULTY, Taint(STANDBY, "NoSchedule")}))
    operations = unmark(node(owned, taints=taints), owned)
    assert operations[:4] == [
        {"op": "test", "path": "/spec/taints/3", "value": taints[3]},
        {"op": "remove", "path": "/spec/taints/3"},
        {"op": "test", "path": "/spec/taints/0", "value": taints[0]},
        {"op": "remove", "path": "/spec/taints/0"},
    ]
    assert strangers(node(owned, taints=taints), owned) == [Taint(FAULT_TAINT, "NoExecute")]


def test_a_label_is_put_back_unless_somebody_set_it_since() -> None:
    owned = Owned(
        labels={
            "nvidia.com/gpu.deploy.dcgm": Label(value="paused", former="true"),
            "gpuward.io/gpus": Label(value="present", former=None),
            "theirs": Label(value="ours", former=None),
        }
    )
    labels = {"nvidia.com/gpu.deploy.dcgm": "paused", "gpuward.io/gpus": "present", "theirs": "theirs"}
    operations = unmark(node(owned, labels=labels), owned)
    assert operations[:4] == [
        {"op": "test", "path": "/metadata/labels/nvidia.com~1gpu.deploy.dcgm", "value": "paused"},
        {"op": "replace", "path": "/metadata/labels/nvidia.com~1gpu.deploy.dcgm", "value": "true"},
        {"op": "test", "path": "/metadata/labels/gpuward.io~1gpus", "value": "present"},
        {"op": "remove", "path": "/metadata/labels/gpuward.io~1gpus"},
    ]
    assert [one["path"] for one in operations[4:]] == ["/metadata/annotations/gpuward.io~1owned"] * 2


def test_of_conditions_and_notices_only_ours_are_taken() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": CONDITION, "status": "True"}]
    assert [*uncondition({"status": {"conditions": conditions}})] == [
        {"op": "test", "path": "/status/conditions/1/type", "value": CONDITION},
        {"op": "remove", "path": "/status/conditions/1"},
    ]
    assert [*uncondition({"status": {"conditions": conditions[:1]}})] == []
    pod = {"metadata": {"annotations": {NOTICE: "{}", "theirs": "x"}}}
    assert unnotice(pod)[-1] == {"op": "remove", "path": "/metadata/annotations/gpuward.io~1notice"}
    assert unnotice({"metadata": {}}) == []
