"""JSON patches of the pretend cluster: whole or not at all, as the RFC has them and as the real server takes them."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.sim.cluster.frozen import freeze, thaw
from gpuward.sim.cluster.jsonpatch import PatchFailed, apply, same

DOCUMENT: dict[str, Any] = {"a": {"b": [1, 2, 3], "c/d": 1, "e~f": 2}, "g": None, "h": [{"i": 1}, {"i": 2}]}


def patched(document: Any, *operations: dict[str, Any]) -> Any:
    """Return the document after the operations, thawed; None when they do not apply."""
    frozen = freeze(document)
    before, asked = json.dumps(frozen), copy.deepcopy(operations)
    try:
        return thaw(freeze(apply(frozen, operations)))
    except PatchFailed:
        return None
    finally:
        assert json.dumps(frozen) == before, "what was there is as it was"
        assert list(operations) == list(asked), "what was asked is as it was"


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ({"op": "add", "value": 9}, "/a/b/0", [9, 1, 2, 3]),
        ({"op": "add", "value": 9}, "/a/b/3", [1, 2, 3, 9]),
        ({"op": "add", "value": 9}, "/a/b/-", [1, 2, 3, 9]),
        ({"op": "add", "value": 9}, "/a/b/-1", [1, 2, 3, 9]),
        ({"op": "replace", "value": 9}, "/a/b/2", [1, 2, 9]),
        ({"op": "replace", "value": 9}, "/a/b/-1", [1, 2, 9]),
        ({"op": "remove"}, "/a/b/1", [1, 3]),
        ({"op": "move", "from": "/a/b/0"}, "/a/b/2", [2, 3, 1]),
        ({"op": "copy", "from": "/a/b/0"}, "/a/b/-", [1, 2, 3, 1]),
    ],
)
def test_an_operation_on_a_list_does_what_the_rfc_says(
    operation: dict[str, Any], path: str, expected: list[int]
) -> None:
    assert patched(DOCUMENT, {**operation, "path": path})["a"]["b"] == expected


def test_a_pointer_names_keys_with_slashes_and_tildes() -> None:
    done = patched(
        DOCUMENT,
        {"op": "replace", "path": "/a/c~1d", "value": 7},
        {"op": "replace", "path": "/a/e~0f", "value": 8},
        {"op": "add", "path": "/a/~01", "value": 9},
    )
    assert done["a"] == {"b": [1, 2, 3], "c/d": 7, "e~f": 8, "~1": 9}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/b/4", "value": 1},
        {"op": "add", "path": "/a/b/x", "value": 1},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/a/c~1d/x", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "value": 1},
        {"op": "remove", "path": "/nope"},
        {"op": "remove", "path": "/a/b/3"},
        {"op": "remove", "path": "/a/b/-"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/a/b/3", "value": 1},
        {"op": "replace", "path": "/nope/x", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "move", "from": "/nope", "path": "/x"},
        {"op": "move", "from": "/a", "path": "/a/x"},
        {"op": "copy", "from": "/nope/x", "path": "/x"},
        {"op": "test", "path": "/a/b/0", "value": 2},
        {"op": "test", "path": "/a/b/0", "value": True},
        {"op": "test", "path": "/a/b/0", "value": 1.0},
        {"op": "test", "path": "/a/b/3", "value": None},
        {"op": "test", "path": "/nope", "value": 1},
        {"op": "test", "path": "/nope/x", "value": None},
        {"op": "frob", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_an_operation_that_does_not_apply_undoes_the_ones_before_it(operation: dict[str, Any]) -> None:
    assert patched(DOCUMENT, {"op": "add", "path": "/new", "value": 1}, operation) is None


def test_what_the_real_server_takes_beyond_the_rfc_is_taken() -> None:
    assert patched(DOCUMENT, {"op": "replace", "path": "/new", "value": 1})["new"] == 1
    assert patched(DOCUMENT, {"op": "test", "path": "/nope", "value": None}) == DOCUMENT
    assert patched(DOCUMENT, {"op": "test", "path": "/nope"}) == DOCUMENT
    assert patched(DOCUMENT, {"op": "copy", "from": "/nope", "path": "/x"})["x"] is None
    assert patched(DOCUMENT, {"op": "test", "path": "/h/-1/i", "value": 2}) == DOCUMENT
    assert patched(DOCUMENT, {"op": "replace", "path": "", "value": {"x": 1}}) == {"x": 1}


def test_a_copy_and_a_value_given_twice_are_changed_one_by_one() -> None:
    value = {"k": [1]}
    done = patched(
        {},
        {"op": "add", "path": "/a", "value": value},
        {"op": "add", "path": "/b", "value": value},
        {"op": "copy", "from": "/a", "path": "/c"},
        {"op": "add", "path": "/a/k/-", "value": 2},
        {"op": "add", "path": "/c/k/-", "value": 3},
    )
    assert done == {"a": {"k": [1, 2]}, "b": {"k": [1]}, "c": {"k": [1, 3]}}
    assert value == {"k": [1]}


def test_what_a_patch_leaves_alone_is_shared_and_not_copied() -> None:
    frozen = freeze({"a": {"x": 1}, "b": {"y": [1]}})
    done = apply(frozen, [{"op": "add", "path": "/a/z", "value": 1}])
    assert done["b"] is frozen["b"]


KEYS = st.sampled_from(["a", "b", "~", "/", "0", "-"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, JSON, max_size=4)


def pointers(value: Any, before: str = "") -> Iterator[str]:
    """Yield a pointer to everything inside."""
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        pointer = f"{before}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield pointer
        yield from pointers(child, pointer)


@st.composite
def lives(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a document and operations, most of which are about what is there."""
    document = draw(DOCUMENTS)
    known = st.sampled_from([*pointers(document), "/a", "/new"])
    path = st.one_of(known, known.flatmap(lambda one: st.sampled_from([f"{one}/-", f"{one}/0", f"{one}/a"])))
    operation = st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": path,
            "from": path,
            "value": JSON,
        }
    )
    return document, draw(st.lists(operation, max_size=5))


