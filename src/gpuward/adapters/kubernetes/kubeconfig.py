"""How the API server is reached by a kubeconfig. What such a file may say is kubernetes_asyncio's to know, not ours.

That library is imported only here and only when asked for: it is many times as large as all the rest.
"""

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuward.adapters.kubernetes.access import Access, TrustFiles, sendable
from gpuward.adapters.kubernetes.kubeshape import check_shape
from gpuward.adapters.kubernetes.place import shown
from gpuward.ports import EdgeError, Refused, Unreachable

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

RENEW_SECONDS = 60.0
"""How long a token of a file or a plug-in is taken as good before it is looked at again, as client-go does."""
_TOKEN = "BearerToken"  # noqa: S105  the library's key for it


async def from_kubeconfig(
    path: str | None = None, context: str | None = None, *, monotonic: Callable[[], float] | None = None
) -> Access:
    """Return the way that a kubeconfig tells: `path`, else $KUBECONFIG, else ~/.kube/config; with its current context.

    Several files joined by colons are one kubeconfig, as kubectl has it: those that are not there are passed over, the
    first one that sets a name or the current context wins, and a path in a file begins at the folder of that file.
    Tokens, client certificates, token files, exec plug-ins and OpenID are renewed as they run out. Raises Refused when
    it is not there or cannot be used.
    """
    named = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
    login = _Login(named, context, monotonic=monotonic or asyncio.get_running_loop().time)
    await login.load()
    return Access(
        url=login.url,
        trust=login.trust,
        authorization=login.authorization,
        server_name=login.configuration.tls_server_name or None,
        proxy=login.configuration.proxy or None,
    )


class _Login:
    """What a kubeconfig gives now."""

    def __init__(self, path: str, context: str | None, *, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._context = context
        self._monotonic = monotonic
        self._one_at_a_time = asyncio.Lock()
        self._loader: KubeConfigLoader
        self._renewed_at = 0.0
        self._files: tuple[str | None, ...] = ()
        self._trusted: TrustFiles | None = None
        self.configuration: Configuration

    @property
    def url(self) -> str:
        """The address of the server, without a slash at its end."""
        return str(self.configuration.host)

    def trust(self) -> ssl.SSLContext | None:
        """Return the context of the files that are named now."""
        if not self.url.startswith("https://"):
            return None
        now = self.configuration
        files = (now.ssl_ca_cert, now.cert_file, now.key_file)
        if self._trusted is None or files != self._files:
            authority, certificate, key = (Path(file) if file else None for file in files)
            own = (certificate, key) if certificate and key else None
            trusted = TrustFiles(authority, own, verify=bool(now.verify_ssl), origin=f"the kubeconfig {self._path}")
            self._trusted, self._files = trusted, files
        return self._trusted.context()

    async def authorization(self, refused: str | None = None) -> str | None:
        """Return the header, None when the certificate alone says who we are."""
        async with self._one_at_a_time:
            if refused is not None and refused == self._header():
                await self._told(self._load(), Unreachable)
            elif self._is_due():
                with contextlib.suppress(Unreachable):  # what we have may still be good, and the server says if not
                    await self._told(self._loader.load_and_set(self.configuration), Unreachable)
            return self._header()

    async def load(self) -> None:
        """Read the file, and ask its plug-in. Raises Refused."""
        if not self._there():
            raise Refused(f"there is no kubeconfig at {self._path}; name one with --kubeconfig")
        await self._told(self._load(), Refused)

    def _there(self) -> list[Path]:
        """Return the files that are there; of several some may be missing."""
        named = [Path(one).expanduser() for one in self._path.split(os.pathsep) if one]
        return [one for one in named if one.exists()]

    async def _load(self) -> None:
        shape = check_shape(self._there(), self._context)
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415  see the head of this file
        from kubernetes_asyncio.config import load_kube_config  # noqa: PLC0415

        logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())  # it says on stderr what it raises
        found = Configuration()
        files = os.pathsep.join(map(str, shape.files))
        self._loader = await load_kube_config(files, shape.context, client_configuration=found)
        self.configuration = found

    async def _told(self, loading: Awaitable[None], trouble: type[EdgeError]) -> None:
        """Await what reads the file; the library raises anything where that or a plug-in is not as it should be."""
        try:
            await loading
        except Refused as error:
            raise trouble(str(error)) from error
        except Exception as error:
            raise trouble(f"the kubeconfig {self._path} cannot be used ({_plain(error)}); mend it") from error
        finally:
            self._renewed_at = self._monotonic()

    def _is_due(self) -> bool:
        """Say whether to look again; a plug-in that tells no end of its token is asked only when that is refused."""
        user = self._loader._user  # noqa: SLF001  nothing else tells how the user logs in
        forever = user is not None and "exec" in user and not hasattr(self._loader, "exec_plugin_expiry")
        return not forever and self._monotonic() - self._renewed_at >= RENEW_SECONDS

    def _header(self) -> str | None:
        header = self.configuration.api_key.get(_TOKEN)
        return sendable(str(header), f"the kubeconfig {self._path}") if header else None


def _plain(error: Exception) -> str:
    """Return what the library says, up to where it shows the contents of the file, tokens among them."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no {shown(str(error.filename))}"
    return shown(str(error).partition("{")[0] or type(error).__name__)
