"""A running control plane: etcd and the API server at once, the others on request. What tests put in it is theirs."""

import contextlib
import http.client
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.kit.controlplane import commands, folder, spawn
from tests.kit.controlplane.binaries import Binaries, find_binaries
from tests.kit.controlplane.parts import Part
from tests.kit.controlplane.people import People
from tests.kit.controlplane.rest import Api

START_SECONDS = 90.0
"""How long a part may take until it is ready; an idle machine needs one or two."""
_TICK_SECONDS = 0.05
_TRIES = 4
_TAKEN = "address already in use"
_LOWEST = 12_000
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = (Part.ETCD, Part.API)
"""The parts that every control plane runs."""
_GROUPS = {"admin": "system:masters", "system:kube-scheduler": ""}
"""The users that are there from the start, and their groups."""
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class NotReady(Exception):
    """A part did not become ready; the sentence ends with the last lines of its log."""


@dataclass(frozen=True, slots=True)
class User:
    """Someone who may ask the API server, with a token of their own."""

    name: str
    api: Api
    kubeconfig: Path

    @property
    def token(self) -> str:
        """Return the bearer token."""
        return self.api.token


class ControlPlane:
    """etcd and kube-apiserver on free ports of 127.0.0.1, in a folder of their own; a context manager, used once.

    Enter it from a thread that lasts as long as it is used: all its programs die with that thread (spawn.py).
    """

    def __init__(self, binaries: Binaries | None = None) -> None:
        self.binaries = binaries
        self.people = People()
        self._site: commands.Site | None = None
        self._running: dict[Part, spawn.Program] = {}
        self._known: dict[str, User] = {}
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start; raise Unbuilt or NotReady, with nothing left behind."""
        try:
            self._enter()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def stop(self) -> None:
        """Kill every program and remove the folder; a second time is as good."""
        for part in reversed(list(self._running)):
            self.end(part)
        self._ends.close()

    @property
    def site(self) -> commands.Site:
        """Return where everything lies."""
        assert self._site is not None, "the control plane was not started"
        return self._site

    @property
    def url(self) -> str:
        """Return the URL of the API server."""
        return self.site.url(Part.API)

    @property
    def ca_file(self) -> Path:
        """Return the file to trust the API server by."""
        file = self.site.ca_file(Part.API)
        assert file is not None
        return file

    @property
    def admin(self) -> User:
        """Return the user who may do everything (group system:masters)."""
        return self._known["admin"]

    @property
    def anonymous(self) -> Api:
        """Return the API server as one without a token sees it."""
        return Api(self.url, self.ca_file)

    def user(self, name: str, groups: Sequence[str] = (), *, extra: Mapping[str, Sequence[str]] | None = None) -> User:
        """Make a user with a fresh token; what they may do is for RBAC rules to say. No two are the same token."""
        return self.bearer(name, self.people.add(name, groups, extra=extra))

    def service_account(self, namespace: str, name: str, *, bound_to: Mapping[str, Any] | None = None) -> User:
        """Return an existing service account with a fresh token, bound to an object (apiVersion, kind, name) if given.

        A token bound to a Node, or to a Pod on one, says `authentication.kubernetes.io/node-name`.
        """
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600} | ({"boundObjectRef": dict(bound_to)} if bound_to else {}),
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = self.admin.api.post(path, asked).ok()["status"]["token"]
        return self.bearer(f"system:serviceaccount:{namespace}:{name}", token)

    def bearer(self, name: str, token: str, *, file: str = "") -> User:
        """Return a user of whom only the token is known, with a kubeconfig of their own (named `file`)."""
        text = folder.kubeconfig(self.url, ca_file=self.ca_file, token=token)
        place = self.site.file(file or commands.config_name(f"{name}-{secrets.token_hex(4)}"))
        return User(name, Api(self.url, self.ca_file, token), folder.write_secret(place, text))

    @contextlib.contextmanager
    def running(self, *parts: Part, flags: Mapping[Part, Sequence[str]] | None = None) -> Iterator[None]:
        """Run these parts too while the body runs, with more flags for some.

        kwok keeps all nodes unless its flags say which (`--manage-nodes-with-annotation-selector=...`).
        """
        try:
            for part in parts:
                self.start(part, *(flags or {}).get(part, ()))
            yield
        finally:
            for part in reversed(parts):
                self.end(part)

    @contextlib.contextmanager
    def away(self, part: Part = Part.API) -> Iterator[None]:
        """Kill a part while the body runs, then start it again with the same data, on the same port."""
        self.end(part)
        try:
            yield
        finally:
            self.start(part)

    @contextlib.contextmanager
    def frozen(self, part: Part = Part.API) -> Iterator[None]:
        """Stop a part where it stands while the body runs: it takes connections and does not answer."""
        os.kill(self.pid(part), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid(part), signal.SIGCONT)

    def pid(self, part: Part) -> int:
        """Return the process id of a running part."""
        return self._running[part].pid

    def start(self, part: Part, *flags: str) -> None:
        """Start a part and wait until it is ready; raise NotReady when it does not become so."""
        assert part not in self._running, f"{part} runs already"
        known = self.site.ports.get(part) if part in FIRST else None  # the addresses of these are told to others
        for left in reversed(range(_TRIES)):
            self.site.ports[part] = known or _free_port()
            try:
                return self._start_once(part, flags)
            except NotReady:
                # Between the look for a free port and its use someone else may take it.
                if not left or _TAKEN not in spawn.last_lines(self.site.log(part)):
                    raise
                time.sleep(_TICK_SECONDS)
        raise AssertionError("the last try returns or raises")

    def end(self, part: Part) -> None:
        """Kill a part; one that does not run is as good. A graceful end would hold the port for a minute."""
        process = self._running.pop(part, None)
        if process is not None:
            spawn.ended(process)

    def _enter(self) -> None:
        if self.binaries is None:
            self.binaries = find_binaries(FIRST)
        place = self._ends.enter_context(folder.run_folder())
        self._site = commands.Site(place, {})
        reviews = self._ends.enter_context(self.people.answering())
        folder.write_secret(place / "people.kubeconfig", folder.kubeconfig(reviews))
        folder.write_secret(place / "signing.key", folder.signing_key())
        tokens = {name: secrets.token_urlsafe(24) for name in _GROUPS}
        rows = "".join(f'{tokens[name]},{name},{name},"{group}"\n' for name, group in _GROUPS.items())
        folder.write_secret(place / "tokens.csv", rows)
        self.start(Part.ETCD)
        self.start(Part.API)
        for name, token in tokens.items():
            self._known[name] = self.bearer(name, token, file=commands.config_name(name))
        self._await_namespaces()

    def _start_once(self, part: Part, flags: Sequence[str]) -> None:
        assert self.binaries is not None
        program = self.binaries.path(part)
        process = spawn.started([program, *commands.words(part, self.site, flags)], self.site.log(part))
        self._running[part] = process
        try:
            self._await_ready(part)
        except BaseException:
            self.end(part)
            raise

    def _await_ready(self, part: Part) -> None:
        end = time.monotonic() + START_SECONDS
        while (why := self._unready(part)) is not None:
            dead = next((one for one, process in self._running.items() if process.poll() is not None), None)
            if dead is not None:
                code = self._running[dead].returncode
                raise NotReady(f"{dead} ended with code {code} before {part} was ready; {self._end_of_log(dead)}")
            if time.monotonic() > end:
                raise NotReady(f"{part} was not ready within {START_SECONDS:.0f} s ({why}); {self._end_of_log(part)}")
            time.sleep(_TICK_SECONDS)

    def _unready(self, part: Part) -> str | None:
        """Return why a part is not ready, or nothing when it is."""
        if not spawn.listens(self.pid(part), self.site.ports[part]):
            return "it does not listen"  # who answers on its port may be someone else's
        try:
            reply = Api(self.site.url(part), self.site.ca_file(part)).get(commands.READY[part])
        except (OSError, http.client.HTTPException) as error:
            return str(error)
        return None if reply.good else f"it answers {reply.code}: {reply.text}"

    def _await_namespaces(self) -> None:
        """Wait until the namespaces are there that every cluster has; the server makes them after it is ready."""
        end = time.monotonic() + START_SECONDS
        while not all(self.admin.api.get(f"/api/v1/namespaces/{name}").good for name in _NAMESPACES):
            if time.monotonic() > end:
                raise NotReady(f"the namespaces are still not all there; {self._end_of_log(Part.API)}")
            time.sleep(_TICK_SECONDS)

    def _end_of_log(self, part: Part) -> str:
        return f"the end of the log of {part}:\n{spawn.last_lines(self.site.log(part))}"


def _free_port() -> int:
    """Return a port that is free now, if possible below those of outgoing connections.

    One of these could take the port while its server is away, even a client that asks for that very server.
    """
    lowest = int(_OUTGOING.read_text("ascii").split()[0])
    for port in [*(secrets.choice(range(_LOWEST, lowest)) for _ in range(100 if lowest > _LOWEST else 0)), 0]:
        with contextlib.suppress(OSError), socket.socket() as asked:
            asked.bind((commands.LOCAL, port))
            return int(asked.getsockname()[1])
    raise NotReady("no port is free on 127.0.0.1")
