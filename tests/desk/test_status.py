"""`gpuward status`, `cases` and `nodes` on a cluster: what is amiss is said, and nothing else."""

import io
from dataclasses import replace
from typing import Any

import pytest

from gpuward.cli.fleet.voice import Voice
from gpuward.controller.desk.reading import LATE_SECONDS
from gpuward.model.case import Mode
from gpuward.model.objects.pause import Pause, pause_object
from gpuward.model.resource import CONFIG_MAPS, GPU_CASES, GPU_NODES, LEASES, NODES, PODS, STANDBY_POOLS
from gpuward.ports import Unreachable
from gpuward.sim.cluster.network import Presence
from gpuward.sim.cluster.users import Rule
from tests.controller.fleet import REPAIRING, Fleet
from tests.controller.test_hostile import tell
from tests.desk.people import SPACE, ask, beat, in_mode, told
from tests.kit.merging import GPU_A


def a_fleet(*nodes: str, mode: Mode = Mode.REPAIR) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, mode=mode))
    for name in nodes or ("gpu-1", "gpu-2"):
        fleet.node(name)
        in_mode(fleet, name, str(mode))
    beat(fleet)
    return fleet


async def test_a_fleet_without_trouble_is_well() -> None:
    answer = await ask(a_fleet(), "status")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "leader  controller-a since 2026-09-21 14:15:00 UTC (a moment ago)",
        "mode    repair on 2",
        "nodes   2",
        "GPUs    4 of 4 active",
        "cases   none open",
    ]


async def test_a_fault_that_nobody_judges_is_not_healthy() -> None:
    fleet = a_fleet()
    name = tell(fleet, "k9", details="this is no JSON")
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=int(LATE_SECONDS) + 2)
        beat(fleet)
        answer = await ask(fleet, "status")
    assert answer.code == 1
    late = f"1 fault was not judged within 60 s, the first by name {name}"
    assert f"{late}; the controller's output says why" in answer.out
    condition = fleet.condition()
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("Unknown", "GPUsUnseen")
    assert f"GPUFault {name}: spec.details is not JSON" in condition["message"]


async def test_an_empty_cluster_is_not_healthy() -> None:
    answer = await ask(Fleet(), "status")
    assert answer.code == 1
    assert "NOBODY LEADS" in answer.out
    assert "no agent has told of a GPU server yet" in answer.out
    assert "none is seen; that is unknown, not healthy" in answer.out


async def test_a_case_is_told_with_what_comes_next_and_how_to_undo_it() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() is not None)
        beat(fleet)
        answer = await ask(fleet, "status")
        case = f"c-{fault}"
        assert answer.code == 1
        assert "cases   1 open" in answer.out
        assert f"{case}  P0 " in answer.out
        assert f"gpu-1 GPU 0 ({GPU_A})  since 2026-09-21 14:15:" in answer.out
        assert f"undo  gpuward release {case}" in answer.out
        (row,) = (await ask(fleet, "status", "--json")).object()["cases"]
        assert (row["case"], row["node"], row["level"], row["undo"]) == (case, "gpu-1", "P0", f"gpuward release {case}")


async def test_a_silent_agent_and_a_silent_leader_are_said() -> None:
    fleet = a_fleet()
    await fleet.time.pass_by(400.0)
    beat(fleet, but=("gpu-2",))
    answer = await ask(fleet, "status")
    assert answer.code == 1
    assert "silent  1 agent: gpu-2 for 6 minutes" in answer.out
    await fleet.time.pass_by(400.0)
    assert "NOBODY LEADS: controller-a is silent since 2026-09-21 14:21:40 UTC (6 minutes ago)" in await told(
        fleet, "status"
    )


def without_agent(fleet: Fleet, name: str, **part: Any) -> None:
    """Make a node on which nobody ever ran."""
    labels = {"labels": part["labels"]} if "labels" in part else {}
    status = {"status": {"capacity": part["capacity"]}} if "capacity" in part else {}
    fleet.server.create(NODES, {"metadata": {"name": name, **labels}, **status})


