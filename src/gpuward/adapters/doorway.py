"""The door to a running agent: a Unix socket for root and its group, one JSON line each way. It makes no answers."""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpuward.ports import EdgeError, Refused, Unreachable

MOST_BYTES = 1 << 20
_WAIT_SECONDS = 5.0
_AT_ONCE = 8
_LONGEST_NAME = 108
_WAITING = 256
"""Callers that may wait at the door."""

_NOT_UNDERSTOOD = "what answers at {path} is not understood; is the agent of another version?"

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Doorway:
    """Serves the socket in threads of its own from `open` to `close`; a few callers at a time, each with a deadline."""

    def __init__(self, path: str, answer: Answer) -> None:
        self._path = Path(path)
        self._answer = answer
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Listen. Raises Refused when the socket cannot be made."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Whoever holds the lock of the folder owns the name; a socket that is left is a dead agent's.
            self._path.unlink(missing_ok=True)
            before = os.umask(0o117)
            try:
                with _within_reach(self._path) as place:
                    listening.bind(place)
            finally:
                os.umask(before)
            listening.listen(_WAITING)
        except OSError as error:
            listening.close()
            raise Refused(f"the socket {self._path} cannot be made ({error.strerror or error})") from error
        self._socket = listening
        self._thread = threading.Thread(target=self._serve, args=(listening,), name="doorway", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and take the socket away."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        if self._thread is not None:
            self._thread.join(_WAIT_SECONDS)
        self._path.unlink(missing_ok=True)

    def _serve(self, listening: socket.socket) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doorway") as answering:
            while True:
                try:
                    caller, _ = listening.accept()
                except OSError:
                    return
                answering.submit(self._serve_one, caller)

    def _serve_one(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError):
            caller.sendall(_line(self._reply(_receive(caller))))

    def _reply(self, asked: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(asked)
            if not isinstance(request, dict):
                return {"error": "a request is a JSON object"}
            return self._answer(request)
        except (ValueError, RecursionError):
            return {"error": "a request is one line of JSON"}
        except EdgeError as error:
            return {"error": str(error)}
        except Exception as error:  # noqa: BLE001  one bad question must not close the door for all
            return {"error": f"the agent has no answer ({type(error).__name__}: {error}); report this as a fault"}


@contextlib.contextmanager
def _within_reach(path: Path) -> Iterator[str]:
    """Give a name of the socket that fits: the kernel takes 107 bytes (unix(7)), a state folder's may be longer."""
    if len(os.fsencode(path)) < _LONGEST_NAME:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def ask(path: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask a running agent. Raises Unreachable when none answers, Refused with its own words when it says no."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as door:
        door.settimeout(_WAIT_SECONDS)
        try:
            with _within_reach(Path(path)) as place:
                door.connect(place)
            door.sendall(_line(request))
            answer = json.loads(_receive(door))
        except PermissionError as error:
            raise Refused(f"{path} may be used by root and its group only; use sudo") from error
        except TimeoutError as error:
            words = f"the agent at {path} did not answer within {_WAIT_SECONDS:g} s; it may be stopped, or very busy"
            raise Unreachable(words) from error
        except OSError as error:
            raise Unreachable(f"no agent answers at {path}; is one running with this --state-dir?") from error
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"{_NOT_UNDERSTOOD.format(path=path)}") from error
    if not isinstance(answer, dict):
        raise Unreachable(_NOT_UNDERSTOOD.format(path=path))
    if "error" in answer:
        raise Refused(str(answer["error"]))
    return dict(answer)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _receive(door: socket.socket) -> bytes:
    """Return one line; who sends it drop by drop has no longer for it than who sends it at once."""
    end = time.monotonic() + _WAIT_SECONDS
    came = b""
    while not came.endswith(b"\n") and len(came) < MOST_BYTES:
        door.settimeout(max(0.001, end - time.monotonic()))
        more = door.recv(65536)
        if not more:
            break
        came += more
    door.settimeout(_WAIT_SECONDS)
    return came
