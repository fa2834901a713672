"""A case under everything at once, as Hypothesis likes: scenes, outcomes, orders, restarts; the laws hold."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpuward.isolation.machine import forgo, shift
from gpuward.isolation.packed import pack_case, unpack_case
from gpuward.model.case import ENDED, ON_A_CLUSTER, ON_A_SERVER, CaseState, EffectKind, Mode, Order, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import NodeSight, RebootSight, Scene
from tests.kit.lives import PROBATION_SECONDS, Life, a_case, a_scene
from tests.kit.node_lives import ANSWERS, AWAY, BACK, GONE, LOST, OFF, PODS, a_lost_node, a_node_scene, healed

MODES = st.sampled_from(list(Mode))
WORK = st.sampled_from([(), ("train (7)",), None])
WORDS = st.sampled_from(["", "some reason"])


class CaseMachine(RuleBasedStateMachine):
    """One case in a world that does as it likes; whatever it does, a good world afterwards lets the case end."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life()
        self.scene: Scene = a_scene()

    @initialize(
        level=st.sampled_from([Level.P0, Level.P1]),
        parks=st.booleans(),
        drill=st.one_of(st.none(), st.none(), MODES),
        mode=MODES,
    )
    def _open(self, level: Level, parks: bool, drill: Mode | None, mode: Mode) -> None:  # noqa: FBT001  drawn by name
        self.life = Life(case=a_case(level=level, parks=parks, drill=drill))
        self.scene = a_scene(level=level, mode=drill or mode)

    @rule(work=WORK, display=st.booleans(), obstacle=WORDS)
    def _the_gpu_changes(self, work: tuple[str, ...] | None, display: bool, obstacle: str) -> None:  # noqa: FBT001  drawn
        gpu = replace(self.scene.gpu, work=work, display=display)
        self._see(replace(self.scene, gpu=gpu, obstacle=obstacle))

    @precondition(lambda self: self.life.case.drill is None)
    @rule(reach=st.sampled_from([ON_A_CLUSTER, ON_A_SERVER]), cures=st.booleans(), why_not=WORDS, waits=WORDS)
    def _a_reboot_comes_within_reach(
        self, reach: frozenset[EffectKind], *, cures: bool, why_not: str, waits: str
    ) -> None:
        reboot = RebootSight(cures=cures, why_not=why_not, waits=waits)
        self._see(replace(self.scene, reach=self.scene.reach | reach, reboot=reboot, node=NodeSight(boot="b1")))

    @rule(brake=WORDS, budget=WORDS)
    def _the_server_changes(self, brake: str, budget: str) -> None:
        self._see(replace(self.scene, brake=brake, budget=budget))

    @rule(worse=st.booleans(), cleared=st.booleans(), over=st.booleans(), idle=WORDS, relapse=WORDS)
    def _the_fault_changes(self, *, worse: bool, cleared: bool, over: bool, idle: str, relapse: str) -> None:
        level = Level.P0 if worse else self.scene.fault.level
        fault = replace(self.scene.fault, level=level, cleared=cleared, over=over, idle_reason=idle)
        self._see(replace(self.scene, fault=fault, relapse=relapse))

    @rule(job=WORDS)
    def _its_job_fails_elsewhere_too(self, job: str) -> None:
        self._see(replace(self.scene, job_fault=job))

    @rule(overtaken=WORDS)
    def _another_fault_comes(self, overtaken: str) -> None:
        self._see(replace(self.scene, overtaken=overtaken))

    @rule(seconds=st.sampled_from([0.0, 1.0, 60.0, PROBATION_SECONDS, 90_000.0]))
    def _time_goes_on(self, seconds: float) -> None:
        self._see(replace(self.scene, now=self.scene.now + seconds))

    @rule(outcome=st.sampled_from([Outcome.DONE, Outcome.DONE, Outcome.REFUSED, Outcome.FAILED]))
    def _an_effect_ends(self, outcome: Outcome) -> None:
        self.life.end(outcome, at=self.scene.now, why="it said so")
        self._see(self.scene)

    @rule(order=st.sampled_from(list(Order)))
    def _a_person_orders(self, order: Order) -> None:
        self.life.order(order)
        self._see(self.scene)

    @rule(mode=MODES)
    def _the_agent_comes_back(self, mode: Mode) -> None:
        kept = unpack_case(pack_case(self.life.case))
        self.life.case = forgo(kept, mode, at=self.scene.now)
        self._see(replace(self.scene, mode=kept.drill or mode))

    @rule(seconds=st.sampled_from([-90_000.0, -5.0, 5.0, 90_000.0]))
    def _the_clock_is_set(self, seconds: float) -> None:
        self.life.case = shift(self.life.case, seconds)
        self._see(replace(self.scene, now=self.scene.now + seconds))

    @precondition(lambda self: self.life.case.state is CaseState.PARKED)
    @rule()
    def _a_person_releases_what_is_parked(self) -> None:
        self.life.order(Order.RELEASE)
        self._see(self.scene)

    @invariant()
    def _every_law_holds(self) -> None:
        assert self.life.broken == []

    @invariant()
    def _what_has_ended_left_nothing(self) -> None:
        case = self.life.case
        assert case.state not in ENDED or case.drill is not None or not case.marks

    def teardown(self) -> None:
        """Let the world be good, and see that the case ends."""
        good = a_scene(
            level=self.scene.fault.level,
            mode=self.life.case.drill or Mode.REPAIR,
            now=max(self.scene.now, self.life.case.since) + 10.0,
            reach=self.scene.reach,
        )
        self.life.play(good)
        for number in (1, 2):  # the first time a taint may still wait to be tried again
            self.life.play(replace(good, now=good.now + number * (PROBATION_SECONDS + 1)))
        if self.life.case.state is CaseState.PARKED:
            self.life.order(Order.RELEASE)
            self.life.play(replace(good, now=good.now + 2 * PROBATION_SECONDS + 3))
        assert self.life.broken == []
        assert self.life.case.state in ENDED

    def _see(self, scene: Scene) -> None:
        self.scene = scene
        self.life.see(scene)


