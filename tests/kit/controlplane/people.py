"""Users whose tokens are made while the server runs: the API server asks here who a token belongs to.

It does so by its own token webhook; a token file is read only once, when it starts.
"""

import contextlib
import json
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class People:
    """Who holds which token. `named` maps a token to the user as a TokenReview spells one."""

    def __init__(self) -> None:
        self.named: dict[str, dict[str, Any]] = {}

    def add(self, name: str, groups: Sequence[str] = (), *, extra: Mapping[str, Sequence[str]] | None = None) -> str:
        """Make a token for a user and return it; the API server knows it at once."""
        token = secrets.token_urlsafe(24)
        everything = {key: list(values) for key, values in (extra or {}).items()}
        self.named[token] = {"username": name, "uid": name, "groups": list(groups), "extra": everything}
        return token

    def review(self, token: str) -> dict[str, Any]:
        """Return the TokenReview that answers for a token."""
        user = self.named.get(token)
        status = {"authenticated": False} if user is None else {"authenticated": True, "user": user}
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}

    @contextlib.contextmanager
    def answering(self) -> Iterator[str]:
        """Answer TokenReviews while the body runs; give the URL."""
        with ThreadingHTTPServer(("127.0.0.1", 0), _answering(self)) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/"
            finally:
                server.shutdown()
                thread.join()


def _answering(people: People) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        """Answers one connection of the API server."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(people.review(asked["spec"]["token"])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is http.server's
            """Say nothing."""

    return Answering
