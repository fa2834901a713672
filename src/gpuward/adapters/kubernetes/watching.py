"""Watches: a stream of lines, each of which tells one thing that happened. What is done about it is the caller's.

An idle watch may be silent for as long as it lasts: bookmarks come about every minute, and 2 s before its timeout, but
only when the server has learnt of a newer version for this kind (tried against 1.36). So silence alone tells nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from gpuward.adapters.kubernetes.answer import Ask, error_of, read_status
from gpuward.adapters.kubernetes.light import aiohttp
from gpuward.adapters.kubernetes.lines import Lines
from gpuward.adapters.kubernetes.wire import Wire, within
from gpuward.ports import Happened, Project, Unreachable, Watched

_ERROR = "ERROR"
_AFTER_SECONDS = 5.0
"""How long after its timeout a server that does not end a watch itself is waited for."""

AskFrom = Callable[[str, float], Ask]
"""Returns the request for a watch from a version for so many seconds."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """How long a watch may be silent before it is begun again, and by when a beginning must be answered."""

    silence_seconds: float = 90.0
    beginning_seconds: float = 10.0


async def follow(
    wire: Wire, ask_from: AskFrom, *, project: Project, since: str, timeout_seconds: float, quiet: Quiet
) -> AsyncIterator[Watched]:
    """Yield what the lines tell until the server ends them or the time is up.

    A watch that is silent for too long is begun again after the version that was told last, since its connection may
    be dead: nothing is missed, and a server that does not answer is found out. Raises Unreachable when the connection
    breaks or a beginning is not answered, Conflict when the version is too old.
    """
    now = asyncio.get_running_loop().time
    end, version = now() + timeout_seconds, since
    while (rest := end - now()) > 0:
        ask, lines = ask_from(version, rest), Lines()
        async with wire.stream(ask, within(quiet.beginning_seconds)) as response:
            while piece := await _piece(
                wire, ask, response=response, until=min(now() + quiet.silence_seconds, end + _AFTER_SECONDS)
            ):
                for line in _ended(lines, piece, ask=ask):
                    watched = read_watched(line, ask, project=project)
                    version = watched.version
                    yield watched
        if piece is not None:
            _see_whole(lines, ask)
            return


def read_watched(line: bytes, ask: Ask, *, project: Project) -> Watched:
    """Return what a line tells.

    A line may be an error as an answer may be, although the answer was a good one: then it is raised, Conflict when the
    version is too old. Raises Unreachable for a line that tells nothing, as the stream cannot be trusted then.
    """
    try:
        event = json.loads(line)
        word, item = event["type"], event["object"]
        if word == _ERROR:
            raise error_of(ask, read_status(item, 0))
        happened = Happened(word)
        version = str(item["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreachable(f"cannot {ask.doing}: what comes is no watch; watch again") from error
    return Watched(happened, None if happened is Happened.BOOKMARK else project(item), version)


async def _piece(wire: Wire, ask: Ask, *, response: aiohttp.ClientResponse, until: float) -> bytes | None:
    """Return the next bytes, empty when the server ended the watch, None when nothing came until then."""
    try:
        async with asyncio.timeout_at(until):
            return await response.content.readany()
    except TimeoutError as error:
        if asyncio.get_running_loop().time() < until:
            raise wire.broken(ask, error) from error  # the kernel's own, about the connection
        return None
    except (aiohttp.ClientError, OSError) as error:
        raise wire.broken(ask, error) from error


def _ended(lines: Lines, piece: bytes, *, ask: Ask) -> list[bytes]:
    try:
        return lines.feed(piece)
    except ValueError as error:
        raise Unreachable(f"cannot {ask.doing}: {error}; watch again") from error


def _see_whole(lines: Lines, ask: Ask) -> None:
    """See that the end of the stream was that of a line."""
    if lines.has_begun:
        raise Unreachable(f"cannot {ask.doing}: it ended in the middle of a line; watch again")
