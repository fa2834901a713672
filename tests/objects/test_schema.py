"""The schemas that are made from the model: nothing in them is without a limit, and every word is the model's."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from gpuward.cli.manifests.definitions import definition
from gpuward.model.case import CaseState, Order
from gpuward.model.objects.kinds import KINDS, ObjectKind, object_schema
from gpuward.model.objects.limits import Items
from gpuward.model.objects.schema import schema_of
from gpuward.model.objects.shapes import shape_of
from gpuward.model.resource import OURS

by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
_HEAD = frozenset({"apiVersion", "kind", "metadata"})


def nodes_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema within a schema, but those that the API server checks by itself."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        if path or name not in _HEAD:
            yield from nodes_of(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes_of(schema["items"], f"{path}[]")


def test_every_kind_of_ours_has_a_schema() -> None:
    assert tuple(kind.resource for kind in KINDS) == OURS


@by_kind
def test_nothing_is_without_a_limit(kind: ObjectKind) -> None:
    for path, schema in nodes_of(object_schema(kind)):
        match schema["type"]:
            case "string":
                assert "enum" in schema or schema["maxLength"] > 0, path
            case "array":
                assert schema["maxItems"] > 0, path
                assert "x-kubernetes-list-type" in schema, path
            case "integer":
                assert {"minimum", "maximum"} <= schema.keys(), path
            case "object":
                assert schema["properties"], path
                assert schema["description"], path
            case other:
                assert other in {"boolean", "number"}, path


@by_kind
def test_every_field_of_ours_says_what_it_is(kind: ObjectKind) -> None:
    for part in (kind.spec, kind.status):
        for member in shape_of(part).members:
            assert member.says, f"{part.__name__}.{member.name}"


@by_kind
def test_an_object_of_the_largest_size_fits_the_store(kind: ObjectKind) -> None:
    assert largest(object_schema(kind)) < 1_500_000, "etcd takes 1.5 MiB"


def largest(schema: dict[str, Any]) -> int:
    """Return roughly how long the JSON of an object may be, with one byte a character."""
    match schema["type"]:
        case "string":
            return 2 + int(schema.get("maxLength", 32))
        case "array":
            return int(schema["maxItems"]) * (1 + largest(schema["items"]))
        case "object":
            inner = {name: one for name, one in schema.get("properties", {}).items() if name not in _HEAD}
            return 2 + sum(len(name) + 4 + largest(one) for name, one in inner.items())
        case _:
            return 20


def test_words_are_those_of_the_model() -> None:
    cases = object_schema(KINDS[2])["properties"]
    assert cases["status"]["properties"]["state"]["enum"] == [str(state) for state in CaseState]
    order = cases["spec"]["properties"]["orders"]["items"]["properties"]["what"]
    assert order["enum"] == [str(order) for order in Order]
    assert cases["spec"]["properties"]["level"]["enum"] == ["ignore", "P2", "P1", "P0"]


def test_a_status_of_one_writer_is_one_value_and_a_faults_has_two() -> None:
    atomic = {
        kind.resource.kind: object_schema(kind)["properties"]["status"].get("x-kubernetes-map-type") for kind in KINDS
    }
    assert atomic == {"GPUNode": "atomic", "GPUFault": None, "GPUCase": "atomic", "StandbyPool": "atomic"}


@by_kind
def test_every_column_shows_a_field_that_is_there(kind: ObjectKind) -> None:
    there = {path for path, _ in nodes_of(object_schema(kind))}
    paths = [column.path for column in kind.columns] + list(kind.searched)
    assert {path for path in paths if not path.startswith(".metadata")} <= there
    (version,) = definition(kind)["spec"]["versions"]
    assert [one["jsonPath"] for one in version["additionalPrinterColumns"]] == [one.path for one in kind.columns]


@dataclass(frozen=True, slots=True)
class _Plain:
    """Has fields of every plain type, none with a limit of its own."""

    word: str
    number: int
    share: float
    sure: bool
    words: tuple[str, ...]


def test_a_field_without_a_limit_of_its_own_has_one_all_the_same() -> None:
    schema = schema_of(shape_of(_Plain))["properties"]
    assert schema["word"]["maxLength"] == 1024
    assert schema["words"]["maxItems"] == 64
    assert schema["words"]["items"]["maxLength"] == 1024
    assert schema["number"]["maximum"] == 2**53
    assert (schema["share"], schema["sure"]) == ({"type": "number"}, {"type": "boolean"})


@dataclass(frozen=True, slots=True)
class _Set:
    """Has what JSON has not."""

    seen: set[str]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Has a list of two types."""

    pair: Annotated[tuple[str, int], Items(2)]


@dataclass(frozen=True, slots=True)
class _Either:
    """Has a field of two types."""

    either: str | int | None


@pytest.mark.parametrize("record", [_Set, _Pair, _Either])
def test_what_no_object_can_hold_is_refused_by_its_name(record: type) -> None:
    with pytest.raises(TypeError, match=rf"{record.__name__}\.(seen|pair|either)"):
        shape_of(record)
