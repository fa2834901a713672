"""A front of the pretend API server: the requests of our own client over plain HTTP, so that every command works on it.

It lives on the event loop of the cluster and has no judgement: each request is a call of the port, each error of the
port a Status of the code that it names, or that stands for it. Only this machine reaches it, and everybody on it may do
everything.
"""

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from gpuward.model.resource import PODS, RESOURCES, SELF_REVIEWS, Resource
from gpuward.ports import Conflict, EdgeError, Evicted, Eviction, Object, Refused, Unreachable, Watched
from gpuward.sim.cluster.answers import Spoken
from gpuward.sim.cluster.cluster import PretendCluster

_LISTS_KEPT = 64
"""So many lists are kept for those who read them page by page; the token of an older one is too old."""
_END_SECONDS = 0.5
_LONGEST_DEADLINE = 3600.0
_BY_PLURAL = {(row.group, row.version, row.plural): row for row in (*RESOURCES, SELF_REVIEWS)}
_CODES: Mapping[type[EdgeError], tuple[int, str]] = {
    Conflict: (409, "Conflict"),
    Refused: (403, "Forbidden"),
    Unreachable: (503, "ServiceUnavailable"),
}
_GONE = (410, "Expired")


@dataclass(frozen=True, slots=True)
class Door:
    """Where the front is."""

    url: str

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig that leads there."""
        named = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pretend",
            "clusters": [{"name": "pretend", "cluster": {"server": self.url}}],
            "users": [{"name": "pretend", "user": {}}],
            "contexts": [{"name": "pretend", "context": {"cluster": "pretend", "user": "pretend"}}],
        }
        path.write_text(f"{json.dumps(named, indent=2)}\n", "utf-8")


@contextlib.asynccontextmanager
async def opened(cluster: PretendCluster) -> AsyncIterator[Door]:
    """Serve a cluster on a free port of this machine; who is connected at the end is cut off."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _Front(cluster).answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_END_SECONDS, keepalive_timeout=_LONGEST_DEADLINE)
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        try:
            await web.SockSite(runner, listening).start()
            yield Door(f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            await runner.cleanup()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request is about."""

    resource: Resource
    namespace: str | None
    name: str
    subresource: str


@dataclass(slots=True)
class _Front:
    cluster: PretendCluster
    _rests: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    _tokens: "itertools.count[int]" = field(default_factory=itertools.count)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0-pretend"})
        asked = _read(request.path)
        doing = None if asked is None else self._doing(request, asked)
        if asked is None or doing is None:
            return _status(404, "NotFound", "the server could not find the requested resource")
        try:
            return await doing(request, asked)
        except EdgeError as error:
            code = _code_of(error, is_read=request.method == "GET")
            return _status(*code, str(error), **(error.details if isinstance(error, Spoken) else {}))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return _status(400, "BadRequest", f"the request is not understood ({type(error).__name__})")

    def _doing(
        self, request: web.Request, asked: _Asked
    ) -> Callable[[web.Request, _Asked], Coroutine[Any, Any, web.StreamResponse]] | None:
        if asked.subresource == "eviction":
            return self._evict if request.method == "POST" and asked.resource == PODS else None
        many = self._watch if request.query.get("watch") == "true" else self._list
        known = {
            ("GET", False): many,
            ("GET", True): self._get,
            ("POST", False): self._create,
            ("PATCH", True): self._patch,
            ("DELETE", True): self._delete,
        }
        is_for_it = not asked.subresource or request.method == "PATCH"
        return known.get((request.method, bool(asked.name))) if is_for_it else None

    async def _list(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        token, limit = request.query.get("continue", ""), int(request.query.get("limit", "0"))
        if token:
            if token not in self._rests:
                return _status(*_GONE, "the provided continue parameter is too old")
            version, items = self._rests.pop(token)
        else:
            found = await self.cluster.list(asked.resource, namespace=asked.namespace, **_chosen(request))
            version, items = found.version, list(found.items)
        metadata = {"resourceVersion": version}
        if limit and len(items) > limit:
            metadata["continue"] = self._keep(version, items[limit:])
            items = items[:limit]
        row = asked.resource
        return web.json_response(
            {"apiVersion": row.api_version, "kind": f"{row.kind}List", "metadata": metadata, "items": items}
        )

    def _keep(self, version: str, rest: list[Any]) -> str:
        """Keep the rest of a list, and return the token that continues with it."""
        while len(self._rests) >= _LISTS_KEPT:
            del self._rests[next(iter(self._rests))]
        token = f"page-{next(self._tokens)}"
        self._rests[token] = version, rest
        return token

    async def _watch(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        seconds = float(request.query.get("timeoutSeconds", "300"))
        network = self.cluster.network
        await network.thawed(network.clock.monotonic() + seconds)
        told = self.cluster.watch(
            asked.resource,
            since=request.query.get("resourceVersion", ""),
            namespace=asked.namespace,
            timeout_seconds=seconds,
            **_chosen(request),
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # nobody listens any more
            await self._tell(response, told, asked.resource)
        return response

    async def _tell(self, response: web.StreamResponse, told: AsyncIterator[Watched], resource: Resource) -> None:
        try:
            async for one in told:
                bare = {"kind": resource.kind, "apiVersion": resource.api_version}
                metadata = {"metadata": {"resourceVersion": one.version}}
                item = bare | metadata if one.item is None else bare | dict(one.item)
                await _write(response, {"type": one.happened.value, "object": item})
        except EdgeError as error:
            code, reason = _code_of(error, is_read=True)
            await _write(response, {"type": "ERROR", "object": _said(code, reason, str(error))})
        finally:
            if isinstance(told, AsyncGenerator):
                await told.aclose()

    async def _get(self, _: web.Request, asked: _Asked) -> web.StreamResponse:
        found = await self.cluster.get(asked.resource, asked.name, namespace=asked.namespace)
        return _missing(asked) if found is None else web.json_response(found)

    async def _create(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        body: Object = await request.json()
        made = await self.cluster.create(asked.resource, body, namespace=asked.namespace)
        return web.json_response(made, status=201)

    async def _patch(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        if request.content_type != "application/json-patch+json":
            return _status(415, "UnsupportedMediaType", "the pretend server takes JSON patches only")
        operations = await request.json()
        changed = await self.cluster.patch(
            asked.resource, asked.name, operations, namespace=asked.namespace, subresource=asked.subresource
        )
        return web.json_response(changed)

    async def _delete(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        options = await request.json() if request.can_read_body else {}
        goes = await self.cluster.delete(asked.resource, asked.name, namespace=asked.namespace, **_ending(options))
        return web.json_response({"kind": "Status", "status": "Success"}) if goes else _missing(asked)

    async def _evict(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        body = await request.json()
        ending = _ending(body.get("deleteOptions") or {})
        became = await self.cluster.evict(
            asked.name, namespace=asked.namespace or "", uid=ending["uid"] or "", grace_seconds=ending["grace_seconds"]
        )
        return _evicted(asked, became)


def _read(path: str) -> _Asked | None:
    """Return what a path is about, None for a kind that is not served."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:  # noqa: PLR2004  its place
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "", "")[:3]
    resource = _BY_PLURAL.get((group, version, plural))
    too_long = len(rest) > 3  # noqa: PLR2004  kind, name and subresource
    if resource is None or too_long or (namespace is not None and not resource.namespaced):
        return None
    return _Asked(resource, namespace, name, subresource)


