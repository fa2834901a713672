"""How the API server is reached by a kubeconfig: what it gives is used until it runs out or is refused."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable
from pathlib import Path

from gpuward.adapters.kubernetes.access import Access, TokenFile, TrustFiles, sendable
from gpuward.adapters.kubernetes.login import Login, ReadLogin
from gpuward.ports import EdgeError, Unreachable

RENEW_SECONDS = 60.0
"""The least between two questions to a plug-in whose token is running out."""
EARLY_SECONDS = 300.0
"""How long before its end a token is renewed: clocks differ."""


async def from_kubeconfig(
    path: str | None = None,
    context: str | None = None,
    *,
    monotonic: Callable[[], float] | None = None,
    read: ReadLogin | None = None,
) -> Access:
    """Return the way that a kubeconfig tells: `path`, else $KUBECONFIG, else ~/.kube/config; with its current context.

    Several files joined by colons are one kubeconfig, as kubectl has it: those that are not there are passed over, the
    first one that sets a name or the current context wins, and a path in a file begins at the folder of that file.
    Tokens, client certificates, token files, exec plug-ins and OpenID are renewed as they run out or are refused.
    `read` says where the files are read, in this process unless told. Raises EdgeError when it cannot be used.
    """
    named = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
    keys = _Keys(named, context, read=read or _here(), monotonic=monotonic or asyncio.get_running_loop().time)
    login = await keys.load()
    return Access(
        url=login.url,
        trust=keys.trust,
        authorization=keys.authorization,
        server_name=login.server_name,
        proxy=login.proxy,
    )


def _here() -> ReadLogin:
    from gpuward.adapters.kubernetes.kubelibrary import read_login  # noqa: PLC0415  who reads aside has no need of it

    return read_login


class _Keys:
    """What a kubeconfig gives now."""

    def __init__(self, path: str, context: str | None, *, read: ReadLogin, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._context = context
        self._read = read
        self._monotonic = monotonic
        self._one_at_a_time = asyncio.Lock()
        self._login: Login
        self._renew_at: float | None = None
        self._trusted: TrustFiles
        self._token: TokenFile | None = None

    async def load(self) -> Login:
        """Read the files, ask their plug-in, and return what they give. Raises EdgeError."""
        try:
            self._login = login = await self._read(self._path, self._context)
        except EdgeError:
            self._renew_at = self._monotonic() + RENEW_SECONDS
            raise
        lasts = login.lasts_seconds
        self._renew_at = None if lasts is None else self._monotonic() + max(RENEW_SECONDS, lasts - EARLY_SECONDS)
        self._token = TokenFile(Path(login.token_file)) if login.token_file else None
        files = (login.authority, login.certificate, login.key)
        authority, certificate, key = (Path(file) if file else None for file in files)
        self._trusted = TrustFiles(
            authority,
            (certificate, key) if certificate and key else None,
            verify=login.is_verified,
            origin=f"the kubeconfig {self._path}",
        )
        return login

    def trust(self) -> ssl.SSLContext | None:
        """Return the context of the files that are named now."""
        way = self._login
        # A proxy that is reached by TLS is judged by the same context.
        is_plain = not any(url and url.startswith("https://") for url in (way.url, way.proxy))
        return None if is_plain else self._trusted.context()

    async def authorization(self, refused: str | None = None) -> str | None:
        """Return the header, None when the certificate alone says who we are."""
        async with self._one_at_a_time:
            if refused is not None and refused == (self._header() or ""):
                await self._load_again()
            elif self._renew_at is not None and self._monotonic() >= self._renew_at:
                with contextlib.suppress(Unreachable):  # what we have may still be good, and the server says if not
                    await self._load_again()
            return self._header()

    async def _load_again(self) -> None:
        """Load; what cannot be used now could be before, so that is Unreachable."""
        try:
            await self.load()
        except EdgeError as error:
            raise Unreachable(str(error)) from error

    def _header(self) -> str | None:
        if self._token is not None:
            return self._token.read()
        header = self._login.header
        return sendable(header, f"the kubeconfig {self._path}") if header else None
