"""A connection that is given up while it is made: it is closed before its loop is, whoever cuts the call off."""

import asyncio
import gc
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuward.adapters.kubernetes import Access, KubernetesCluster
from gpuward.model.resource import NODES
from tests.adapters.test_kubernetes_access import certificate  # noqa: F401  a fixture

_STEPS = 120
"""Turns of the loop after which the call is cut off, one more each time: from before the socket to the request."""


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@contextmanager
def _server(context: ssl.SSLContext) -> Iterator[int]:
    """Serve in a thread of its own, with TLS and without an answer; give the port."""
    loop, ports = asyncio.new_event_loop(), []

    async def serve() -> None:
        server = await asyncio.start_server(_silent, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        began.set()
        await stop.wait()
        server.close()
        await asyncio.sleep(0.05)

    began, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert began.wait(20.0)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20.0)
        loop.close()


async def _cut_off(access: Access, steps: int) -> None:
    cluster = KubernetesCluster(access)
    asking = asyncio.ensure_future(cluster.get(NODES, "n1"))
    for _ in range(steps):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    await cluster.close()


async def _cut_off_all(access: Access, all_steps: Iterable[int]) -> None:
    await asyncio.gather(*(_cut_off(access, steps) for steps in all_steps))


@pytest.mark.usefixtures("certificate")
def test_a_connection_that_is_given_up_while_it_is_made_does_not_outlive_its_loop(tmp_path: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "authority.crt", tmp_path / "authority.key")
    trusting = ssl.create_default_context(cafile=str(tmp_path / "authority.crt"))
    trusting.check_hostname = False

    async def nobody(_refused: str | None) -> str | None:
        return None

    with _server(serving) as port:
        access = Access(f"https://127.0.0.1:{port}", lambda: trusting, nobody)
        for steps in range(0, _STEPS, 20):
            asyncio.run(_cut_off_all(access, range(steps, steps + 20)))
    gc.collect()  # what was left open would say so now, and fail this test
