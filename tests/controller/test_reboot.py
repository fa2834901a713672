"""The rung after a reset: a node is rebooted once, when nobody is hit by it and a person has allowed it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpuward.cli.manifests.installation import CONTROLLER, Installation
from gpuward.cli.manifests.rights import rights
from gpuward.controller.loop import Controller
from gpuward.controller.reboot import BOOT
from gpuward.controller.terms import Terms
from gpuward.isolation.evacuation import EvictionTerms, Scope
from gpuward.model.case import Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_case import as_case
from gpuward.model.resource import GPU_CASES, JOBS
from gpuward.settings.reboot import RebootTerms
from gpuward.sim.cluster.users import rules_of
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.losing import LOSING, LosingFleet
from tests.kit.merging import GPU_A, GPU_B

S = CaseState
OBSTACLE = "The GPU does not answer: reboot the node, power cycle it if the GPU does not come back."
REBOOTS = RebootTerms(enabled=True, image="registry.example.com/gpuward:1", deadline_seconds=40.0)
FOREVER = 10_000


class RebootFleet(LosingFleet):
    """A fleet whose Jobs reboot nodes. `cured`: whether a GPU answers after it; `deaf`: the Jobs do nothing."""

    def __init__(self, *, terms: Terms) -> None:
        super().__init__(terms=terms)
        self.cured = True
        self.deaf = False
        self.rebooted: list[str] = []
        self._starting: dict[str, int] = {}
        self._run: set[str] = set()

    def gpu_node(self, name: str = "gpu-1") -> None:
        """Make a node whose kubelet tells its boot."""
        self.node(name)
        self._boot(name, 1)
        self.answer(name)

    def fall_off(self, name: str = "gpu-1", pci: str = GPU_A) -> str:
        """Let a GPU fall off the bus."""
        self.agents[name].obstacles[pci] = OBSTACLE
        self.agents[name].reboot_cures.add(pci)
        return self.fault(79, name, pci=pci)

    def jobs(self) -> list[Mapping[str, Any]]:
        """Return the Jobs in gpuward's own namespace."""
        return list(self.server.list(JOBS, namespace="gpuward").items)

    def move(self) -> None:
        """Let the kubelets run the Jobs, once, and nodes come up that went down."""
        for job in self.jobs():
            name, pod = job["metadata"]["name"], job["spec"]["template"]["spec"]
            if name not in self._run and not self.deaf and pod["nodeName"] not in self.away:
                self._run.add(name)
                told = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
                self._go_down(pod["nodeName"], told[BOOT])
        for name in [name for name in self._starting if name in self.away]:
            self._starting[name] -= 1
            if not self._starting[name]:
                self._come_up(name)
        super().move()

    def _go_down(self, name: str, boot: str) -> None:
        if not self.boots[name].startswith(boot):
            return
        self.rebooted.append(name)
        self.lose(name)
        self._starting[name] = 8

    def _come_up(self, name: str) -> None:
        agent = self.agents[name]
        self._boot(name, len(self.rebooted) + 1)
        agent.drained.clear()
        if self.cured:
            agent.obstacles.clear()
            agent.reboot_cures.clear()
        else:
            agent.fails[EffectKind.VERIFY] = "the GPU does not answer"
        self.answer(name)

    def _boot(self, name: str, number: int) -> None:
        self.boots[name] = f"{number:08x}-0000-4000-8000-000000000000"
        self.agents[name].boot = f"{number:08x}"


def a_fleet(reboot: RebootTerms = REBOOTS, **terms: Any) -> RebootFleet:
    fleet = RebootFleet(terms=replace(LOSING, reboot=reboot, **terms))
    fleet.gpu_node()
    fleet.pod("train-0")
    return fleet


def kinds_of(case: Case) -> list[EffectKind]:
    return [effect.kind for effect in case.effects]


async def test_a_gpu_that_fell_off_comes_back_by_one_reboot_and_nothing_is_left() -> None:
    fleet = a_fleet()
    before = fleet.get_node("gpu-1")
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.CLOSED)
    assert fleet.rebooted == ["gpu-1"]
    kinds = kinds_of(case)
    assert EffectKind.RESET not in kinds
    assert kinds[kinds.index(EffectKind.REBOOT) :] == [EffectKind.REBOOT, EffectKind.VERIFY, EffectKind.UNTAINT]
    assert kinds.index(EffectKind.EVICT) < kinds.index(EffectKind.REBOOT)
    after = fleet.get_node("gpu-1")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert fleet.of_nodes() == [], "a node that we reboot is not lost"


async def test_the_job_runs_on_the_node_once_and_is_told_which_boot_is_meant() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.CLOSED)
    (job,) = fleet.jobs()
    assert job["metadata"]["annotations"]["gpuward.io/case"] == case.id
    assert (job["spec"]["backoffLimit"], job["spec"]["completions"]) == (0, 1)
    pod = job["spec"]["template"]["spec"]
    assert (pod["nodeName"], pod["restartPolicy"], pod["hostPID"]) == ("gpu-1", "Never", True)
    (container,) = pod["containers"]
    assert container["image"] == REBOOTS.image
    assert {"name": BOOT, "value": "00000001"} in container["env"]
    assert "boot_id" in container["command"][-1]


async def test_a_template_of_the_users_is_taken_and_made_safe() -> None:
    template = {
        "metadata": {"labels": {"site": "x"}, "name": "mine"},
        "spec": {"backoffLimit": 6, "template": {"spec": {"containers": [{"name": "r", "image": "site/reboot:2"}]}}},
    }
    fleet = a_fleet(replace(REBOOTS, template=template))
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.CLOSED)
    (job,) = fleet.jobs()
    assert job["metadata"]["labels"]["site"] == "x"
    assert job["metadata"]["name"].startswith("gpuward-reboot-")
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "site/reboot:2"


