"""The cluster's side of a node: all that runs on its event loop, together, in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from gpuward.agent.connection import Connection, Place
from gpuward.agent.courier import Courier
from gpuward.agent.liveness import Liveness
from gpuward.agent.wishes import Wishes

_LAST_SECONDS = 2.0
"""How long what was sent last may take when the agent ends."""


async def serve(connection: Connection, place: Place) -> None:
    """Carry, follow and live until cancelled."""
    liveness = Liveness(connection, place)
    courier = Courier(connection, place, worry=lambda worried: liveness.worry(worried=worried))
    wishes = Wishes(connection, place, lost=courier.write_anew)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(courier.carry())
        tasks.create_task(wishes.follow())
        tasks.create_task(liveness.beat())
        tasks.create_task(liveness.mind_leader())


@dataclass
class Thread:
    """The thread of the cluster's side. `error` is what ended it before its time; None: nothing did."""

    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)


@contextmanager
def beside(connect: Callable[[], AbstractAsyncContextManager[Connection]], place: Place) -> Iterator[Thread]:
    """Serve in a thread while the body runs; the body ends when `ended` is set, for nobody hears the cluster then.

    `connect` is entered in that thread, on its event loop.
    """
    thread = Thread()
    started: list[Callable[[], object]] = []
    ready = threading.Event()

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        started.append(lambda: loop.call_soon_threadsafe(stop.set))
        ready.set()
        async with _serving(connect, place) as serving:
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if serving.done():
                serving.result()

    def work() -> None:
        try:
            asyncio.run(until_stopped())
        except Exception as error:  # noqa: BLE001  whatever it is, the agent must hear of it
            thread.error = error
        finally:
            ready.set()
            thread.ended.set()

    worker = threading.Thread(target=work, name="cluster", daemon=True)
    worker.start()
    ready.wait()
    try:
        yield thread
    finally:
        for stop in started:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                stop()
        worker.join(_LAST_SECONDS)


@asynccontextmanager
async def _serving(
    connect: Callable[[], AbstractAsyncContextManager[Connection]], place: Place
) -> AsyncIterator["asyncio.Task[None]"]:
    async with connect() as connection:
        task = asyncio.create_task(serve(connection, place))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})
