"""How the adapter of Kubernetes asks: what it asks again and when, by which deadline, with which token."""

import asyncio
import contextlib
import socket
import ssl
from typing import Any

import pytest

from gpuward.adapters.kubernetes import Access, KubernetesCluster
from gpuward.adapters.kubernetes.patience import Patience
from gpuward.model.resource import NODES, PODS
from gpuward.ports import Conflict, Evicted, Refused, Unreachable
from tests.cluster.scripted import TOKEN, answer, drop, hang, scripted, status

NODE = {"kind": "Node", "metadata": {"name": "n1"}}
BUSY = status(429, "TooManyRequests", "too many requests, please try again later")
HELD = status(
    429,
    "TooManyRequests",
    "Cannot evict pod as it would violate the pod's disruption budget.",
    causes=[{"reason": "DisruptionBudget", "message": "The disruption budget train needs 1 healthy pods"}],
)
UNKNOWN_FATE = "whether it was done is not known"
PATCH = [{"op": "add", "path": "/spec", "value": {}}]


async def test_an_overloaded_server_is_asked_again_after_the_time_that_it_wants_also_for_a_write() -> None:
    busy = answer(429, BUSY, Retry_After="1")
    async with scripted(busy, busy, answer(201, NODE), chance=0.5) as (server, cluster):
        assert await cluster.create(NODES, {"metadata": {"name": "n1"}}) == NODE
    assert [request.method for request in server.asked] == ["POST"] * 3
    assert server.pauses == [1.125, 1.25]


async def test_pauses_grow_and_the_last_answer_is_told() -> None:
    async with scripted(*[answer(500, status(500, "InternalError", "etcd is ill"))] * 4) as (server, cluster):
        with pytest.raises(Unreachable, match=r"read Node n1.*500 InternalError: etcd is ill") as caught:
            await cluster.get(NODES, "n1")
    assert UNKNOWN_FATE not in str(caught.value)
    assert server.pauses == [0.25, 0.5, 1.0]


def test_a_pause_is_full_jitter_and_never_longer_than_the_longest() -> None:
    patience = Patience(tries=9, first_seconds=0.25, longest_seconds=4.0)
    assert [patience.pause_seconds(tried, 0.0, chance=lambda: 1.0) for tried in (1, 2, 5, 6, 40)] == [
        0.25,
        0.5,
        4,
        4,
        4,
    ]
    assert patience.pause_seconds(5, 3.0, chance=lambda: 0.0) == 3.0


async def test_a_pause_that_would_end_after_the_deadline_is_not_made() -> None:
    async with scripted(answer(429, BUSY, Retry_After="60")) as (server, cluster):
        with pytest.raises(Unreachable, match="429 TooManyRequests"):
            await cluster.get(NODES, "n1", deadline_seconds=5)
    assert server.pauses == []


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_read_is_asked_again_whatever_failed_at_the_server(code: int) -> None:
    async with scripted(answer(code, "no backend"), answer(200, NODE)) as (server, cluster):
        assert await cluster.get(NODES, "n1") == NODE
    assert len(server.asked) == 2


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_write_that_may_have_been_done_is_not_asked_again_and_says_so(code: int) -> None:
    async with scripted(answer(code, "no backend")) as (server, cluster):
        with pytest.raises(Unreachable, match=UNKNOWN_FATE):
            await cluster.patch(NODES, "n1", PATCH)
    assert len(server.asked) == 1


async def test_a_write_that_a_starting_server_did_not_take_is_asked_again() -> None:
    async with scripted(answer(503, "starting", Retry_After="1"), answer(200, NODE)) as (server, cluster):
        assert await cluster.patch(NODES, "n1", PATCH) == NODE
    assert server.pauses == [1.25]


async def test_a_write_whose_connection_broke_is_not_asked_again_and_says_so() -> None:
    async with scripted(drop) as (server, cluster):
        with pytest.raises(Unreachable, match=UNKNOWN_FATE):
            await cluster.create(NODES, {"metadata": {"name": "n1"}})
        with pytest.raises(Unreachable, match=UNKNOWN_FATE):
            await cluster.evict("p", namespace="a", uid="x")
    assert len(server.asked) == 2


async def test_a_read_whose_connection_broke_is_asked_again() -> None:
    async with scripted(drop, answer(200, NODE)) as (server, cluster):
        assert await cluster.get(NODES, "n1") == NODE
    assert len(server.asked) == 2


async def test_a_server_that_speaks_no_tls_is_told_as_that_with_the_address_and_the_remedy() -> None:
    async def nobody(_: str | None) -> None:
        return None

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1") as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        cluster = KubernetesCluster(Access(url, ssl.create_default_context, nobody), patience=Patience(tries=1))
        with pytest.raises(Unreachable, match=f"{url} does not speak TLS there; let its address .* begin with http://"):
            await cluster.get(NODES, "n1")
        await cluster.close()


