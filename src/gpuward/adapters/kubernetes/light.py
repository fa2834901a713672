"""aiohttp, loaded without what no request of ours uses: 4 MB of the 50 that an agent may hold.

Its own settings and those of OpenSSL say so in the environment, which all threads share: load this before any begins.
"""

import os
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import contextmanager

_WITHOUT = {
    # The authorities of the system, for requests that name none: each of ours names its own.
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    # The lists of hooks of a session as an extension, which needs the library of C++.
    "FROZENLIST_NO_EXTENSIONS": "1",
}


@contextmanager
def _environment_with(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _environment_with(_WITHOUT):
    import aiohttp

SSLProtocol.max_size = 32 * 1024
"""How much a TLS connection reads at once: two of its records. asyncio would keep 256 KiB for each connection."""

__all__ = ["aiohttp"]
