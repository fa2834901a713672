"""A server on 127.0.0.1 that answers each request as it is told, byte by byte, and remembers what it was asked."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gpuward.adapters.kubernetes import Access, KubernetesCluster
from gpuward.adapters.kubernetes.patience import Patience
from gpuward.adapters.kubernetes.watching import Quiet

TOKEN = "s3cr3t-token"  # noqa: S105  made up


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(code: int, body: Any = None, **headers: str) -> Reply:
    """Answer with JSON, or with text as it is."""
    text = body if isinstance(body, str) else json.dumps(body)
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {code} Word\r\nContent-Length: {len(text.encode())}\r\n{more}\r\n"

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + text.encode())

    return reply


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    """Return a Status object."""
    kind = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return {**kind, "reason": reason, "message": message, "details": details}


def pieces(*parts: bytes, whole: bool = True, forever: bool = False) -> Reply:
    """Answer with a stream in these pieces; not `whole` breaks off after them, `forever` stays open and silent."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in parts:
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.001)
        if forever:
            await asyncio.sleep(60)
        if whole:
            writer.write(b"0\r\n\r\n")
        else:
            writer.close()

    return reply


async def drop(writer: asyncio.StreamWriter) -> None:
    """Close the connection without an answer."""
    writer.close()


async def hang(_: asyncio.StreamWriter) -> None:
    """Say nothing."""
    await asyncio.sleep(60)


@dataclass
class Scripted:
    """The server, its cluster as the adapter sees it, and the pauses that the adapter made."""

    replies: list[Reply]
    asked: list[Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    url: str = ""
    gone: int = 0
    """How many connections were ended by the other side."""
    headers: list[str | None] = field(default_factory=lambda: [f"Bearer {TOKEN}"])
    """What the token is, and what it is each time that it was refused; the last one stays."""
    chance: float = 1.0

    def cluster(self, *, connections: int = 8, quiet: Quiet = Quiet(60.0, 10.0), page: int = 2) -> KubernetesCluster:  # noqa: B008  frozen
        """Return the adapter to it; pauses are counted and not made."""

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        return KubernetesCluster(
            Access(self.url, lambda: None, self._authorization),
            page=page,
            quiet=quiet,
            connections=connections,
            patience=Patience(),
            sleep=sleep,
            chance=lambda: self.chance,
        )

    async def until(self, seen: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(20):
            while not seen():  # noqa: ASYNC110  whatever it may be
                await asyncio.sleep(0.02)

    async def _authorization(self, refused: str | None) -> str | None:
        if refused is not None and len(self.headers) > 1:
            self.headers.pop(0)
        return self.headers[0]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while not writer.is_closing():
                self.asked.append(await _request(reader))
                reply = asyncio.ensure_future((self.replies.pop(0) if self.replies else drop)(writer))
                left = asyncio.ensure_future(_left(reader))
                await asyncio.wait({reply, left}, return_when=asyncio.FIRST_COMPLETED)
                self.gone += left.done() and not reply.done()
                for one in (reply, left):
                    one.cancel()
                await asyncio.gather(reply, left, return_exceptions=True)
        writer.close()


async def _left(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has left."""
    while not reader.at_eof():  # noqa: ASYNC110  a stream has no event for it, and reading would take the next request
        await asyncio.sleep(0.02)


async def _request(reader: asyncio.StreamReader) -> Request:
    head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", 0))
    body = json.loads(await reader.readexactly(length)) if length else None
    method, path, _ = head.split(" ")
    return Request(method, path, headers, body)


@contextlib.asynccontextmanager
async def scripted(*replies: Reply, **options: Any) -> AsyncIterator[tuple[Scripted, KubernetesCluster]]:
    """Give a server with its replies, one for each request, and the adapter to it."""
    kept = {key: options.pop(key) for key in ("headers", "chance") if key in options}
    server = Scripted(list(replies), **kept)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 20)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    cluster = server.cluster(**options)
    try:
        yield server, cluster
    finally:
        await cluster.close()
        listening.close()
        await listening.wait_closed()
