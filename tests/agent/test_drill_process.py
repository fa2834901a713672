"""`gpuward drill` and `gpuward qualify` beside the agent as a real process: all is told, and nothing is changed."""

import json
import subprocess
import sys

import pytest

from tests.kit.ward import Ward, until

pytestmark = pytest.mark.xdist_group("agent")


def test_a_drill_goes_from_the_line_to_its_end_and_changes_nothing(ward: Ward) -> None:
    before = ward.machine.state()
    with ward.agent("observe"), ward.machine.hold(2, "train"):
        code, story = ward.ask("drill", "1", "48", "--mode", "repair")
        assert code == 0, story
        assert (story["state"], story["over"], story["level"]) == ("closed", True, "P0")
        done = [one["effect"] for one in story["happenings"] if one.get("outcome") == "done"]
        assert done == ["evidence", "drain", "evidence", "pause", "undrain", "reset", "restore", "verify"]
        assert "gpuward drill" in story["happenings"][0]["because"]
        assert ward.ask("status")[0] == 0, "every GPU is active all the while"
    assert ward.machine.state() == before
    assert {one["case"] for one in ward.journal() if "case" in one} == {story["case"]}
    assert ".drill." in story["case"]


def test_a_drill_on_a_gpu_at_work_waits_as_a_real_fault_would_and_is_ended_by_a_release(ward: Ward) -> None:
    with ward.agent("repair"), ward.machine.hold(1, "train") as held:
        code, story = ward.ask("drill", "1", "31", "--wait-seconds", "2")
        assert (code, story["state"], story["over"]) == (1, "fenced", False)
        assert ward.ask("drill", "1", "31")[0] == 3, "one drill at a time"
        assert ward.ask("release", "1")[0] == 0
        until(lambda: "closed" in ward.moves(), "the drill is over")
        assert held.process.poll() is None
    assert not ward.machine.state().gpus[1].drained


def test_a_real_fault_during_a_drill_wins(ward: Ward) -> None:
    with ward.agent("isolate"), ward.machine.hold(1, "train"):
        assert ward.ask("drill", "1", "31", "--wait-seconds", "0")[0] == 1
        ward.machine.inject(1, 48)
        until(lambda: ward.machine.state().gpus[1].drained, "the GPU is drained")
        until(lambda: "withdrawn" in ward.moves(), "the drill gives way")
        status = ward.ask("status")[1]["gpus"][1]
        assert (status["drill"], status["level"]) == (None, "P0")


def test_a_code_that_opens_no_case_is_said_to_open_none(ward: Ward) -> None:
    with ward.agent("repair"):
        code, answer = ward.ask("drill", "1", "xid:13")
        assert (code, answer["case"], answer["level"]) == (0, None, "P2")
        assert ward.ask("drill", "1", "13x")[0] == 2
        assert ward.ask("drill", "9", "79")[0] == 3
    assert not [one for one in ward.journal() if "case" in one]


def test_a_drill_without_an_agent_is_told_so(ward: Ward) -> None:
    code, words = ward.ask("drill", "1", "79")
    assert (code, "no agent answers" in words) == (3, True)


def test_a_reset_that_was_never_proven_here_is_due_to_a_person_who_may_force_it(ward: Ward) -> None:
    with ward.agent("repair", force=False):
        ward.machine.inject(1, 48)
        until(lambda: "parked" in ward.moves(), "it is parked")
        next_step = ward.ask("status")[1]["gpus"][1]["next"]
        assert "never proven on NVIDIA H100" in next_step
        assert ward.ask("retry", "1")[0] == 0
        until(lambda: ward.moves().count("parked") == 2, "it is parked again")
        assert ward.machine.state().gpus[1].resets == 0
        assert ward.ask("retry", "1", "--force")[0] == 0
        until(lambda: "closed" in ward.moves(), "it returns")
    assert ward.machine.state().gpus[1].resets == 1


def test_an_agent_resets_where_qualify_has_proven_it(ward: Ward) -> None:
    roots = ["--proc-root", str(ward.machine.proc), "--dev-root", str(ward.machine.dev)]
    done = subprocess.run(
        [sys.executable, "-m", "gpuward", "qualify", "0", "--yes", "--json", "--state-dir", str(ward.state), *roots],
        env=ward.machine.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["qualified"] is True
    with ward.agent("repair", force=False):
        ward.machine.inject(1, 48)
        until(lambda: "closed" in ward.moves(), "it returns")
    assert ward.machine.state().gpus[1].resets == 1


def test_an_agent_undoes_what_a_killed_qualify_left(ward: Ward) -> None:
    before = ward.machine.state().gpus[0]
    # It asks for a reset of the drained GPU, which the tool refuses; here it never answers.
    ward.machine.hang("reset")
    roots = ["--proc-root", str(ward.machine.proc), "--dev-root", str(ward.machine.dev)]
    with subprocess.Popen(
        [sys.executable, "-m", "gpuward", "qualify", "0", "--yes", "--state-dir", str(ward.state), *roots],
        env=ward.machine.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as qualify:
        until(lambda: ward.machine.state().gpus[0].drained, "it drains")
        qualify.kill()
    ward.machine.hang("reset", on=False)
    assert ward.machine.state().gpus[0].drained
    with ward.agent("observe"):
        after = ward.machine.state().gpus[0]
        assert (after.drained, after.persistence) == (before.drained, before.persistence)
        assert ward.ask("status")[0] == 0