async def test_without_a_persons_word_it_is_parked_and_says_what_is_due() -> None:
    fleet = a_fleet(RebootTerms())
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.PARKED)
    assert case.due == OBSTACLE
    assert fleet.jobs() == []


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ISOLATE])
async def test_in_a_lesser_mode_nothing_is_rebooted(mode: Mode) -> None:
    fleet = a_fleet(mode=mode)
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fleet.fall_off()
        await fleet.time.pass_by(0.1)
        await fleet.lived(controller, 40)
    assert fleet.jobs() == []


async def test_work_on_the_nodes_other_gpus_is_waited_for() -> None:
    fleet = a_fleet(eviction=EvictionTerms(scope=Scope.SICK_GPU, deadline_seconds=30.0))
    fleet.agents["gpu-1"].work = ()
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.VACATED)
        await fleet.lived(controller, 20)
        assert fleet.jobs() == []
        assert fleet.case(fault).because == (
            "A reboot of the node is due, and waits: pods with GPUs are on it: work/train-0"
        )
        fleet.end_pod("train-0")
        case = await fleet.settled(controller, fault, S.CLOSED)
    assert EffectKind.REBOOT in kinds_of(case)


async def test_two_gpus_that_fell_off_share_one_reboot() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        faults = [fleet.fall_off(), fleet.fall_off(pci=GPU_B)]
        await fleet.time.pass_by(0.1)
        for fault in faults:
            await fleet.settled(controller, fault, S.CLOSED)
    assert fleet.rebooted == ["gpu-1"]


async def test_a_reset_that_failed_is_followed_by_a_reboot() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].fails[EffectKind.RESET] = "the tool says no"
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.CLOSED)
    kinds = kinds_of(case)
    assert kinds.count(EffectKind.RESET) == kinds.count(EffectKind.REBOOT) == 1
    assert fleet.rebooted == ["gpu-1"]


async def test_what_a_reboot_does_not_cure_goes_to_a_person_with_a_ticket() -> None:
    fleet = a_fleet()
    fleet.cured = False
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.PARKED)
        assert case.due == "A person must look: the GPU does not answer"
        fleet.order(case.id, what="retry")
        await fleet.lived(controller, 20)
        case = fleet.case(fault)
    assert case.state is S.PARKED
    assert fleet.rebooted == ["gpu-1"], "one a day"


async def test_a_node_that_does_not_go_down_is_told_with_what_was_tried() -> None:
    fleet = a_fleet()
    fleet.deaf = True
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, S.PARKED)
    assert "it was not rebooted within" in case.because
    assert f"GPU {GPU_A} (GPU-" in case.due
    assert "Xid 79" in case.due
    assert "reboot at" in case.due
    assert fleet.taint() == "xid-79"


async def test_a_node_that_tells_no_boot_is_not_rebooted() -> None:
    fleet = a_fleet()
    del fleet.boots["gpu-1"]
    fleet.answer("gpu-1")
    async with fleet.running() as controller:
        await fleet.lived(controller, 1)
        fault = fleet.fall_off()
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, S.PARKED)
    assert fleet.jobs() == []


async def test_the_right_to_it_is_granted_where_a_person_asks_for_it_and_nowhere_else() -> None:
    for reboot, state in ((False, S.PARKED), (True, S.CLOSED)):
        fleet = a_fleet()
        roles = rights(Installation(namespace="gpuward", reboot=reboot))
        mine = [
            one for one in roles if one["kind"] in {"ClusterRole", "Role"} and one["metadata"]["name"] == CONTROLLER
        ]
        rules = [rule for role in mine for rule in rules_of(role)]
        async with fleet.running(fleet.cluster.as_user("controller", tuple(rules))) as controller:
            await fleet.lived(controller, 1)
            fault = fleet.fall_off()
            await fleet.time.pass_by(0.1)
            case = await fleet.settled(controller, fault, state)
        rebooted = next(effect for effect in case.effects if effect.kind is EffectKind.REBOOT)
        assert rebooted.outcome is (Outcome.DONE if reboot else Outcome.FAILED)
        assert reboot or "forbidden" in rebooted.why


async def lived(fleet: RebootFleet, cluster: Any) -> str:
    """Let the fleet live with a controller on `cluster`, and with another from when that dies; return the fault."""
    fault = fleet.fall_off()
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                _check_it_lives(controller)
                await fleet.lived(controller, 40)
        except Died:
            continue
        break
    return fault


def _check_it_lives(controller: Controller) -> None:
    if not controller.picture.is_complete:
        raise Died


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_the_node_is_rebooted_once(after: bool) -> None:  # noqa: FBT001  a row
    fleet = a_fleet()
    cluster = MortalCluster(fleet.cluster, last=FOREVER, after=False)
    await lived(fleet, cluster)
    calls = cluster.calls
    assert calls > 20
    for last in range(1, calls + 1):
        fleet = a_fleet()
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        fault = await lived(fleet, cluster)
        assert cluster.is_dead
        assert fleet.case_state(fault) is S.CLOSED, f"killed at call {last}"
        assert fleet.rebooted == ["gpu-1"], f"killed at call {last}"
        assert len(fleet.jobs()) == 1
        assert [as_case(one).of_node for one in fleet.gpu_cases()] == [False]
        assert len(fleet.server.list(GPU_CASES).items) == 1
        assert fleet.taint() is None
