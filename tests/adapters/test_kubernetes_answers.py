"""What the answers of an API server mean; those of version 1.36 are here as it gave them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.kubernetes.answer import JSON_PATCH, Answer, Ask, error_of, read_status
from gpuward.adapters.kubernetes.eviction import read_eviction
from gpuward.adapters.kubernetes.place import object_path, path_of
from gpuward.model.resource import EVENTS, GPU_NODES, NODES, PODS
from gpuward.ports import Conflict, EdgeError, Evicted, Refused, Unreachable

READ = Ask("read", "Node n1", "GET", "/api/v1/nodes/n1")
PATCH = Ask("patch", "Node n1", "PATCH", "/api/v1/nodes/n1", content=JSON_PATCH)
CREATE = Ask("create", "Node n1", "POST", "/api/v1/nodes")

BARE = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request '
    'due to an error in our request","reason":"Invalid","details":{},"code":422}'
)
"""To a test that fails, a path that is not there, an unknown operation alike."""
DUPLICATE = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Node \\"n1\\" is invalid: '
    'metadata.taints[2]: Duplicate value: taints must be unique by key and effect pair","reason":"Invalid","details":'
    '{"name":"n1","kind":"Node","causes":[{"reason":"FieldValueDuplicate","message":"Duplicate value","field":'
    '"metadata.taints[2]"},{"reason":"FieldValueDuplicate","message":"Duplicate value","field":"metadata.taints[2]"}'
    ']},"code":422}'
)
UNSUPPORTED = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Node \\"n1\\" is invalid: '
    'metadata.taints[2].effect: Unsupported value: \\"Nope\\"","reason":"Invalid","details":{"name":"n1","kind":"Node",'
    '"causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: \\"Nope\\"","field":'
    '"metadata.taints[2].effect"}]},"code":422}'
)
EXISTS = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \\"n1\\" already exists",'
    '"reason":"AlreadyExists","details":{"name":"n1","kind":"nodes"},"code":409}'
)
MISSING = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \\"n1\\" not found",'
    '"reason":"NotFound","details":{"name":"n1","kind":"nodes"},"code":404}'
)
NO_SUBRESOURCE = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the '
    'requested resource","reason":"NotFound","details":{},"code":404}'
)
NOT_SERVED = "404 page not found\n"
FORBIDDEN = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes is forbidden: User '
    '\\"system:anonymous\\" cannot list resource \\"nodes\\" in API group \\"\\" at the cluster scope","reason":'
    '"Forbidden","details":{"kind":"nodes"},"code":403}'
)
BAD_VERSION = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion: Invalid value: '
    '\\"abc\\": strconv.ParseUint: parsing \\"abc\\": invalid syntax","code":500}'
)
OTHER_UID = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on '
    'Pod \\"b\\": the UID in the precondition (wrong) does not match the UID in record (0cb95796). The object might '
    'have been deleted and then recreated","reason":"Conflict","details":{"name":"b","kind":"Pod"},"code":409}'
)
HELD = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Cannot evict pod as it would '
    'violate the pod\'s disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":'
    '"DisruptionBudget","message":"The disruption budget bb needs 1 healthy pods and has 1 currently"}]},"code":429}'
)
UNSEEN = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Cannot evict pod as it would '
    'violate the pod\'s disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":'
    '"DisruptionBudget","message":"The disruption budget d1 is still being processed by the server."}],'
    '"retryAfterSeconds":10},"code":429}'
)
TANGLED = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"This pod has more than one '
    'PodDisruptionBudget, which the eviction subresource does not support.","code":500}'
)
PRIORITY = "Too many requests, please try again later.\n"
"""What API priority and fairness answers: no Status at all."""


def error(ask: Ask, code: int, body: str) -> EdgeError:
    return error_of(ask, Answer(code, body.encode()).status())


@pytest.mark.parametrize(
    ("ask", "code", "body", "kind"),
    [
        pytest.param(PATCH, 422, BARE, Conflict, id="a test failed"),
        pytest.param(PATCH, 422, DUPLICATE, Conflict, id="an entry is there"),
        pytest.param(PATCH, 422, UNSUPPORTED, Refused, id="a patch to what is not valid"),
        pytest.param(CREATE, 422, DUPLICATE, Refused, id="two entries in what is created"),
        pytest.param(CREATE, 422, UNSUPPORTED, Refused, id="what is not valid"),
        pytest.param(CREATE, 409, EXISTS, Conflict, id="one of its name"),
        pytest.param(PATCH, 404, MISSING, Conflict, id="gone"),
        pytest.param(PATCH, 404, NO_SUBRESOURCE, Refused, id="no subresource"),
        pytest.param(READ, 404, NOT_SERVED, Refused, id="not served"),
        pytest.param(READ, 403, FORBIDDEN, Refused, id="forbidden"),
        pytest.param(READ, 500, BAD_VERSION, Unreachable, id="server"),
        pytest.param(READ, 429, PRIORITY, Unreachable, id="overload"),
        pytest.param(READ, 404, "<html>no</html>", Refused, id="no API server"),
        pytest.param(READ, 400, "", Refused, id="nothing"),
        pytest.param(READ, 418, "{}", Refused, id="unheard of"),
        pytest.param(READ, 599, "{}", Unreachable, id="unheard of, of the server"),
        pytest.param(READ, 410, "{}", Conflict, id="too old"),
        pytest.param(READ, 413, "", Refused, id="too large"),
    ],
)
def test_an_answer_is_the_error_that_the_port_has_for_it(ask: Ask, code: int, body: str, kind: type[EdgeError]) -> None:
    found = error(ask, code, body)
    assert type(found) is kind
    assert f"cannot {ask.verb} Node n1: the API server answers {code}" in str(found)


@pytest.mark.parametrize(
    ("code", "body", "outcome", "word"),
    [
        (201, '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}', Evicted.ASKED, ""),
        (200, "", Evicted.ASKED, ""),
        (429, HELD, Evicted.HELD, "budget bb needs"),
        (429, UNSEEN, Evicted.HELD, "budget d1 is still"),
        (500, TANGLED, Evicted.TANGLED, "more than one PodDisruptionBudget"),
        (404, MISSING, Evicted.GONE, "not found"),
        (409, OTHER_UID, Evicted.GONE, "UID in the precondition"),
    ],
)
def test_an_eviction_became_what_its_answer_says(code: int, body: str, outcome: Evicted, word: str) -> None:
    became = read_eviction(Answer(code, body.encode()))
    assert became is not None
    assert became.outcome is outcome
    assert word in became.why


@pytest.mark.parametrize(
    ("code", "body"),
    [(429, PRIORITY), (500, BAD_VERSION), (404, NOT_SERVED), (409, EXISTS), (403, FORBIDDEN), (503, "")],
)
def test_every_other_answer_to_an_eviction_is_an_error(code: int, body: str) -> None:
    assert read_eviction(Answer(code, body.encode())) is None


@given(st.integers(100, 599), st.binary(max_size=200))
def test_whatever_bytes_come_there_is_an_error_that_can_be_shown(code: int, body: bytes) -> None:
    assert str(error_of(READ, Answer(code, body).status())).isprintable()


_ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["reason", "name"]), inner),
    max_leaves=9,
)


@given(st.dictionaries(st.sampled_from(["reason", "message", "details", "code", "metadata"]), _ANY), st.data())
def test_whatever_a_status_holds_what_is_not_as_it_should_be_is_absent(
    found: dict[str, Any], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        found["details"] = {"causes": data.draw(_ANY), "name": data.draw(_ANY)}
    read = read_status(json.loads(json.dumps(found)), 422)
    assert (read.code, all(isinstance(cause.reason, str) for cause in read.causes)) == (422, True)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (path_of(NODES, None), "/api/v1/nodes"),
        (path_of(PODS, "a"), "/api/v1/namespaces/a/pods"),
        (path_of(PODS, None), "/api/v1/pods"),
        (path_of(NODES, "ignored"), "/api/v1/nodes"),
        (
            object_path(GPU_NODES, "n1", namespace=None, subresource="status"),
            "/apis/gpuward.io/v1alpha1/gpunodes/n1/status",
        ),
        (object_path(EVENTS, "x:y ü", namespace="a"), "/apis/events.k8s.io/v1/namespaces/a/events/x:y%20%C3%BC"),
    ],
)
def test_an_object_has_the_path_of_its_group_namespace_and_name(path: str, want: str) -> None:
    assert path == want
