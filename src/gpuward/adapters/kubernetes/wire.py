"""Requests to an API server over aiohttp: deadlines, few tries again, tokens that are renewed. cluster.py knows why."""

import asyncio
import contextlib
import json
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from yarl import URL

from gpuward import __version__
from gpuward.adapters.kubernetes.access import Access
from gpuward.adapters.kubernetes.answer import JSON, NOT_KNOWN, Answer, Ask, error_of
from gpuward.adapters.kubernetes.light import aiohttp
from gpuward.adapters.kubernetes.patience import Chance, Patience
from gpuward.adapters.kubernetes.place import shown
from gpuward.ports import Refused, Unreachable

CONNECTIONS = 32
"""Requests under way at once, watches not counted. More did not make patches faster."""
_BAD_REQUEST = 400
_UNAUTHORIZED = 401
_OVERLOADED = 429
_UNAVAILABLE = 503
_AGAIN = frozenset({500, 502, _UNAVAILABLE, 504})
_FAREWELL_SECONDS = 0.25
"""How long a TLS connection that was given up while it was made may take to close itself (aiohttp's documentation)."""
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
)
"""What OpenSSL, by its version, makes of an answer that is no TLS."""
_ONLY_TLS = re.compile(rb"HTTP request (?:to an|was sent to) HTTPS (?:server|port)")
"""How servers written in Go say it, the API server among them, and nginx."""
_NO_LIMITS = aiohttp.ClientTimeout()
"""The deadline of each call is the only one."""

