"""The GPU Operator's programs during a repair: kept off the node for the reset, and let back whatever happens."""

from dataclasses import replace

import pytest

from gpuward.controller.pausing import BACK_SECONDS, GONE_SECONDS
from gpuward.model.case import CaseState, EffectKind, Mode, Outcome
from gpuward.model.daemon_set import NOT_AGAIN
from gpuward.model.objects.owned import FAULT_TAINT, OWNED, PAUSED, Label, read_owned
from gpuward.model.resource import GPU_CASES, NODES, PODS
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.fleet import REPAIRING
from tests.controller.operated import DCGM, PLUGIN, TRUE, OperatedFleet
from tests.controller.test_killed_anywhere import check_it_lives
from tests.kit.merging import GPU_A, GPU_B


def a_fleet(**terms: object) -> OperatedFleet:
    fleet = OperatedFleet(terms=replace(REPAIRING, **terms))  # type: ignore[arg-type]  # the test names fields of Terms
    fleet.operated("gpu-1")
    fleet.daemon("dcgm", gate=DCGM)
    fleet.daemon("plugin", gate=PLUGIN)
    fleet.daemon("logs", gate="")
    fleet.quiet = frozenset({"logs"})
    fleet.move()
    return fleet


def watched(fleet: OperatedFleet) -> list[tuple[EffectKind, tuple[str, ...], str]]:
    """Return a list that gets, for each order that the agent does, the programs on the node and the DCGM label."""
    seen: list[tuple[EffectKind, tuple[str, ...], str]] = []
    agent = fleet.agents["gpu-1"]

    class Seeing(list):  # type: ignore[type-arg]  # a list that looks
        def append(self, one: tuple[str, EffectKind]) -> None:
            seen.append((one[1], tuple(fleet.programs()), fleet.gates()[DCGM]))
            super().append(one)

    agent.done = Seeing()
    return seen


async def test_they_are_gone_before_the_reset_and_back_before_the_case_is_closed() -> None:
    fleet = a_fleet()
    before = fleet.get(NODES, "gpu-1")
    seen = watched(fleet)
    assert fleet.programs() == ["dcgm", "logs", "plugin"]
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    by_kind = {kind: (programs, label) for kind, programs, label in seen}
    assert by_kind[EffectKind.PAUSE] == (("logs",), PAUSED), "the agent's part comes when they are gone"
    assert by_kind[EffectKind.RESET] == (("logs",), PAUSED)
    assert fleet.programs() == ["dcgm", "logs", "plugin"]
    assert fleet.gates() == TRUE
    assert fleet.formers(case.id) == {DCGM: "true", PLUGIN: "true"}
    after = fleet.get(NODES, "gpu-1")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


async def test_what_is_changed_was_written_down_before_in_the_case_and_in_the_note() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: bool(fleet.gpu_cases()) and bool(fleet.formers(fleet.case(fault).id)))
        await fleet.until(controller, lambda: fleet.gates()[DCGM] == PAUSED)
        note = read_owned(fleet.get(NODES, "gpu-1"))
        assert note.labels == {DCGM: Label(PAUSED, "true"), PLUGIN: Label(PAUSED, "true")}
        await fleet.settled(controller, fault, CaseState.CLOSED)


async def test_a_program_that_only_looks_at_a_gpu_is_no_work_and_holds_up_no_patient_case() -> None:
    fleet = a_fleet()
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=6)
        assert fleet.case(fault).because == "Waits for its work to end: train-0"
        fleet.end_pod("train-0")
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.gates() == TRUE


async def test_where_one_would_not_come_back_nothing_is_stopped_and_the_case_says_so() -> None:
    fleet = a_fleet()
    fleet.daemon("exporter", gate="nvidia.com/gpu.deploy.dcgm-exporter", tolerations=())
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert NOT_AGAIN in case.due
    assert "DaemonSet work/exporter has no toleration of gpu.infra.status/hardware-fault:NoSchedule" in case.due
    assert fleet.gates() == TRUE
    assert fleet.programs() == ["dcgm", "exporter", "logs", "plugin"]
    assert EffectKind.PAUSE not in [what for _, what in fleet.agents["gpu-1"].done]
    assert fleet.formers(case.id) == {}


async def test_a_holder_that_no_label_keeps_away_is_named_and_nothing_is_stopped() -> None:
    fleet = OperatedFleet(terms=REPAIRING)
    fleet.operated("gpu-1", labels={})
    fleet.daemon("nvidia-device-plugin")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert "DaemonSet work/nvidia-device-plugin holds the GPU by its pod nvidia-device-plugin-" in case.due
    assert fleet.programs() == ["nvidia-device-plugin"]
    assert fleet.gates() == {}


async def test_without_such_programs_the_agents_road_remains() -> None:
    fleet = OperatedFleet(terms=REPAIRING)
    fleet.operated("gpu-1")
    version = fleet.get(NODES, "gpu-1")["metadata"]["labels"]
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.get(NODES, "gpu-1")["metadata"]["labels"] == version
    assert fleet.formers(case.id) == {}


async def test_while_others_keep_them_away_the_repair_is_refused() -> None:
    fleet = a_fleet()
    fleet.label("gpu-1", DCGM, "paused-for-driver-upgrade")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert f"{DCGM}=paused-for-driver-upgrade: wait until that is over" in case.due
    assert fleet.gates() == {**TRUE, DCGM: "paused-for-driver-upgrade"}


