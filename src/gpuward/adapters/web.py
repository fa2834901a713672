"""A few small pages over HTTP, for a kubelet and a monitoring system. What they say is not here."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from gpuward.ports import Refused

_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered; `accept` of the request was given to who made it."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    good: bool = True


Pages = Mapping[str, Callable[[str], Reply]]
"""By path, what is answered to a request with this `Accept`."""


@contextlib.asynccontextmanager
async def served(pages: Pages, port: int, *, host: str | None = None) -> AsyncIterator[int]:
    """Serve the pages while the body runs, and give the port. Raises Refused when it cannot be had."""
    application = web.Application(client_max_size=1024)
    for path, page in pages.items():
        application.router.add_get(path, _handler(page))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_END_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            why = error.strerror or error
            raise Refused(f"port {port} cannot be served: {why}; give another --metrics-port") from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _handler(page: Callable[[str], Reply]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        reply = page(request.headers.get("Accept", ""))
        status = web.HTTPOk.status_code if reply.good else web.HTTPServiceUnavailable.status_code
        return web.Response(status=status, body=reply.body, headers={"Content-Type": reply.content_type})

    return answer
