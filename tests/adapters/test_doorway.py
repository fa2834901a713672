"""The door to an agent: who may use it, and that nobody can close it for others."""

import contextlib
import json
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters import doorway
from gpuward.adapters.doorway import Doorway, ask
from gpuward.ports import Refused, Unreachable


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer as an agent may: an echo, a refusal, or a fault of its own."""
    if request.get("ask") == "refuse":
        raise Refused("no such GPU; see status")
    if request.get("ask") == "break":
        raise KeyError("x")
    return {"heard": request}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    door = Doorway(str(tmp_path / "state" / "agent.sock"), answer)
    door.open()
    yield str(tmp_path / "state" / "agent.sock")
    door.close()
    assert not (tmp_path / "state" / "agent.sock").exists()


def raw(path: str, content: bytes) -> Any:
    """Send bytes as they are and return the answer."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(path)
        caller.sendall(content)
        caller.shutdown(socket.SHUT_WR)
        return json.loads(caller.makefile().readline())


def test_an_answer_comes_back(path: str) -> None:
    assert ask(path, {"ask": "status", "name": "ü"}) == {"heard": {"ask": "status", "name": "ü"}}


def test_a_refusal_is_the_agents_own_words(path: str) -> None:
    with pytest.raises(Refused, match="no such GPU; see status"):
        ask(path, {"ask": "refuse"})


@pytest.mark.parametrize("content", [b"", b"\n", b"nonsense\n", b"[1]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"])
def test_what_is_no_request_is_said_and_the_door_stays_open(path: str, content: bytes) -> None:
    assert "JSON" in raw(path, content)["error"]
    assert "heard" in ask(path, {"ask": "status"})


def test_a_fault_of_the_agent_is_said_and_the_door_stays_open(path: str) -> None:
    with pytest.raises(Refused, match="report this as a fault"):
        ask(path, {"ask": "break"})
    assert "heard" in ask(path, {"ask": "status"})


def test_who_sends_drop_by_drop_holds_the_door_no_longer_than_its_deadline(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorway, "_WAIT_SECONDS", 0.5)
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(path)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10:
                slow.sendall(b" ")
                time.sleep(0.1)
        assert time.monotonic() - began < 5
    monkeypatch.setattr(doorway, "_WAIT_SECONDS", 5.0)
    assert "heard" in ask(path, {"ask": "status"})


def test_who_is_silent_at_the_door_keeps_nobody_out(path: str) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    for caller in silent:
        caller.connect(path)
    began = time.monotonic()
    assert "heard" in ask(path, {"ask": "status"})
    assert time.monotonic() - began < 3
    for caller in silent:
        caller.close()


def test_only_root_and_its_group_may_use_it(path: str) -> None:
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o660


def test_the_socket_of_a_dead_agent_is_no_obstacle(tmp_path: Path) -> None:
    left = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    door = Doorway(str(left), answer)
    door.open()
    try:
        assert "heard" in ask(str(left), {"ask": "status"})
    finally:
        door.close()


def test_no_agent_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no agent answers"):
        ask(str(tmp_path / "agent.sock"), {"ask": "status"})


def test_a_state_folder_of_a_long_name_has_a_door_too(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 25) / ("longer" * 20) / "agent.sock"
    with contextlib.closing(Doorway(str(path), answer)) as door:
        door.open()
        assert ask(str(path), {"ask": "status"}) == {"heard": {"ask": "status"}}
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()
    with pytest.raises(Unreachable, match="no agent answers"):
        ask(str(path), {"ask": "status"})
    with pytest.raises(Unreachable, match="no agent answers"):
        ask(str(path.parent / "none" / "agent.sock"), {"ask": "status"})


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be made"):
        Doorway(str(tmp_path / ("x" * 300) / "agent.sock"), answer).open()
