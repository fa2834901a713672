"""What the adapter of Kubernetes makes of the stream of a watch, however it comes and breaks."""

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.kubernetes.answer import Ask
from gpuward.adapters.kubernetes.lines import Lines
from gpuward.adapters.kubernetes.watching import Quiet, read_watched
from gpuward.model.resource import NODES
from gpuward.ports import Conflict, EdgeError, Happened, Refused, Unreachable, Watched
from tests.cluster.scripted import Scripted, answer, hang, pieces, scripted, status

SOON = 20.0
IMPATIENT = Quiet(silence_seconds=0.2, beginning_seconds=0.5)


def event(version: int, *, word: str = "ADDED", name: str = "n1", **more: Any) -> bytes:
    item = {"metadata": {"name": name, "resourceVersion": str(version)}, **more}
    return json.dumps({"type": word, "object": item}).encode() + b"\n"


def error(code: int, reason: str, message: str) -> bytes:
    return json.dumps({"type": "ERROR", "object": status(code, reason, message)}).encode() + b"\n"


async def told(cluster: Any, seconds: float = 30.0, *, seen: list[Any] | None = None) -> list[Watched]:
    """Return all that is told until the watch ends by itself; the names go to `seen` as they come."""

    def name_of(item: Any) -> Any:
        (seen if seen is not None else []).append(item["metadata"]["name"])
        return item["metadata"]["name"]

    async with asyncio.timeout(SOON):
        return [one async for one in cluster.watch(NODES, since="5", project=name_of, timeout_seconds=seconds)]


def versions_asked(server: Scripted) -> list[str]:
    return [parse_qs(urlsplit(request.path).query)["resourceVersion"][0] for request in server.asked]


async def test_lines_are_read_however_the_stream_is_cut() -> None:
    stream = event(6, name="é" * 9) + event(7, word="MODIFIED") + event(8, word="BOOKMARK")
    for size in (1, 7, 64, len(stream)):
        parts = [stream[at : at + size] for at in range(0, len(stream), size)]
        async with scripted(pieces(*parts)) as (_, cluster):
            assert await told(cluster) == [
                Watched(Happened.ADDED, "é" * 9, "6"),
                Watched(Happened.MODIFIED, "n1", "7"),
                Watched(Happened.BOOKMARK, None, "8"),
            ]


async def test_a_line_of_several_megabytes_is_read() -> None:
    big = event(6, status={"text": "x" * (4 * 1024 * 1024)})
    parts = [big[at : at + 100_000] for at in range(0, len(big), 100_000)]
    async with scripted(pieces(*parts, event(7))) as (_, cluster):
        assert [one.version for one in await told(cluster)] == ["6", "7"]


async def test_it_is_asked_for_bookmarks_and_an_end() -> None:
    async with scripted(pieces()) as (server, cluster):
        await told(cluster, 42)
    query = parse_qs(urlsplit(server.asked[0].path).query)
    asked = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5", "timeoutSeconds": "42"}
    assert query == {key: [value] for key, value in asked.items()}


async def test_a_version_that_is_too_old_is_a_conflict_in_the_stream_and_as_an_answer() -> None:
    words = "too old resource version: 5 (99)"
    async with scripted(pieces(event(6), error(410, "Expired", words)), answer(410, status(410, "Gone", words))) as (
        _,
        cluster,
    ):
        for _ in range(2):
            with pytest.raises(Conflict, match="too old"):
                await told(cluster)


@pytest.mark.parametrize(
    ("code", "kind"), [(403, Refused), (429, Unreachable), (500, Unreachable), (504, Unreachable), (410, Conflict)]
)
async def test_an_error_in_the_stream_means_what_it_would_as_an_answer(code: int, kind: type[EdgeError]) -> None:
    async with scripted(pieces(error(code, "Reason", "its words"))) as (_, cluster):
        with pytest.raises(kind, match=r"watch the nodes: .*its words"):
            await told(cluster)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"[]\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ERROR","object":7}\n',
        b'{"type":"SHOUTED","object":{"metadata":{"resourceVersion":"6"}}}\n',
        b'{"type":"ADDED","object":{"metadata":{}}}\n',
        b'{"type":"ADDED","object":{"metadata":null}}\n',
        b"\xff\xfe\n",
    ],
)
async def test_a_line_that_tells_nothing_ends_the_watch_as_unreachable(line: bytes) -> None:
    async with scripted(pieces(line)) as (_, cluster):
        with pytest.raises(Unreachable, match="no watch"):
            await told(cluster)