async def test_a_node_with_gpus_on_which_no_agent_ever_ran_is_missing_and_not_well() -> None:
    fleet = a_fleet()
    without_agent(fleet, "gpu-4", capacity={"cpu": "8", "nvidia.com/gpu": "8"})
    without_agent(fleet, "gpu-3", labels={"nvidia.com/gpu.present": "true"})
    without_agent(fleet, "gpu-5", labels={"feature.node.kubernetes.io/pci-0302_10de.present": "true"})
    without_agent(fleet, "gpu-6", capacity={"nvidia.com/mig-1g.10gb": "7"})
    without_agent(fleet, "head-1", labels={"role": "head"}, capacity={"cpu": "8"})
    answer = await ask(fleet, "status")
    assert answer.code == 1
    said = "3, gpu-4, gpu-5, gpu-6; `gpuward preflight` says what to do"
    assert f"agents  MISSING on 4 nodes with GPUs, where none ever ran: gpu-{said}" in answer.out
    assert "nodes   6\n" in answer.out
    value = (await ask(fleet, "status", "--json")).object()
    assert (value["well"], value["nodes"]) == (False, 6)
    assert value["agentless"] == ["gpu-3", "gpu-4", "gpu-5", "gpu-6"]
    assert value["silent"] == []


async def test_of_very_many_nodes_without_an_agent_the_first_are_named_and_the_rest_is_counted() -> None:
    fleet = a_fleet()
    for number in range(20):
        without_agent(fleet, f"new-{number:02}", capacity={"nvidia.com/gpu": "8"})
    out = await told(fleet, "status")
    assert "MISSING on 20 nodes with GPUs, where none ever ran: new-00, new-01, " in out
    assert "new-07 and 12 more; " in out
    assert "new-08" not in out


async def test_a_cluster_with_gpus_and_no_agent_at_all_says_so() -> None:
    fleet = Fleet()
    without_agent(fleet, "gpu-1", capacity={"nvidia.com/gpu": "8"})
    out = await told(fleet, "status")
    assert "nodes   1\n" in out
    assert "MISSING on 1 node with GPUs" in out


async def test_nodes_without_an_agent_are_listed_as_such_and_silent_ones_as_before() -> None:
    fleet = a_fleet()
    without_agent(fleet, "gpu-0", capacity={"nvidia.com/gpu": "8"})
    await fleet.time.pass_by(400.0)
    beat(fleet, but=("gpu-2",))
    rows = (await told(fleet, "nodes")).splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["gpu-1", "gpu-2", "gpu-0"]
    assert " ".join(rows[3].split()) == "gpu-0 no agent - 0 - - never no agent ever ran there"
    assert "silent: 6 minutes ago" in rows[2]
    values = (await ask(fleet, "nodes", "--json")).object()["nodes"]
    assert [(one["node"], one["state"]) for one in values] == [
        ("gpu-1", "heard"),
        ("gpu-2", "silent"),
        ("gpu-0", "no agent"),
    ]
    assert {key: values[2][key] for key in ("gpus", "agent", "mode", "heard_at", "silent", "cases")} == {
        "gpus": [],
        "agent": None,
        "mode": None,
        "heard_at": None,
        "silent": True,
        "cases": [],
    }


async def test_who_may_not_see_the_nodes_is_told_that_a_missing_agent_is_not_known() -> None:
    fleet = a_fleet()
    everything = frozenset({"*"})
    ours = Rule(everything, frozenset({"gpuward.io", "coordination.k8s.io"}), everything)
    pause = Rule(everything, frozenset({""}), frozenset({CONFIG_MAPS.plural}))
    weak = fleet.cluster.as_user("weak", (ours, pause))
    for command in ("status", "nodes"):
        out = await told(fleet, command, cluster=weak)
        assert "unknown which nodes with GPUs have no agent is not known: " in out
    assert (await ask(fleet, "status", "--json", cluster=weak)).object()["agentless"] is None
    assert (await ask(fleet, "status", cluster=weak)).code == 1