def _chosen(request: web.Request) -> dict[str, Any]:
    return {"labels": request.query.get("labelSelector", ""), "fields": request.query.get("fieldSelector", "")}


def _ending(options: Mapping[str, Any]) -> dict[str, Any]:
    uid = (options.get("preconditions") or {}).get("uid")
    return {"uid": uid, "grace_seconds": options.get("gracePeriodSeconds")}


def _evicted(asked: _Asked, became: Eviction) -> web.Response:
    match became.outcome:
        case Evicted.ASKED:
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        case Evicted.HELD:
            causes = [{"reason": "DisruptionBudget", "message": became.why}]
            return _status(429, "TooManyRequests", became.why, causes=causes)
        case Evicted.TANGLED:
            return _status(500, "InternalError", became.why)
        case _:
            return _missing(asked)


def _code_of(error: EdgeError, *, is_read: bool) -> tuple[int, str]:
    """Return the code and reason for an error of the port; a read conflicts only with what is forgotten."""
    if isinstance(error, Spoken):
        return error.code
    if is_read and isinstance(error, Conflict):
        return _GONE
    return next(code for kind, code in _CODES.items() if isinstance(error, kind))


def _missing(asked: _Asked) -> web.Response:
    words = f'{asked.resource.plural} "{asked.name}" not found'
    return _status(404, "NotFound", words, name=asked.name, kind=asked.resource.plural)


def _status(code: int, reason: str, message: str, **details: Any) -> web.Response:
    return web.json_response(_said(code, reason, message, **details), status=code)


def _said(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "code": code, "reason": reason, "message": message, "details": details}


async def _write(response: web.StreamResponse, event: Mapping[str, Any]) -> None:
    await response.write(json.dumps(event).encode() + b"\n")
    await asyncio.sleep(0)  # many at once must not hold up all others
