"""A plain HTTP server between processes and a real API server: it sees each write, and may hold it or let it be lost.

Watches are streamed through. Each process comes by an address of its own, so that a write tells who sent it.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.kit.controlplane import folder
from tests.kit.controlplane.plane import ControlPlane

_WRITES = {"POST", "PUT", "PATCH", "DELETE"}
_UNTOLD = ("/leases", "/events", "/selfsubject", "/subjectaccess", "/tokenreviews")
"""Writes that are not counted: they change no object that a case is about."""
_MOST_HELD = 64
"""So many writes may be held at the same time."""
_ONE_HOP = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True, slots=True)
class Write:
    """A request that changes something; `code` is the server's answer, 0 before there is one."""

    who: int
    method: str
    path: str
    body: str
    code: int = 0


@dataclass
class Between:
    """What stands in between. `before` says whether a write goes on to the server; both may take their time."""

    plane: ControlPlane
    before: Callable[[Write], bool] = lambda _: True
    after: Callable[[Write], None] = lambda _: None
    done: list[Write] = field(default_factory=list)
    """The writes that the server answered well, in the order of its answers."""
    port: int = 0

    def kubeconfig(self, who: int, token: str) -> str:
        """Return the text of a kubeconfig by which a process comes as `who`."""
        return folder.kubeconfig(f"http://127.0.0.1:{self.port}/{who}", token=token)

    @contextlib.contextmanager
    def standing(self) -> Iterator["Between"]:
        """Stand in between while the body runs."""
        up, ended = threading.Event(), threading.Event()
        serving = threading.Thread(target=lambda: asyncio.run(self._serve(up, ended)))
        serving.start()
        try:
            assert up.wait(30), "it does not stand"
            yield self
        finally:
            ended.set()
            serving.join()

    async def _serve(self, up: threading.Event, ended: threading.Event) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_MOST_HELD))
        trust = ssl.create_default_context(cafile=self.plane.ca_file)
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:

            async def answer(request: web.BaseRequest) -> web.StreamResponse:
                return await self._answer(session, request)

            runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            up.set()
            await asyncio.to_thread(ended.wait)
            await runner.cleanup()

    async def _answer(self, session: aiohttp.ClientSession, request: web.BaseRequest) -> web.StreamResponse:
        who, _, rest = request.raw_path.lstrip("/").partition("/")
        body = await request.read()
        write = Write(int(who), request.method, f"/{rest}", body.decode())
        is_told = request.method in _WRITES and not any(one in rest for one in _UNTOLD)
        if is_told and not await asyncio.to_thread(self.before, write):
            return _lost(request)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _ONE_HOP}
        async with session.request(
            request.method, f"{self.plane.url}/{rest}", data=body or None, headers=headers
        ) as answered:
            if is_told:
                write = Write(write.who, write.method, write.path, write.body, answered.status)
                if answered.ok:
                    self.done.append(write)
                await asyncio.to_thread(self.after, write)
            return await _streamed(answered, request)


async def _streamed(answered: aiohttp.ClientResponse, request: web.BaseRequest) -> web.StreamResponse:
    headers = {key: value for key, value in answered.headers.items() if key.lower() not in _ONE_HOP}
    back = web.StreamResponse(status=answered.status, headers=headers)
    with contextlib.suppress(ConnectionError):  # it may be dead
        await back.prepare(request)
        async for piece in answered.content.iter_any():
            await back.write(piece)
        await back.write_eof()
    return back


def _lost(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)  # nobody hears it