async def test_a_short_pool_is_said_loudly() -> None:
    fleet = a_fleet()
    fleet.pool(size=2)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=3)
    beat(fleet)
    answer = await ask(fleet, "status")
    assert answer.code == 1
    assert "0 of 2 ready, SHORT of 2" in answer.out


async def test_a_pause_is_said_first_of_all_troubles() -> None:
    fleet = a_fleet()
    fleet.server.create(CONFIG_MAPS, pause_object(Pause(on=True, by="alice", because="rollout")), namespace=SPACE)
    answer = await ask(fleet, "status")
    assert answer.code == 1
    assert answer.out.splitlines()[1] == (
        "PAUSED  nothing new is isolated: paused by alice: rollout; `gpuward resume` goes on"
    )
    assert (await ask(fleet, "status", "--json")).object()["paused"]["by"] == "alice"


async def test_modes_are_counted_as_the_controller_gave_them() -> None:
    fleet = a_fleet("gpu-1", "gpu-2", "gpu-3")
    in_mode(fleet, "gpu-3", "observe")
    assert "mode    observe on 1, repair on 2" in await told(fleet, "status")
    fleet.server.delete(GPU_NODES, "gpu-3")
    fleet.server.create(GPU_NODES, {"metadata": {"name": "gpu-3"}})
    answer = (await ask(fleet, "status", "--json")).object()
    assert answer["modes"] == {"none": 1, "repair": 2}


async def test_who_may_not_see_leases_is_told_that_this_is_not_known() -> None:
    fleet = a_fleet()
    everything = frozenset({"*"})
    weak = fleet.cluster.as_user("weak", (Rule(everything, frozenset({"gpuward.io"}), everything),))
    answer = await ask(fleet, "status", cluster=weak)
    assert answer.code == 1
    assert "who leads, and which agents live, is not known: " in answer.out
    assert "NOBODY LEADS" not in answer.out
    assert "silent" not in answer.out


async def test_no_pod_is_read() -> None:
    fleet = a_fleet()
    asked = []
    spell = fleet.cluster.weather.spell

    class Watching:
        def spell(self, user: str, call: object) -> object:
            asked.append(call.resource)  # type: ignore[attr-defined]
            return spell(user, call)  # type: ignore[arg-type]

    await ask(fleet, "status", cluster=replace(fleet.cluster, weather=Watching()))  # type: ignore[arg-type]
    assert {LEASES, STANDBY_POOLS, GPU_CASES, GPU_NODES, NODES} <= set(asked)
    assert PODS not in asked


async def test_an_api_that_is_away_is_an_error_with_a_remedy() -> None:
    fleet = a_fleet()
    fleet.cluster.network.presence = Presence.AWAY
    with pytest.raises(Unreachable, match="try again later"):
        await ask(fleet, "status")


async def test_names_with_escapes_and_broken_objects_are_shown_harmlessly() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() is not None)
    cluster = _Bent(fleet)
    for command in ("status", "cases", "nodes"):
        out = await told(fleet, command, cluster=cluster)
        assert "\x1b" not in out
        assert "gpu-1" in out


class _Bent:
    """A cluster whose objects somebody has filled with what no schema lets pass."""

    def __init__(self, fleet: Fleet) -> None:
        self._cluster = fleet.cluster

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    async def list(self, resource: object, **asked: object) -> object:
        project = asked.pop("project")
        listed = await self._cluster.list(resource, **asked)  # type: ignore[arg-type]
        bent = [_bent(resource, dict(one)) for one in listed.items]
        return replace(listed, items=tuple(project(one) for one in bent))  # type: ignore[operator]


