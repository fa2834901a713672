"""Plain requests to an API server, as one user. What the objects mean is the caller's."""

import contextlib
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered."""

    code: int
    text: str

    @property
    def good(self) -> bool:
        """Say whether the server did it."""
        return 200 <= self.code < 300

    def body(self) -> Any:
        """Return the JSON of the answer, whatever its code."""
        return json.loads(self.text)

    def ok(self) -> Any:
        """Return the JSON of the answer; fail with the server's words when it refused."""
        assert self.good, f"the API server answered {self.code}: {self.text}"
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Api:
    """A server as one user sees it; no `token` is the anonymous user. May be used by many threads.

    Each call is a connection of its own and raises OSError or http.client.HTTPException when there is no answer.
    """

    url: str
    ca_file: Path | None
    token: str = ""

    def request(self, method: str, path: str, *, body: Any = None, content: str = JSON, accept: str = JSON) -> Reply:
        """Ask once and return the answer; `path` begins with a slash, `body` is what JSON can hold."""
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = content
        with contextlib.closing(self._connection()) as connection:
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode())

    def get(self, path: str) -> Reply:
        """Read."""
        return self.request("GET", path)

    def post(self, path: str, body: Any) -> Reply:
        """Create."""
        return self.request("POST", path, body=body)

    def put(self, path: str, body: Any) -> Reply:
        """Replace."""
        return self.request("PUT", path, body=body)

    def patch(self, path: str, body: Any, *, content: str = MERGE_PATCH) -> Reply:
        """Change."""
        return self.request("PATCH", path, body=body, content=content)

    def delete(self, path: str, *, options: Any = None) -> Reply:
        """Delete, with DeleteOptions if given."""
        return self.request("DELETE", path, body=options)

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
        trust = ssl.create_default_context(cafile=self.ca_file)
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS, context=trust)