async def test_two_cases_share_the_pause_and_the_last_one_ends_it() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        first, second = fleet.fault(48), fleet.fault(48, pci=GPU_B)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.gates()[DCGM] == PAUSED)
        for fault in (first, second):
            await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.gates() == TRUE
    assert fleet.programs() == ["dcgm", "logs", "plugin"]
    assert [what for _, what in agent.done].count(EffectKind.RESET) == 2
    assert not agent.drained


async def test_one_that_a_person_switches_off_meanwhile_stays_off() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.gates()[DCGM] == PAUSED)
        fleet.label("gpu-1", DCGM, "false")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.gates() == {**TRUE, DCGM: "false"}
    assert OWNED not in fleet.get(NODES, "gpu-1")["metadata"]["annotations"]


async def test_pods_that_do_not_end_park_the_case_and_the_labels_go_back() -> None:
    fleet = a_fleet()
    (stuck,) = [one["metadata"]["name"] for one in fleet.server.list(PODS).items if "dcgm" in one["metadata"]["name"]]
    fleet.frozen_pods.add(stuck)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.gates()[DCGM] == PAUSED)
        await fleet.go(controller, rounds=5)
        assert EffectKind.PAUSE not in [what for _, what in fleet.agents["gpu-1"].done]
        await fleet.time.pass_by(GONE_SECONDS)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
        assert f"still on the node: pod work/{stuck}, after 300 s" in case.due
        await fleet.until(controller, lambda: fleet.gates() == TRUE)
    assert EffectKind.RESET not in [what for _, what in fleet.agents["gpu-1"].done]


async def test_pods_that_do_not_come_back_are_told() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: EffectKind.RESET in [what for _, what in fleet.agents["gpu-1"].done])
        fleet.is_operated = False
        await fleet.until(controller, lambda: fleet.gates() == TRUE)
        await fleet.time.pass_by(BACK_SECONDS)
        await fleet.go(controller, rounds=2)
        told = [one for one in fleet.case(fault).effects if one.kind is EffectKind.RESTORE]
        assert told[0].outcome is Outcome.FAILED
        assert told[0].why == "not back on the node: DaemonSet work/dcgm, DaemonSet work/plugin, after 600 s"
        fleet.is_operated = True
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.programs() == ["dcgm", "logs", "plugin"]


async def test_an_agent_that_is_gone_does_not_keep_them_away() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: EffectKind.RESET in [what for _, what in fleet.agents["gpu-1"].done])
        fleet.agents["gpu-1"].busy = True
        await fleet.go(controller, rounds=3)
        assert fleet.gates()[DCGM] == PAUSED
        await fleet.time.pass_by(120.0)
        await fleet.go(controller, rounds=2)
        assert fleet.gates() == TRUE
        assert fleet.case_state(fault) is CaseState.VERIFYING


async def test_labels_of_a_case_that_is_deleted_go_back() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.gates()[DCGM] == PAUSED)
        fleet.take_back(fault)
        fleet.server.delete(GPU_CASES, fleet.case(fault).id)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
    assert fleet.gates() == TRUE


async def test_a_person_who_releases_it_gets_them_back() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.gates()[DCGM] == PAUSED)
        fleet.order(fleet.case(fault).id, what="release", by="alice")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.gates() == TRUE
    assert fleet.programs() == ["dcgm", "logs", "plugin"]


async def test_after_a_release_of_a_node_that_was_off_for_hours_they_are_given_time_to_come_back() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: EffectKind.PAUSE in [what for _, what in agent.done])
        await fleet.go(controller)
        agent.silent, fleet.is_operated = True, False
        fleet.order(fleet.case(fault).id, what="release", by="alice")
        await fleet.go(controller, rounds=3)
        await fleet.time.pass_by(BACK_SECONDS * 10)
        agent.boots("b2")
        await fleet.go(controller, rounds=5)
        assert fleet.case(fault).because == "Released by a person: the undoing is under way."
        fleet.is_operated = True
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    assert not case.marks
    assert fleet.gates() == TRUE
    assert fleet.programs() == ["dcgm", "logs", "plugin"]


async def test_in_mode_isolate_nothing_is_kept_away() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert fleet.gates() == TRUE
    assert fleet.programs() == ["dcgm", "logs", "plugin"]


async def _lived(fleet: OperatedFleet, cluster: MortalCluster) -> None:
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                check_it_lives(controller)
                for _ in range(24):
                    await fleet.go(controller)
        except Died:
            continue
        return


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_nothing_stays_away(after: bool) -> None:  # noqa: FBT001  a row
    def begun() -> tuple[OperatedFleet, str]:
        fleet = a_fleet()
        return fleet, fleet.fault(48, pci=GPU_A)

    fleet, fault = begun()
    whole = MortalCluster(fleet.cluster, last=10_000, after=False)
    await _lived(fleet, whole)
    assert fleet.case_state(fault) is CaseState.CLOSED
    assert whole.calls > 25
    for last in range(1, whole.calls + 1):
        fleet, fault = begun()
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        await _lived(fleet, cluster)
        assert cluster.is_dead
        assert fleet.case_state(fault) is CaseState.CLOSED, f"killed at call {last}"
        assert fleet.gates() == TRUE, f"killed at call {last}"
        assert fleet.programs() == ["dcgm", "logs", "plugin"]
        assert OWNED not in fleet.get(NODES, "gpu-1")["metadata"]["annotations"]
        assert FAULT_TAINT not in fleet.taints()
        agent = fleet.agents["gpu-1"]
        assert len(agent.done) == len(set(agent.done))
        assert [what for _, what in agent.done].count(EffectKind.RESET) == 1