@pytest.mark.parametrize(
    "said",
    [
        "Client sent an HTTP request to an HTTPS server.\n",
        "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
    ],
)
async def test_a_server_that_only_speaks_tls_is_told_as_that_with_the_address_and_the_remedy(said: str) -> None:
    async with scripted(answer(400, said)) as (_, cluster):
        with pytest.raises(Refused, match=r"http://127.0.0.1:\d+ speaks TLS there .* begin with https://"):
            await cluster.get(NODES, "n1")


async def test_a_server_that_hangs_up_on_plain_http_may_speak_tls() -> None:
    async with scripted(*[drop] * 4) as (_, cluster):
        with pytest.raises(Unreachable, match="try again later, or with an address that begins with https://"):
            await cluster.get(NODES, "n1")


async def test_a_body_that_breaks_off_is_no_answer() -> None:
    async with scripted(*[answer(200, NODE, Connection="close")] * 2) as (server, cluster):
        server.replies[0] = _cut
        assert await cluster.get(NODES, "n1") == NODE
    assert len(server.asked) == 2


async def _cut(writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"kind"')
    writer.close()


async def test_a_write_that_found_no_server_is_tried_again_and_was_surely_not_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def nobody(_: str | None) -> None:
        return None

    cluster = KubernetesCluster(Access(url, lambda: None, nobody), sleep=sleep, chance=lambda: 1.0)
    with pytest.raises(Unreachable, match=r"cannot create Node n1: .* cannot be reached") as caught:
        await cluster.create(NODES, {"metadata": {"name": "n1"}})
    await cluster.close()
    assert UNKNOWN_FATE not in str(caught.value)
    assert pauses == [0.25, 0.5, 1.0]


async def test_a_deadline_is_named_and_a_write_that_ran_into_it_may_have_been_done() -> None:
    async with scripted(hang, hang) as (_, cluster):
        with pytest.raises(Unreachable, match=rf"patch Node n1: .* within 0\.2 s; {UNKNOWN_FATE}"):
            await cluster.patch(NODES, "n1", PATCH, deadline_seconds=0.2)
        with pytest.raises(Unreachable, match=r"list the nodes: .* within 0\.2 s; try again later"):
            await cluster.list(NODES, deadline_seconds=0.2)


async def test_the_deadline_of_a_list_is_that_of_all_its_pages() -> None:
    page = {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": []}
    async with scripted(answer(200, page), hang) as (server, cluster):
        with pytest.raises(Unreachable, match=r"within 0\.4 s"):
            await cluster.list(NODES, deadline_seconds=0.4)
    assert len(server.asked) == 2


async def test_who_waits_for_a_place_waits_no_longer_than_the_deadline_and_was_surely_not_served() -> None:
    async with scripted(hang, connections=1) as (server, cluster):
        first = asyncio.create_task(cluster.get(NODES, "n1", deadline_seconds=1.0))
        await asyncio.sleep(0.1)
        with pytest.raises(Unreachable) as caught:
            await cluster.patch(NODES, "n2", PATCH, deadline_seconds=0.2)
        with pytest.raises(Unreachable):
            await first
    assert UNKNOWN_FATE not in str(caught.value)
    assert [request.path for request in server.asked] == ["/api/v1/nodes/n1"]


async def test_no_more_requests_are_under_way_than_there_are_places() -> None:
    under_way = most = 0

    async def slow(writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        await answer(200, NODE)(writer)

    async with scripted(*[slow] * 20, connections=3) as (_, cluster):
        await asyncio.gather(*(cluster.get(NODES, "n1") for _ in range(20)))
    assert most == 3


async def test_a_token_that_is_refused_is_looked_up_again_and_the_new_one_used_also_for_a_write() -> None:
    no = answer(401, status(401, "Unauthorized", "Unauthorized"))
    async with scripted(no, answer(201, NODE), headers=["Bearer old", "Bearer new"]) as (server, cluster):
        await cluster.create(NODES, {"metadata": {"name": "n1"}})
    assert [request.headers["authorization"] for request in server.asked] == ["Bearer old", "Bearer new"]


async def test_a_token_that_stays_refused_is_refused_without_being_sent_again_and_again() -> None:
    no = answer(401, status(401, "Unauthorized", "Unauthorized"))
    async with scripted(no) as (server, cluster):
        with pytest.raises(Refused, match=r"401 Unauthorized.*token"):
            await cluster.get(NODES, "n1")
    assert len(server.asked) == 1
    async with scripted(no, no, no, headers=["Bearer old", "Bearer new"]) as (server, cluster):
        with pytest.raises(Refused):
            await cluster.get(NODES, "n1")
    assert len(server.asked) == 2


@pytest.mark.parametrize(("is_renewed", "asked"), [(True, 2), (False, 1)])
async def test_a_certificate_that_is_refused_is_looked_up_again_and_only_a_new_one_is_shown(
    *, is_renewed: bool, asked: int
) -> None:
    no = answer(401, status(401, "Unauthorized", "Unauthorized"))
    contexts = [ssl.create_default_context()]

    async def nobody(refused: str | None) -> None:
        if refused == "" and is_renewed:
            contexts.append(ssl.create_default_context())

    async with scripted(no, answer(200, NODE)) as (server, _):
        cluster = KubernetesCluster(Access(server.url, lambda: contexts[-1], nobody))
        with contextlib.suppress(Refused):
            await cluster.get(NODES, "n1")
        await cluster.close()
    assert len(server.asked) == asked


async def test_our_token_is_in_no_error_although_a_proxy_repeats_it() -> None:
    echo = answer(403, status(403, "Forbidden", f"your header Authorization: Bearer {TOKEN} is not welcome"))
    async with scripted(echo) as (_, cluster):
        with pytest.raises(Refused, match="not welcome") as caught:
            await cluster.get(NODES, "n1")
    assert TOKEN not in str(caught.value)


async def test_hostile_words_of_a_server_are_one_short_line_that_can_be_shown() -> None:
    words = "\x1b[2J\r\nroot:\u202e " + "long " * 1000
    async with scripted(answer(403, status(403, "Forbidden", words)), answer(404, words)) as (_, cluster):
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                await cluster.get(NODES, "n1")
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 1000


SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
NO_OBJECTS = ["<html>log in</html>", "[1]", "", "null", '{"kind":"Node","metadata":{"na', "{}", "[" * 100_000]
WRITES: list[Any] = [
    pytest.param(lambda cluster: cluster.create(NODES, {"metadata": {"name": "n1"}}), id="create"),
    pytest.param(lambda cluster: cluster.patch(NODES, "n1", PATCH), id="patch"),
    pytest.param(lambda cluster: cluster.patch(NODES, "n1", PATCH, subresource="status"), id="patch of a status"),
    pytest.param(lambda cluster: cluster.delete(NODES, "n1"), id="delete"),
    pytest.param(lambda cluster: cluster.evict("p", namespace="a", uid="x"), id="evict"),
]


@pytest.mark.parametrize("body", NO_OBJECTS)
async def test_a_good_answer_that_is_no_object_is_to_be_asked_for_later_and_the_url_is_doubted(body: str) -> None:
    async with scripted(answer(200, body), answer(200, body)) as (_, cluster):
        for asked in (cluster.get(NODES, "n1"), cluster.list(NODES)):
            with pytest.raises(Unreachable, match="whether the URL is an API server's") as caught:
                await asked
            assert UNKNOWN_FATE not in str(caught.value)


@pytest.mark.parametrize("body", [*NO_OBJECTS, '{"kind":"Status","status":"Failure"}', '{"kind":7}'])
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_good_answer_is_none_may_have_been_done_and_says_so(write: Any, body: str) -> None:
    async with scripted(answer(201, body)) as (server, cluster):
        with pytest.raises(Unreachable, match=f"{UNKNOWN_FATE}; try again later"):
            await write(cluster)
    assert len(server.asked) == 1


@pytest.mark.parametrize("other", [SUCCESS, {"kind": "Pod", "metadata": {}}, {"kind": "Node"}])
async def test_another_object_than_the_one_that_was_asked_for_is_no_answer(other: Any) -> None:
    async with scripted(*[answer(200, other)] * 3) as (_, cluster):
        with pytest.raises(Unreachable, match="cannot read Node n1: the answer is no Node; try"):
            await cluster.get(NODES, "n1")
        with pytest.raises(Unreachable, match=f"cannot create Node n1: the answer is no Node; {UNKNOWN_FATE}"):
            await cluster.create(NODES, {"metadata": {"name": "n1"}})
        with pytest.raises(Unreachable, match=f"cannot patch Node n1: the answer is no Node; {UNKNOWN_FATE}"):
            await cluster.patch(NODES, "n1", PATCH)


@pytest.mark.parametrize("items", [7, {"a": 1}, ["a"], [None]])
async def test_a_list_of_what_is_no_object_is_no_answer(items: Any) -> None:
    async with scripted(answer(200, {"metadata": {"resourceVersion": "7"}, "items": items})) as (_, cluster):
        with pytest.raises(Unreachable, match="the answer is no list"):
            await cluster.list(NODES)


async def test_a_redirection_is_refused_and_not_followed() -> None:
    async with scripted(answer(302, "", Location="http://127.0.0.1:1/login")) as (server, cluster):
        with pytest.raises(Refused, match="302"):
            await cluster.get(NODES, "n1")
    assert len(server.asked) == 1


async def test_a_budget_that_holds_a_pod_is_not_asked_again_and_an_overload_is_no_budget() -> None:
    async with scripted(answer(429, HELD)) as (server, cluster):
        held = await cluster.evict("p", namespace="a", uid="x")
    assert (held.outcome, server.pauses) == (Evicted.HELD, [])
    assert "budget train needs" in held.why
    async with scripted(*[answer(429, BUSY, Retry_After="1")] * 4) as (server, cluster):
        with pytest.raises(Unreachable, match=r"evict Pod a/p: .*429"):
            await cluster.evict("p", namespace="a", uid="x")
    assert len(server.asked) == 4


async def test_a_conflict_that_is_not_about_the_uid_is_no_pod_that_is_gone() -> None:
    other = status(409, "Conflict", "the object has been modified; please apply your changes", name="p", kind="pods")
    async with scripted(answer(409, other), answer(409, other)) as (_, cluster):
        with pytest.raises(Conflict, match="has been modified"):
            await cluster.evict("p", namespace="a", uid="x")
        with pytest.raises(Conflict, match="has been modified"):
            await cluster.delete(PODS, "p", namespace="a", uid="x")


async def test_what_is_asked_is_spelled_as_the_server_reads_it() -> None:
    page = answer(200, {"metadata": {"resourceVersion": "7", "continue": "a/b+c=&d"}, "items": [NODE]})
    last = answer(200, {"metadata": {"resourceVersion": "8"}, "items": None})
    gone = answer(200, SUCCESS)
    replies = (page, last, answer(200, NODE), gone, answer(201, SUCCESS))
    async with scripted(*replies) as (server, cluster):
        listed = await cluster.list(PODS, namespace="a", labels="x in (y),z!=é", fields="spec.nodeName=n1")
        await cluster.patch(NODES, "n1", PATCH, subresource="status")
        await cluster.delete(PODS, "p", namespace="a", uid="u", grace_seconds=0)
        await cluster.evict("p", namespace="a", uid="u", grace_seconds=60)
    assert (listed.items, listed.version) == ((NODE,), "7")
    chosen = "labelSelector=x+in+%28y%29%2Cz%21%3D%C3%A9&fieldSelector=spec.nodeName%3Dn1&limit=2"
    assert [f"{request.method} {request.path}" for request in server.asked] == [
        f"GET /api/v1/namespaces/a/pods?{chosen}",
        f"GET /api/v1/namespaces/a/pods?{chosen}&continue=a%2Fb%2Bc%3D%26d",
        "PATCH /api/v1/nodes/n1/status",
        "DELETE /api/v1/namespaces/a/pods/p",
        "POST /api/v1/namespaces/a/pods/p/eviction",
    ]
    assert server.asked[2].headers["content-type"] == "application/json-patch+json"
    assert server.asked[2].headers["user-agent"].startswith("gpuward/")
    options: dict[str, Any] = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    assert (options | {"propagationPolicy": "Background"}).items() <= server.asked[3].body.items()
    assert server.asked[4].body["deleteOptions"] == {"gracePeriodSeconds": 60, "preconditions": {"uid": "u"}}


async def test_a_list_that_is_forgotten_before_its_end_is_begun_again_and_shows_one_version() -> None:
    def page(version: str, name: str, **more: str) -> Any:
        return answer(200, {"metadata": {"resourceVersion": version, **more}, "items": [{"metadata": {"name": name}}]})

    forgotten = answer(410, {**status(410, "Expired", "too old"), "metadata": {"continue": "inconsistent"}})
    replies = (
        page("7", "old", **{"continue": "next"}),
        forgotten,
        page("9", "a", **{"continue": "next"}),
        page("9", "b"),
    )
    async with scripted(*replies) as (_, cluster):
        listed = await cluster.list(NODES, project=lambda item: item["metadata"]["name"])
    assert (listed.items, listed.version) == (("a", "b"), "9")


async def test_a_list_that_is_forgotten_again_and_again_is_a_conflict() -> None:
    first = answer(200, {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": []})
    forgotten = answer(410, status(410, "Expired", "too old"))
    async with scripted(*[first, forgotten] * 3) as (server, cluster):
        with pytest.raises(Conflict, match=r"list the nodes.*too old"):
            await cluster.list(NODES)
    assert len(server.asked) == 6


async def test_what_is_asked_after_the_end_is_unreachable() -> None:
    async with scripted(answer(200, NODE)) as (_, cluster):
        await cluster.get(NODES, "n1")
        await cluster.close()
        with pytest.raises(Unreachable, match="was closed"):
            await cluster.get(NODES, "n1")
        await cluster.close()
