"""The hands at work: which effects are under way, and what became of those that ended. What is asked for is decided."""

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue

from gpuward.agent.bench import Job, Result, Tools, perform
from gpuward.agent.pauses import Pauses
from gpuward.agent.rehearsal import rehearse
from gpuward.agent.sight import is_lost
from gpuward.agent.survey import unknown
from gpuward.agent.telemetry import Telemetry
from gpuward.isolation.machine import settle
from gpuward.model.case import Case, Effect, Outcome
from gpuward.ports import Clock


@dataclass(frozen=True, slots=True)
class Ended:
    """An effect that was done or not, and when, on the way from the bench to the loop."""

    case: str
    number: int
    at: float
    result: Result


class Shift:
    """Has effects done beside the loop: of one case one after the other, of different cases side by side."""

    def __init__(self, hands: Executor, tools: Tools, clock: Clock, *, pauses: Pauses, telemetry: Telemetry) -> None:
        self._hands = hands
        self._tools = tools
        self._clock = clock
        self._pauses = pauses
        self._telemetry = telemetry
        self._working: dict[str, Future[None]] = {}
        self._ended: SimpleQueue[Ended] = SimpleQueue()

    @property
    def busy(self) -> bool:
        """Whether effects are under way."""
        return bool(self._working)

    def begin(self, cases: Iterable[Case]) -> None:
        """Have done what cases ask for, unless their effects are under way already."""
        for case in cases:
            pending = [effect for effect in case.effects if effect.outcome is Outcome.ASKED]
            if pending and case.id not in self._working:
                self._working[case.id] = self._hands.submit(self._work, case, pending)

    def ended(self) -> list[Ended]:
        """Return what has ended since the last call. A worker that broke is heard of: its effects are done again."""
        done = [case_id for case_id, future in self._working.items() if future.done()]
        ended: list[Ended] = []
        with contextlib.suppress(Empty):
            while True:
                ended.append(self._ended.get_nowait())
        for case_id in done:
            self._working.pop(case_id).result()
        return ended

    def _work(self, case: Case, pending: list[Effect]) -> None:
        """Do the effects of a case in order; what one leads to is seen by the next."""
        do: Callable[[Job, Tools], Result] = perform if case.drill is None else rehearse
        for effect in pending:
            job = Job(
                case=case,
                effect=effect,
                gpu=self._telemetry.memory.get(case.gpu) or unknown(case),
                paused=self._pauses.of(case.id),
                lost=is_lost(case.code, case.kind, self._telemetry.of(case.gpu)),
            )
            intend, forget = partial(self._pauses.add, case.id), partial(self._pauses.remove, case.id)
            result = do(job, replace(self._tools, intend=intend, forget=forget))
            ended = Ended(case.id, effect.number, at=self._clock.now(), result=result)
            case = settle(case, effect.number, result.outcome, at=ended.at, why=result.why)
            self._ended.put(ended)