class Reference:
    """Does operations as the RFC says them, slowly; raises LookupError where one does not apply."""

    def __init__(self, document: Any) -> None:
        self.document = copy.deepcopy(document)

    def do(self, operation: dict[str, Any]) -> None:
        """Do one."""
        path, source, value = operation["path"], operation["from"], copy.deepcopy(operation["value"])
        match operation["op"]:
            case "add":
                self.put(path, value)
            case "remove":
                self.take(path)
            case "replace":
                self.read(path)
                parent, last = self.way(path)
                parent[last if isinstance(parent, dict) else int(last)] = value
            case "move":
                self.put(path, self.take(source))
            case "copy":
                self.put(path, copy.deepcopy(self.read(source)))
            case _:
                self.check(path, value)

    def check(self, path: str, value: Any) -> None:
        """Do a test."""
        if json.dumps(self.read(path), sort_keys=True) != json.dumps(value, sort_keys=True):
            raise LookupError(path)

    def way(self, pointer: str) -> tuple[Any, str]:
        """Return what holds the last token, and that."""
        here = self.document
        *before, last = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
        for token in before:
            here = self.holder(here)
            here = here[token] if isinstance(here, dict) else here[self.place(token, len(here))]
        return self.holder(here), last

    def read(self, pointer: str) -> Any:
        """Return what is there, None for a key that is not."""
        parent, last = self.way(pointer)
        return parent.get(last) if isinstance(parent, dict) else parent[self.place(last, len(parent))]

    def put(self, pointer: str, value: Any) -> None:
        """Do an add."""
        parent, last = self.way(pointer)
        if isinstance(parent, dict):
            parent[last] = value
        else:
            parent.insert(len(parent) if last == "-" else self.place(last, len(parent) + 1), value)

    def take(self, pointer: str) -> Any:
        """Do a remove and return what was there."""
        parent, last = self.way(pointer)
        return parent.pop(last) if isinstance(parent, dict) else parent.pop(self.place(last, len(parent)))

    @staticmethod
    def holder(here: Any) -> Any:
        """Return what can hold something."""
        if not isinstance(here, dict | list):
            raise LookupError(here)  # noqa: TRY004  the document is not as supposed
        return here

    @staticmethod
    def place(token: str, size: int) -> int:
        """Return an index of a list of this size."""
        if not token.isdigit() or int(token) >= size:
            raise LookupError(token)
        return int(token)


@given(lives())
def test_a_patch_is_its_operations_one_after_the_other_or_nothing(life: tuple[Any, list[dict[str, Any]]]) -> None:
    document, operations = life
    slow = Reference(document)
    try:
        for operation in operations:
            slow.do(operation)
        expected = slow.document
    except LookupError:
        expected = None
    assert json.dumps(patched(document, *operations), sort_keys=True) == json.dumps(expected, sort_keys=True)


@given(JSON, JSON)
def test_two_values_are_the_same_when_their_json_is(one: Any, other: Any) -> None:
    assert same(one, other) is (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))
    assert same(freeze(one), one)
