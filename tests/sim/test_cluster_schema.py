"""Schemas of our kinds on the pretend cluster; each answer was tried on version 1.36."""

from typing import Any

import pytest

from gpuward.model.resource import GPU_CASES
from gpuward.ports import Conflict, Object, Refused
from gpuward.sim.cluster.server import Server

ITEM = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
SPEC = {
    "type": "object",
    "properties": {
        "gpu": {"type": "integer", "minimum": 0, "maximum": 15},
        "share": {"type": "number"},
        "mode": {"type": "string", "enum": ["isolate", "repair"]},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "on": {"type": "boolean"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        "words": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "maybe": {"type": "string", "nullable": True},
        "usual": {"type": "string", "default": "this"},
        "either": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "plan": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        | {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a plan stays"}]},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": SPEC,
        "status": {"type": "object", "properties": {"state": {"type": "string"}}},
    },
}


def server() -> Server:
    return Server(now=lambda: 0.0, schemas={"gpucases": SCHEMA})


def make(world: Server, **spec: Any) -> Object:
    return world.create(GPU_CASES, {"metadata": {"name": "c"}, "spec": spec})


def add(world: Server, path: str, value: Any, subresource: str = "") -> Object:
    return world.patch(GPU_CASES, "c", [{"op": "add", "path": path, "value": value}], subresource=subresource)


def test_what_the_schema_does_not_know_is_dropped_and_a_default_is_put() -> None:
    made = server().create(
        GPU_CASES, {"metadata": {"name": "c"}, "extra": 1, "spec": {"gpu": 5, "zz": 1, "free": {"q": None}}}
    )
    assert made["spec"] == {"gpu": 5, "free": {"q": None}, "usual": "this"}
    assert "extra" not in made


def test_a_null_is_kept_only_where_it_may_be() -> None:
    assert make(server(), maybe=None, mode=None, usual=None)["spec"] == {"maybe": None, "usual": "this"}


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert repr(make(server(), gpu=1.0)["spec"]["gpu"]) == "1"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"gpu": 16}, "spec.gpu"),
        ({"gpu": -1}, "spec.gpu"),
        ({"gpu": 1.5}, "spec.gpu"),
        ({"gpu": True}, "spec.gpu"),
        ({"gpu": "1"}, "spec.gpu"),
        ({"share": "1"}, "spec.share"),
        ({"mode": "c"}, "spec.mode"),
        ({"name": "a"}, "spec.name"),
        ({"name": "abcde"}, "spec.name"),
        ({"name": "A1"}, "spec.name"),
        ({"name": "ab\n"}, "spec.name"),
        ({"on": 1}, "spec.on"),
        ({"counts": {"a": "b"}}, "spec.counts.a"),
        ({"counts": {"a": 1, "b": 2, "c": 3}}, "spec.counts"),
        ({"counts": []}, "spec.counts"),
        ({"items": []}, "spec.items"),
        ({"items": [{"k": str(place)} for place in range(4)]}, "spec.items"),
        ({"items": [{}]}, r"spec.items\[0\].k"),
        ({"items": [{"k": "a"}, {"k": "a"}]}, r"spec.items\[1\]: Duplicate"),
        ({"items": [{"k": "a", "v": "x"}]}, r"spec.items\[0\].v"),
        ({"words": ["a", "a"]}, "Duplicate"),
        ({"either": 1.5}, "spec.either"),
        ({"either": True}, "spec.either"),
        ({"free": "x"}, "spec.free"),
    ],
)
def test_what_the_schema_forbids_is_refused_by_its_path_and_not_kept(spec: dict[str, Any], said: str) -> None:
    world = server()
    with pytest.raises(Refused, match=said):
        make(world, **spec)
    made = make(world, plan={})
    with pytest.raises((Refused, Conflict), match=said):
        add(world, "/spec", {**spec, "plan": {}})
    assert world.get(GPU_CASES, "c") == made


@pytest.mark.parametrize(
    "spec",
    [
        {"share": 1},
        {"share": 1.5},
        {"either": "10%"},
        {"either": 3},
        {"name": "ab", "on": False, "mode": "repair"},
        {"items": [{"k": "a", "v": 1}, {"k": "b"}], "words": ["a", "b"], "counts": {"x": 1}},
    ],
)
def test_what_the_schema_allows_is_kept_as_it_is(spec: dict[str, Any]) -> None:
    assert make(server(), **spec)["spec"] == {**spec, "usual": "this"}


def test_a_status_has_its_schema_too() -> None:
    world = server()
    make(world)
    with pytest.raises(Refused, match=r"status\.state"):
        add(world, "/status", {"state": 3}, "status")
    assert add(world, "/status", {"state": "s", "zz": 3}, "status")["status"] == {"state": "s"}


def test_a_value_that_stays_cannot_be_changed_but_taken_away_and_put_anew_unless_it_is_required() -> None:
    world = server()
    make(world, plan={"a": 1})
    with pytest.raises(Refused, match="a plan stays"):
        add(world, "/spec/plan/a", 2)
    assert add(world, "/spec/gpu", 3)["spec"]["plan"] == {"a": 1}
    world.patch(GPU_CASES, "c", [{"op": "remove", "path": "/spec/plan"}])
    assert add(world, "/spec/plan", {"a": 2})["spec"]["plan"] == {"a": 2}
    with pytest.raises(Refused, match="spec: Required"):
        world.patch(GPU_CASES, "c", [{"op": "remove", "path": "/spec"}])