class NodeMachine(RuleBasedStateMachine):
    """The case of a whole node; whatever happens to it, a node that answers for good lets the case end."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(case=a_lost_node())
        self.scene: Scene = a_node_scene()

    @rule(node=st.sampled_from([LOST, AWAY, OFF, GONE, ANSWERS, BACK]))
    def _the_node_changes(self, node: NodeSight) -> None:
        fault = replace(self.scene.fault, cleared=node.answers, over=node.answers)
        relapse = "the node stopped answering again" if node.lost else ""
        self._see(replace(self.scene, node=node, fault=fault, relapse=relapse))

    @rule(victims=st.sampled_from([(), PODS, ("ml/c",), None]), saving=WORDS)
    def _its_pods_change(self, victims: tuple[str, ...] | None, saving: str) -> None:
        self._see(replace(self.scene, victims=victims, saving=saving))

    @rule(brake=WORDS, budget=WORDS, mode=MODES)
    def _the_cluster_changes(self, brake: str, budget: str, mode: Mode) -> None:
        self._see(replace(self.scene, brake=brake, budget=budget, mode=mode))

    @rule(seconds=st.sampled_from([0.0, 1.0, 60.0, PROBATION_SECONDS, 90_000.0]))
    def _time_goes_on(self, seconds: float) -> None:
        self._see(replace(self.scene, now=self.scene.now + seconds))

    @rule(outcome=st.sampled_from([Outcome.DONE, Outcome.DONE, Outcome.REFUSED, Outcome.FAILED]))
    def _an_effect_ends(self, outcome: Outcome) -> None:
        self.life.end(outcome, at=self.scene.now, why="it said no")
        self._see(self.scene)

    @rule(order=st.sampled_from(list(Order)))
    def _a_person_orders(self, order: Order) -> None:
        self.life.order(order)
        self._see(self.scene)

    @rule()
    def _it_is_kept_and_read_again(self) -> None:
        assert unpack_case(pack_case(self.life.case)) == self.life.case

    @invariant()
    def _every_law_holds(self) -> None:
        assert self.life.broken == []

    @invariant()
    def _what_answers_is_not_off(self) -> None:
        assert not (self.life.case.off and self.scene.node.answers)

    def teardown(self) -> None:
        """Let the node answer for good, and see that the case ends without a mark."""
        healed(self.life, self.scene.now)
        assert self.life.broken == []

    def _see(self, scene: Scene) -> None:
        self.scene = scene
        self.life.case = replace(self.life.case, off=self.life.case.off and not scene.node.answers)  # as the waist does
        self.life.see(scene)


NodeMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestNodeMachine = NodeMachine.TestCase
CaseMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCaseMachine = CaseMachine.TestCase
