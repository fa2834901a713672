"""Our labels on a node: set with a note, put back whole, and nobody else's change is undone."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.labelling import label_operations
from gpuward.model.objects.owned import GPUS, OWNED, PAUSED, Label, Owned, read_owned, write_owned
from gpuward.model.objects.values import ObjectError
from gpuward.sim.cluster.frozen import freeze, thaw
from gpuward.sim.cluster.jsonpatch import apply

DCGM = "nvidia.com/gpu.deploy.dcgm"


def a_node(labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "gpu-1", "resourceVersion": "7"}
    metadata |= {} if labels is None else {"labels": dict(labels)}
    metadata |= {} if annotations is None else {"annotations": dict(annotations)}
    return {"metadata": metadata, "spec": {}}


def after(node: Mapping[str, Any], put: Mapping[str, str], back: tuple[str, ...] = ()) -> Any:
    """Return the node with the patch, or as it was where there is none."""
    operations = label_operations(node, put, back)
    return thaw(apply(freeze(node), operations)) if operations else node


@pytest.mark.parametrize("labels", [None, {}, {"theirs": "1"}, {DCGM: "true", "theirs": "1"}])
@pytest.mark.parametrize("annotations", [None, {"theirs": "1"}])
def test_what_is_set_and_put_back_leaves_the_node_as_it_was(labels: Any, annotations: Any) -> None:
    node = a_node(labels, annotations)
    marked = after(node, {DCGM: PAUSED})
    assert marked["metadata"]["labels"] == {**(labels or {}), DCGM: PAUSED}
    assert read_owned(marked).labels == {DCGM: Label(PAUSED, (labels or {}).get(DCGM))}
    back = after(marked, {}, (DCGM,))
    assert back["metadata"].get("labels", {}) == (labels or {})
    assert back["metadata"].get("annotations", {}) == (annotations or {})


def test_a_label_that_says_so_already_is_not_ours() -> None:
    assert label_operations(a_node({GPUS: "present"}), {GPUS: "present"}) == ()


def test_what_somebody_has_set_since_stays_and_is_ours_no_more() -> None:
    marked = after(a_node({DCGM: "true"}), {DCGM: PAUSED})
    marked["metadata"]["labels"][DCGM] = "false"
    assert label_operations(marked, {DCGM: PAUSED}) == (), "it is not set again"
    back = after(marked, {}, (DCGM,))
    assert back["metadata"]["labels"] == {DCGM: "false"}
    assert OWNED not in back["metadata"].get("annotations", {})


def test_a_pause_that_others_wrote_around_ours_is_waited_for() -> None:
    marked = after(a_node({DCGM: "true"}), {DCGM: PAUSED})
    marked["metadata"]["labels"][DCGM] = f"{PAUSED}_paused-for-driver-upgrade"
    assert label_operations(marked, {}, (DCGM,)) == ()
    marked["metadata"]["labels"][DCGM] = PAUSED
    assert after(marked, {}, (DCGM,))["metadata"]["labels"] == {DCGM: "true"}


def test_one_label_is_put_back_and_the_other_stays() -> None:
    marked = after(a_node({DCGM: "true"}), {DCGM: PAUSED, GPUS: "present"})
    back = after(marked, {}, (DCGM,))
    assert back["metadata"]["labels"] == {DCGM: "true", GPUS: "present"}
    assert read_owned(back).labels == {GPUS: Label("present", None)}


def test_with_a_note_that_nobody_can_read_nothing_is_changed() -> None:
    with pytest.raises(ObjectError):
        label_operations(a_node({}, {OWNED: "broken"}), {DCGM: PAUSED})


KEYS = st.sampled_from([DCGM, GPUS, "theirs"])


@given(
    labels=st.dictionaries(KEYS, st.sampled_from(["true", PAUSED, "x"])),
    noted=st.dictionaries(KEYS, st.tuples(st.sampled_from([PAUSED, "present"]), st.sampled_from([None, "true"]))),
    back=st.lists(KEYS, unique=True),
)
def test_every_patch_can_be_done_and_once_is_enough(
    labels: dict[str, str], noted: dict[str, tuple[str, str | None]], back: list[str]
) -> None:
    note = write_owned(Owned(labels={key: Label(*pair) for key, pair in noted.items()}))
    node = a_node(labels, {OWNED: note})
    put = {key: PAUSED for key in (DCGM, GPUS) if key not in back}
    once = after(node, put, tuple(back))
    assert after(once, put, tuple(back)) == once
    theirs = labels.keys() - put.keys() - set(back)
    assert {key: once["metadata"]["labels"].get(key) for key in theirs} == {key: labels[key] for key in theirs}