async def test_a_stream_that_breaks_off_is_unreachable_after_what_it_told() -> None:
    for reply in (pieces(event(6), whole=False), pieces(event(6), event(7)[:20])):
        names: list[Any] = []
        async with scripted(reply) as (_, cluster):
            with pytest.raises(Unreachable):
                await told(cluster, seen=names)
        assert names == ["n1"]


async def test_a_silent_watch_is_begun_again_after_what_it_told_last() -> None:
    first = pieces(event(6), event(7, word="BOOKMARK"), event(8)[:9], forever=True)
    async with scripted(first, pieces(event(8)), quiet=IMPATIENT) as (server, cluster):
        assert [one.version for one in await told(cluster)] == ["6", "7", "8"]
    assert versions_asked(server) == ["5", "7"]


async def test_a_silent_watch_whose_server_no_longer_answers_is_unreachable() -> None:
    async with scripted(pieces(event(6), forever=True), hang, quiet=IMPATIENT) as (server, cluster):
        with pytest.raises(Unreachable, match=r"within 0\.5 s"):
            await told(cluster)
    assert versions_asked(server) == ["5", "6"]


async def test_a_silent_watch_ends_by_itself_when_its_time_is_up() -> None:
    silent = pieces(forever=True)
    async with scripted(*[silent] * 20, quiet=IMPATIENT) as (server, cluster):
        assert await told(cluster, 0.7) == []
    assert 2 <= len(server.asked) < 20


async def test_a_watch_that_is_left_ends_its_connection() -> None:
    async with scripted(pieces(event(6), forever=True)) as (server, cluster):
        async for one in cluster.watch(NODES, since="5"):
            assert one.version == "6"
            break
        await server.until(lambda: server.gone)


async def test_a_watch_that_is_cancelled_ends_its_connection() -> None:
    async with scripted(pieces(forever=True)) as (server, cluster):
        watching = asyncio.create_task(told(cluster))
        await server.until(lambda: server.asked)
        watching.cancel()
        await server.until(lambda: server.gone)
        assert watching.cancelled()


async def test_a_watch_takes_no_place_of_the_calls() -> None:
    page = answer(200, {"kind": "Node", "metadata": {"name": "n1"}})
    async with scripted(pieces(forever=True), page, connections=1) as (server, cluster):
        watching = asyncio.create_task(told(cluster))
        await server.until(lambda: server.asked)
        assert await cluster.get(NODES, "n1", deadline_seconds=5) is not None
        watching.cancel()


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.binary(max_size=9), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    rest = rest.replace(b"\n", b"")
    stream = b"".join(line + b"\n" for line in lines) + rest
    framer, at, found = Lines(), 0, []
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += framer.feed(stream[at : at + size])
        at += size
    assert found == lines
    assert framer.has_begun is bool(rest)


def test_a_line_that_never_ends_is_not_kept_for_ever() -> None:
    framer = Lines(longest=10)
    assert framer.feed(b"0123456789\n01234") == [b"0123456789"]
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        framer.feed(b"567890")


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)


@given(st.sampled_from(["ERROR", "ADDED", "BOOKMARK", "x"]) | _JSON, _JSON)
def test_whatever_a_line_holds_only_the_errors_of_the_port_are_raised(word: Any, item: Any) -> None:
    with contextlib.suppress(EdgeError):
        read_watched(json.dumps({"type": word, "object": item}).encode(), Ask("watch", "it", "GET", "/"), project=dict)
