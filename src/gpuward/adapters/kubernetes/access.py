"""How the API server is reached from inside its cluster, and what a way to it consists of. Nothing is asked here."""

import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuward.ports import Refused

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the certificate of the authority."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_SENDABLE = re.compile(r"[!-~]+(?: [!-~]+)?", re.ASCII)

Trust = Callable[[], ssl.SSLContext | None]
"""Returns what the server is known by, and we by a certificate if we have one; None where nothing is encrypted."""
Authorization = Callable[[str | None], Awaitable[str | None]]
"""Returns the value of the header Authorization now, None for none; looks anew when given the one that was not
accepted, "" for none."""
Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A way to an API server. `trust` and `authorization` follow what is rotated, and raise Refused or Unreachable."""

    url: str
    """Such as `https://10.0.0.1:443`, without a slash at its end."""
    trust: Trust
    authorization: Authorization
    server_name: str | None = None
    """The name that its certificate has, where that is not the one in the URL."""
    proxy: str | None = None


def in_cluster(environment: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> Access:
    """Return the way from a pod, by its service account. Raises Refused outside a pod."""
    host, port = environment.get(_HOST), environment.get(_PORT)
    if not host or not port:
        raise Refused(f"this is no pod of a cluster: {_HOST} and {_PORT} are not set; name a kubeconfig")
    token, trusted = TokenFile(account / "token"), TrustFiles(account / "ca.crt")
    token.read()
    trusted.context()
    return Access(
        url=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        trust=trusted.context,
        authorization=token.authorization,
    )


class TokenFile:
    """A token in a file that somebody else renews: read again when the file is another one, or its token refused."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: Stamp = ()
        self._header = ""

    async def authorization(self, refused: str | None = None) -> str | None:
        """Return the header as the file has it now. Raises Refused when it never had one that can be sent."""
        if refused is not None:
            self._stamp = ()
        return self.read()

    def read(self) -> str:
        """Return the header; read the file only when it is another one than last time."""
        stamp = stamp_of(self._file)
        if not self._header or stamp != self._stamp:
            self._header, self._stamp = self._renewed(), stamp
        return self._header

    def _renewed(self) -> str:
        try:
            token = self._file.read_text("utf-8").strip()
        except (OSError, UnicodeError) as error:
            if self._header:
                return self._header  # It may be just being replaced, and the one that we have may still be good.
            raise Refused(
                f"the token in {self._file} cannot be read ({error}); see the pod's service account"
            ) from error
        return sendable(f"Bearer {token}", str(self._file))


class TrustFiles:
    """Certificates in files that somebody else renews, made into one context, anew when a file is another one."""

    def __init__(
        self, authority: Path | None, own: tuple[Path, Path] | None = None, *, verify: bool = True, origin: str = ""
    ) -> None:
        """`origin` is what names the files, where those are made from it and their own names tell nobody anything."""
        self._authority = authority
        self._own = own
        self._verify = verify
        self._origin = origin
        self._stamp: Stamp = ()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context for what the files have now. Raises Refused when they never had what can be used."""
        stamp = stamp_of(*filter(None, (self._authority, *(self._own or ()))))
        if self._context is None or stamp != self._stamp:
            self._context, self._stamp = self._renewed(), stamp
        return self._context

    def _renewed(self) -> ssl.SSLContext:
        what: str = "certificate-authority"
        files: tuple[Path | None, ...] = (self._authority,)
        try:
            context = ssl.create_default_context(cafile=self._authority)
            if self._own:
                what, files = "client-certificate and client-key", self._own
                context.load_cert_chain(*self._own)
        except (OSError, ValueError) as error:
            if self._context is not None:
                return self._context
            named = f"{what} of {self._origin}" if self._origin else f"the certificates in {', '.join(map(str, files))}"
            raise Refused(f"{named} cannot be used ({_plain(error)}); see what wrote them") from error
        if not self._verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _plain(error: Exception) -> str:
    """Return what is wrong with a certificate, without the places of a library's source."""
    said = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
    said = re.sub(r"^\[[^]]*\] *| *\(_ssl\.c:\d+\)$", "", said)
    if said == "PEM lib":
        return "not in PEM form, or they do not belong together"
    return said.replace("_", " ").lower() if said.isupper() else said


def sendable(header: str, origin: str) -> str:
    """Return a header's value as it is. Raises Refused when no request can carry it; it is never shown."""
    if not _SENDABLE.fullmatch(header):
        raise Refused(f"{origin} holds no token that can be sent (empty, or more than one line); see what wrote it")
    return header


def stamp_of(*files: Path) -> Stamp:
    """Return what tells whether files are still those of last time; None for each that is not there."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        seen = file.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino, seen.st_size