Sleep = Callable[[float], Awaitable[None]]
Settled = Callable[[Answer], bool]
"""Says of an answer that is not good whether it is what was asked for all the same, so that nobody asks again."""
Sent = TypeVar("Sent")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the clock of the event loop, and how long it was away when it was set."""

    seconds: float
    end: float


def within(seconds: float) -> Deadline:
    """Return the deadline `seconds` from now."""
    return Deadline(seconds, asyncio.get_running_loop().time() + seconds)


class _Broken(Unreachable):
    """No whole answer came. `reached` says whether the server may have got the request."""

    def __init__(self, sentence: str, *, reached: bool) -> None:
        super().__init__(sentence)
        self.reached = reached


@dataclass(slots=True)
class _Trial:
    """How it stands with one call. `under_way` says whether the server may be at it, for all we know."""

    limit: asyncio.Timeout
    settled: Settled | None = None
    tried: int = 0
    under_way: bool = False


class Wire:
    """The connections to one API server, used by one event loop. They are opened when first used."""

    def __init__(
        self,
        access: Access,
        *,
        patience: Patience = Patience(),  # noqa: B008  frozen
        connections: int = CONNECTIONS,
        sleep: Sleep = asyncio.sleep,
        chance: Chance = random.random,
    ) -> None:
        self._access = access
        self._patience = patience
        self._places = asyncio.Semaphore(connections)
        self._sleep = sleep
        self._chance = chance
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._given_up_at: float | None = None
        """When a call was last cut off before its answer began, on the loop's clock."""

    async def call(self, ask: Ask, deadline: Deadline, *, settled: Settled | None = None) -> Answer:
        """Return the answer: a good one, or the last of those that no further try would better.

        It is asked again, within the deadline, only what the server did not do (429, 503 with a time to wait, no
        connection), or what is as good done twice. Raises Unreachable when no answer came.
        """
        trial = _Trial(asyncio.timeout_at(deadline.end), settled)
        try:
            async with trial.limit, self._places:
                return await self._persist(ask, trial, send=self._whole)
        except TimeoutError as error:
            raise self._late(ask, deadline.seconds, under_way=trial.under_way) from error

    @contextlib.asynccontextmanager
    async def stream(self, ask: Ask, deadline: Deadline) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give the beginning of a good answer that goes on; its connection ends with the body.

        The deadline is that of the beginning. Raises as `call` does, and as error_of for an answer that is not good.
        """
        trial = _Trial(asyncio.timeout_at(deadline.end))
        try:
            async with trial.limit:
                opened = await self._persist(ask, trial, send=self._opened)
        except TimeoutError as error:
            raise self._late(ask, deadline.seconds, under_way=trial.under_way) from error
        if isinstance(opened, Answer):
            raise error_of(ask, opened.status())
        try:
            yield opened
        finally:
            opened.close()

    async def close(self) -> None:
        """Close the connections; what is asked later is Unreachable."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
        if self._given_up_at is not None:
            # What was being made is in no pool: it must not outlive its loop half closed.
            await asyncio.sleep(self._given_up_at + _FAREWELL_SECONDS - asyncio.get_running_loop().time())

    def broken(self, ask: Ask, error: Exception, *, reached: bool = True) -> Unreachable:
        """Return the error for a connection that broke, or never was."""
        fate = NOT_KNOWN if reached and not ask.is_repeatable else ""
        why, remedy = _why(error, self._access.url)
        return _Broken(f"cannot {ask.doing}: {self._access.url} {why}{fate}; {remedy}", reached=reached)

    async def _persist(
        self, ask: Ask, trial: _Trial, *, send: Callable[[Ask, _Trial], Awaitable[Sent | Answer]]
    ) -> Sent | Answer:
        while True:
            trial.tried += 1
            try:
                sent = await send(ask, trial)
                trial.under_way = False
                if not isinstance(sent, Answer) or not _is_worth_another(ask, sent, settled=trial.settled):
                    return sent
                pause = self._pause(trial, sent.retry_after or 0.0)
                if pause is None:
                    return sent
            except _Broken as error:
                trial.under_way = False
                pause = self._pause(trial, 0.0)
                if pause is None or (error.reached and not ask.is_repeatable):
                    raise
            await self._sleep(pause)

    def _pause(self, trial: _Trial, asked_seconds: float) -> float | None:
        """Return how long to wait before the next try, None when there is none: too many, or too late then."""
        if trial.tried >= self._patience.tries:
            return None
        pause = self._patience.pause_seconds(trial.tried, asked_seconds, chance=self._chance)
        end = trial.limit.when()
        return None if end is not None and asyncio.get_running_loop().time() + pause >= end else pause

    async def _whole(self, ask: Ask, trial: _Trial) -> Answer:
        opened = await self._opened(ask, trial)
        if isinstance(opened, Answer):
            return opened
        try:
            return Answer(opened.status, await opened.read(), None)
        except (aiohttp.ClientError, OSError) as error:
            raise self.broken(ask, error) from error
        finally:
            opened.release()

    async def _opened(self, ask: Ask, trial: _Trial) -> aiohttp.ClientResponse | Answer:
        """Return a good answer that is still to be read, or a whole one that is not good."""
        header, trust = await self._access.authorization(None), self._access.trust()
        response = await self._sent(ask, trial, header=header, trust=trust)
        if response.status == _UNAUTHORIZED:
            refused = await self._failed(ask, response, header=header)
            renewed, anew = await self._access.authorization(header or ""), self._access.trust()
            if renewed == header and (header or anew is trust):
                return refused
            header = renewed
            response = await self._sent(ask, trial, header=header, trust=anew)
        return response if Answer(response.status, b"").is_good else await self._failed(ask, response, header=header)

    async def _sent(
        self, ask: Ask, trial: _Trial, *, header: str | None, trust: ssl.SSLContext | None
    ) -> aiohttp.ClientResponse:
        trial.under_way = True
        headers = {"Accept": JSON, "Accept-Encoding": "identity"} | ({"Authorization": header} if header else {})
        try:
            return await self._open_session().request(
                ask.method,
                URL(f"{self._access.url}{ask.path}", encoded=True),
                data=None if ask.body is None else json.dumps(ask.body).encode(),
                headers=headers if ask.body is None else headers | {"Content-Type": ask.content},
                ssl=trust or True,
                server_hostname=self._access.server_name,
                proxy=self._access.proxy,
                allow_redirects=False,
            )
        except asyncio.CancelledError:
            self._given_up_at = asyncio.get_running_loop().time()
            raise
        except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as error:
            raise self.broken(ask, error, reached=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.broken(ask, error) from error

    async def _failed(self, ask: Ask, response: aiohttp.ClientResponse, *, header: str | None) -> Answer:
        """Return a whole answer that is not good, without our own token, should a proxy repeat it.

        Raises Refused where a server of TLS says that it was asked without.
        """
        try:
            body = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise self.broken(ask, error) from error
        finally:
            response.release()
        if response.status == _BAD_REQUEST and _ONLY_TLS.search(body) and self._access.url.startswith("http://"):
            remedy = "let its address in the kubeconfig begin with https://"
            raise Refused(f"cannot {ask.doing}: {self._access.url} speaks TLS there and nothing else; {remedy}")
        secret = (header or "").partition(" ")[2].encode()
        return Answer(
            code=response.status,
            body=body.replace(secret, b"(our token)") if secret else body,
            retry_after=_seconds(response.headers.get("Retry-After")),
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise Unreachable(f"the connection to {self._access.url} was closed; open it again")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # `_places` is the limit, and watches have none
                timeout=_NO_LIMITS,
                headers={"User-Agent": f"gpuward/{__version__}"},  # the server keeps it with every field that we set
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _late(self, ask: Ask, seconds: float, *, under_way: bool) -> Unreachable:
        fate = NOT_KNOWN if under_way and not ask.is_repeatable else ""
        return Unreachable(
            f"cannot {ask.doing}: {self._access.url} did not answer within {seconds:g} s{fate}; try again later"
        )


def _is_worth_another(ask: Ask, answer: Answer, *, settled: Settled | None) -> bool:
    if answer.is_good or (settled is not None and settled(answer)):
        return False
    if answer.code == _OVERLOADED:
        return True
    # With a time to wait the server says that it did nothing yet (client-go holds it so for every request).
    if answer.code == _UNAVAILABLE and answer.retry_after is not None:
        return True
    return ask.is_repeatable and answer.code in _AGAIN


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After; the form with a date is not what an API server sends."""
    return float(text) if text and text.isascii() and text.isdecimal() else None


def _why(error: Exception, url: str) -> tuple[str, str]:
    """Return in words why there is no connection, without what aiohttp adds about itself, and what helps."""
    again = "try again later"
    if url.startswith("http://") and isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError)):
        again = "try again later, or with an address that begins with https:// where it speaks TLS"
    match error:
        case aiohttp.ClientConnectorCertificateError():
            authority = "see certificate-authority in the kubeconfig, and the name in its certificate"
            return f"is not trusted ({shown(str(error.certificate_error))})", authority
        case aiohttp.ClientConnectorSSLError() if getattr(error.os_error, "reason", "") in _NO_TLS:
            plain = "let its address in the kubeconfig begin with http://, or name the port where it does"
            return "does not speak TLS there", plain
        case aiohttp.ClientConnectorError():
            return f"cannot be reached ({shown(error.os_error.strerror or str(error.os_error))})", again
        case aiohttp.ServerDisconnectedError():
            return "closed the connection without an answer", again
        case _:
            return f"broke the connection ({shown(str(error) or type(error).__name__)})", again