def _bent(resource: object, found: dict[str, object]) -> dict[str, object]:
    if resource == GPU_CASES:
        found["spec"] = {"node": "gpu-1", "title": "\x1b[31mred\x1b[0m", "code": "x", "openedAt": 7, "orders": [None]}
        found["status"] = {"state": "fenced", "effects": "none", "since": "yesterday", "timeline": [3]}
    elif resource == GPU_NODES:
        found["status"] = {"gpus": [{"index": "0", "state": ["\x1b"]}, 7], "trouble": "a\x1b]0;b\x07"}
    elif resource == LEASES:
        found["spec"] = {"holderIdentity": 7, "renewTime": "never", "leaseDurationSeconds": "long"}
    return found


async def test_cases_that_have_ended_are_listed_when_asked_for_and_of_one_node_alone() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        first, second = fleet.fault(48), fleet.fault(79, "gpu-2")
        await fleet.until(controller, lambda: fleet.taint("gpu-2") is not None)
        fleet.order(f"c-{first}", what="release", by="alice")
        await fleet.until(controller, lambda: str(fleet.case_state(first)) == "closed")
    assert [one["case"] for one in (await ask(fleet, "cases", "--json")).object()["cases"]] == [f"c-{second}"]
    every = (await ask(fleet, "cases", "--all", "--json")).object()["cases"]
    assert {one["case"] for one in every} == {f"c-{first}", f"c-{second}"}
    assert [one["gpu"] for one in every] == [0, 0]
    assert "there is no" in await told(fleet, "cases", "--node", "gpu-1")
    assert f"  gpu-2  0 ({GPU_A})  P0 " in await told(fleet, "cases", "--node", "gpu-2")
    table = (await told(fleet, "cases", "--all")).splitlines()
    assert table[0].split()[:5] == ["CASE", "NODE", "GPU", "LEVEL", "STATE"]
    assert "SINCE (UTC)" in table[0]
    assert len(table) == 3


async def test_who_may_not_see_nodes_sees_the_cases_with_the_addresses_of_their_gpus() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() is not None)
    everything = frozenset({"*"})
    of_cases = Rule(everything, frozenset({"gpuward.io"}), frozenset({GPU_CASES.plural}))
    weak = fleet.cluster.as_user("weak", (of_cases,))
    assert f"  gpu-1  {GPU_A}  P0 " in await told(fleet, "cases", cluster=weak)
    (case,) = (await ask(fleet, "cases", "--json", cluster=weak)).object()["cases"]
    assert (case["gpu"], case["pci"]) == (None, GPU_A)


async def test_nodes_are_listed_with_their_agents() -> None:
    fleet = a_fleet()
    await fleet.time.pass_by(100.0)
    beat(fleet, but=("gpu-2",))
    out = (await told(fleet, "nodes")).splitlines()
    assert out[0].split() == ["NODE", "GPUS", "MODE", "CASES", "AGENT", "DRIVER", "HEARD", "TROUBLE"]
    assert "silent: a minute ago" in out[2] or "silent: 100 seconds ago" in out[2]
    rows = (await ask(fleet, "nodes", "--json")).object()["nodes"]
    assert [(one["node"], one["silent"], len(one["gpus"])) for one in rows] == [("gpu-1", False, 2), ("gpu-2", True, 2)]


class Terminal(io.StringIO):
    """A terminal, or one end of a pipe."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Return whether it is one."""
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_colours_are_for_a_terminal_only_and_what_objects_bring_is_never_one(
    *, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal(terminal=terminal)
    Voice(out, as_json=False).answer({}, ["c-1  P0 parked  \x1b[2Jgpu-1"])
    assert ("\x1b[1;31mP0\x1b[0m" in out.getvalue()) is terminal
    assert "\x1b[2J" not in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal(terminal=terminal)
    Voice(out, as_json=False).answer({}, ["P0"])
    assert out.getvalue() == "P0\n"
