"""The agent as a real process on a pretend machine: real nvidia-smi calls, a real socket, real kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.kit.ward import Ward, until

pytestmark = pytest.mark.xdist_group("agent")


def gpu(ward: Ward, index: int) -> Any:
    return ward.machine.state().gpus[index]


def test_a_double_bit_error_is_drained_repaired_and_returned(ward: Ward) -> None:
    with ward.agent("repair"), ward.machine.hold(1, "train") as held:
        ward.machine.inject(1, 48)
        until(lambda: "evacuating" in ward.moves(), "the GPU is drained")
        assert gpu(ward, 1).drained
        assert held.process.poll() is None, "its work runs on"
        held.stop()
        until(lambda: "closed" in ward.moves(), "the GPU returns")
    assert not gpu(ward, 1).drained
    assert gpu(ward, 1).resets == 1
    assert ward.done()[:2] == ["evidence", "drain"]
    evidence = next((ward.state / "evidence").iterdir())
    assert "NVRM: Xid (PCI:" in "".join(file.read_text("utf-8") for file in evidence.glob("*-kernel.log"))
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=evidence, check=False).returncode == 0


def test_observe_touches_nothing(ward: Ward) -> None:
    before = ward.machine.state()
    with ward.agent("observe"):
        ward.machine.inject(1, 48)
        until(lambda: any("would be taken out" in one.get("because", "") for one in ward.journal()), "it says so")
        assert ward.done() == []
    assert gpu(ward, 1).persistence == before.gpus[1].persistence
    assert not gpu(ward, 1).drained


def test_isolate_parks_and_release_undoes_it(ward: Ward) -> None:
    persistence = gpu(ward, 1).persistence
    with ward.agent("isolate"):
        ward.machine.inject(1, 48)
        until(lambda: "parked" in ward.moves(), "the GPU is parked")
        code, status = ward.ask("status")
        assert code == 1
        assert [one["state"] for one in status["gpus"]] == ["active", "parked", "active", "active"]
        assert "reset is due" in status["gpus"][1]["next"]
        code, story = ward.ask("why", "1")
        assert code == 0
        assert {one["what"] for one in story["happenings"]} >= {"observed", "verdict", "moved", "effect"}
        assert ward.ask("release", "1")[0] == 0
        until(lambda: "closed" in ward.moves(), "it is released")
        until(lambda: ward.ask("status")[1]["gpus"][1]["case"] is None, "the case is closed")
        # It is in service again by a person's word, and its fault still stands.
        until(lambda: ward.ask("status")[1]["gpus"][1]["state"] == "faulty", "that is said")
        assert ward.ask("status")[1]["gpus"][1]["findings"]
    assert not gpu(ward, 1).drained
    assert gpu(ward, 1).persistence == persistence


def test_tools_that_hang_are_unknown_not_healthy(ward: Ward) -> None:
    with ward.agent("observe", "--read-seconds", "1"):
        ward.machine.hang("query")
        ward.machine.hang("nvml")
        until(lambda: {one["state"] for one in ward.ask("status")[1]["gpus"]} == {"unknown"}, "unknown is said")
        ward.machine.hang("query", on=False)
        ward.machine.hang("nvml", on=False)


def test_the_second_agent_on_a_state_folder_is_refused(ward: Ward) -> None:
    with ward.agent("observe"):
        second = ward.ended("observe")
    assert second.returncode == 3
    assert "another agent" in second.stderr
    assert "Traceback" not in second.stderr


def test_an_agent_ends_cleanly_on_sigterm(ward: Ward) -> None:
    with ward.agent("observe") as agent:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=20) == 0
    assert not (ward.state / "agent.sock").exists()
    code, words = ward.ask("status")
    assert (code, "no agent answers" in words) == (3, True)


def test_the_socket_is_for_its_owner_and_group(ward: Ward) -> None:
    with ward.agent("observe"):
        assert (ward.state / "agent.sock").stat().st_mode & 0o777 == 0o660


def test_nonsense_at_the_door_is_answered_and_harmless(ward: Ward) -> None:
    with ward.agent("observe"):
        assert ward.ask("why", "nothing")[0] == 3
        assert ward.ask("release", "nothing")[0] == 3
        assert ward.ask("status")[0] == 0


def test_once_says_how_the_gpus_are(ward: Ward) -> None:
    done = ward.ended("observe", "--once", "--json")
    assert done.returncode == 0
    assert [one["state"] for one in json.loads(done.stdout)["gpus"]] == ["active"] * 4


def test_once_knows_what_an_earlier_agent_drained(ward: Ward) -> None:
    with ward.agent("isolate"):
        ward.machine.inject(1, 48)
        until(lambda: "parked" in ward.moves(), "the GPU is parked")
    done = ward.ended("observe", "--once", "--json")
    assert done.returncode == 1
    assert [one["state"] for one in json.loads(done.stdout)["gpus"]] == ["active", "parked", "active", "active"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("cases.json", "{"), ("pauses.json", '{"version":1,"saved":{"c":5}}'), ("cases.json", '{"version":1,"saved":{}}')],
)
def test_a_state_that_cannot_be_used_is_a_sentence_that_forgets_no_mark(ward: Ward, name: str, content: str) -> None:
    ward.state.mkdir()
    (ward.state / name).write_text(content)
    done = ward.ended("observe")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "starts afresh" not in done.stderr
    assert "drained" in done.stderr or "services" in done.stderr


def test_a_journal_that_cannot_be_written_holds_up_nothing(ward: Ward) -> None:
    ward.state.mkdir()
    os.mkfifo(ward.state / "journal.jsonl")
    with ward.agent("isolate"):
        ward.machine.inject(1, 48)
        until(lambda: gpu(ward, 1).drained, "the GPU is drained all the same")


def test_the_unit_names_this_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuward", "agent", "--print-unit"], capture_output=True, text=True, check=True
    )
    assert f"ExecStart={sys.executable} -m gpuward agent --standalone --mode observe" in done.stdout


@pytest.mark.parametrize("seed", range(4))
def test_an_agent_killed_at_any_instant_ends_the_same(ward: Ward, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  a seed is the whole bug report
    persistence = gpu(ward, 1).persistence
    with ward.agent("repair"):
        ward.machine.inject(1, 48)
        time.sleep(chance.uniform(0.0, 1.2))
        # The agent's context kills it here, in the middle of whatever it does.
    for _ in range(2):
        with ward.agent("repair"):
            time.sleep(chance.uniform(0.3, 1.2))
    with ward.agent("repair"):
        until(lambda: "closed" in ward.moves(), "the GPU returns")
        until(lambda: ward.ask("status")[0] == 0, "nothing is open")
    assert not gpu(ward, 1).drained
    assert gpu(ward, 1).persistence == persistence
    assert len({one["case"] for one in ward.journal() if one["what"] == "moved"}) == 1
