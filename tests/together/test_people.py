"""People on call at a real cluster: the commands as processes with their own token, beside controller and agent."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuward.cli.manifests.rights import ON_CALL, VIEW
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES
from tests.install.site import grant, path_of
from tests.kit.controlplane.plane import User
from tests.kit.ward import until
from tests.together.test_node_and_controller import Node, gpus, node

__all__ = ["gpus", "node"]
pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.fixture
def on_call(node: Node) -> User:
    """Give a person on call, who may do what the role allows and nothing else."""
    user = node.site.plane.user("alice")
    grant(node.site, ON_CALL, user.name)
    until(lambda: user.api.get(path_of(GPU_CASES)).good, "she may look")
    return user


def said(user: User, *words: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Return what a command answers to a person who has KUBECONFIG set, as most have."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuward", *words],
        env={**os.environ, "KUBECONFIG": str(user.kubeconfig), "TZ": "UTC", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def answered(user: User, *words: str) -> tuple[int, Any]:
    code, out, err = said(user, *words, "--json")
    assert out, err
    return code, json.loads(out)


def is_at_work(node: Node, user: User) -> bool:
    """Return whether the agent has told of its GPUs, and a controller leads."""
    if not node.api.get(path_of(GPU_NODES, node.name)).good:
        return False
    _, board = answered(user, "status")
    rows = answered(user, "nodes")[1]["nodes"]
    mine = next(one for one in rows if one["node"] == node.name)
    return bool(board["leader"] and board["leader"]["leads"] and mine["mode"] and mine["gpus"] and not mine["silent"])


def test_a_person_on_call_does_all_of_it_with_her_own_rights(node: Node, on_call: User) -> None:
    with node.controller("isolate"), node.agent():
        until(lambda: is_at_work(node, on_call), "both are at work")
        code, out, _ = said(on_call, "status")
        assert code in {0, 1}  # other tests' nodes have no agent
        assert "isolate on " in out
        assert "UTC (" in out
        assert "\x1b" not in out

        code, paused = answered(on_call, "pause", "--because", "a new driver")
        assert (code, paused["paused"]["by"]) == (0, "alice")
        node.machine.inject(1, 48)
        until(lambda: "paused by alice" in node.case().get("status", {}).get("because", ""), "it is held")
        assert node.taint() is None
        assert answered(on_call, "resume")[1]["changed"] is True
        until(lambda: node.taint() == "xid-48", "the node is tainted")
        until(lambda: node.state() == "parked", "a person's turn has come")
        case = node.case()["metadata"]["name"]

        assert case in said(on_call, "cases", "--node", node.name)[1]
        for word in (case, node.name, f"{node.name}/1", f"{node.name}/{node.machine.state().gpus[1].uuid}"):
            code, story = answered(on_call, "why", word)
            assert (code, [one["case"] for one in story["stories"]]) == (0, [case]), word
        told = said(on_call, "why", case)[1]
        assert "\nhad GPU  " in told
        assert any(line.startswith("line ") and "NVRM: Xid" in line for line in told.splitlines())
        assert f"default/train-{node.name}: gone" in told
        (row,) = [one for one in answered(on_call, "report")[1]["cases"] if one["case"] == case]
        assert (row["came"], row["pods"]) == ("taken out", [f"default/train-{node.name}"])

        assert "isolate: let its mode be repair" in said(on_call, "retry", case)[2]
        code, out, err = said(on_call, "release", case, "--because", "it was a loose cable")
        assert code == 0, out + err
        assert f"{case}: release is asked for by alice" in out
        until(lambda: node.state() == "closed", "the case is closed")
        until(lambda: node.taint() is None, "the taint is gone")
    assert node.case()["spec"]["orders"] == [
        {"number": 1, "what": "release", "by": "alice", "because": "it was a loose cable"}
    ]


def test_a_drill_is_rehearsed_by_controller_and_agent_and_harms_nothing(node: Node, on_call: User) -> None:
    before = node.machine.state()
    with node.controller("observe"), node.agent():
        until(lambda: is_at_work(node, on_call), "both are at work")
        code, out, err = said(on_call, "drill", node.name, "1", "48", "--mode", "repair")
        assert code == 0, out + err
        assert "the drill is over as it should be" in out
        assert "reset done" in out
        assert node.taint() is None
        assert node.pods() == [f"train-{node.name}"]
        assert [
            one for one in node.api.get(path_of(GPU_FAULTS)).ok()["items"] if node.name in one["metadata"]["name"]
        ] == []
    assert node.machine.state() == before
    assert node.case()["spec"]["drill"] == "repair"


def test_a_drill_whose_command_is_killed_ends_by_itself(node: Node, on_call: User) -> None:
    with node.controller("observe"), node.agent():
        until(lambda: is_at_work(node, on_call), "both are at work")
        words = [sys.executable, "-m", "gpuward", "drill", node.name, "0", "79", "--mode", "isolate"]
        with subprocess.Popen(
            [*words, "--kubeconfig", str(on_call.kubeconfig)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as drill:
            until(node.case, "the drill has begun")
            drill.send_signal(signal.SIGKILL)
        until(lambda: node.state() == "closed", "the drill is over")
        assert node.taint() is None


def test_who_may_view_sees_all_of_it_and_orders_nothing(node: Node) -> None:
    viewer = node.site.plane.user("bob")
    grant(node.site, VIEW, viewer.name)
    until(lambda: viewer.api.get(path_of(GPU_CASES)).good, "he may look")
    code, board = answered(viewer, "status")
    assert board["troubles"] == []
    assert code == (0 if board["well"] else 1)
    for words in (("cases", "--all"), ("nodes",), ("report",)):
        assert said(viewer, *words)[0] == 0, words
    code, _, err = said(viewer, "pause")
    assert (code, "see the RBAC rules of this user" in err) == (3, True)


def test_who_may_not_is_told_so_in_a_sentence(node: Node, tmp_path: Path) -> None:
    stranger = node.site.plane.user("mallory")
    for words in (("status",), ("cases",), ("why", "x"), ("pause",), ("drill", node.name, "0", "79")):
        code, out, err = said(stranger, *words)
        assert (code, out) == (3, ""), words
        assert err.startswith(f"gpuward {words[0]}: cannot ")
        assert "see the RBAC rules of this user" in err
        assert "Traceback" not in err
    broken = tmp_path / "kubeconfig"
    broken.write_text("clusters: 7\n", "utf-8")
    code, _, err = said(stranger, "status", "--kubeconfig", str(broken))
    assert (code, "mend it" in err) == (3, True)
    code, _, err = said(stranger, "status", "--kubeconfig", str(tmp_path / "nowhere"))
    assert (code, "name one with --kubeconfig" in err) == (3, True)
    code, _, err = said(stranger, "status", "--kubeconfig", str(broken), "--state-dir", str(tmp_path))
    assert (code, "say one" in err) == (2, True)
