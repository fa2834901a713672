"""What an agent sees of its server, alone or in a cluster: the log, the GPUs as they are read, and who holds them.

What is done about it is for the loop that owns these eyes to say.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from datetime import tzinfo

from gpuward.agent.bench import Tools
from gpuward.agent.board import Board
from gpuward.agent.exported import LogShowed
from gpuward.agent.outfit import Plan, Senses
from gpuward.agent.portraits import Portraits
from gpuward.agent.sight import obstacle_of
from gpuward.agent.survey import Survey
from gpuward.agent.telemetry import Pace, Telemetry
from gpuward.agent.watch import Outside, Told, Watch
from gpuward.agent.whose import Hosts, hosts_of
from gpuward.isolation.merge import Merger
from gpuward.model.case import ENDED, Case, EffectKind, Mode
from gpuward.model.happening import Happening
from gpuward.ports import EdgeError, Refused

SHOWN_DIFFERENTLY = frozenset({EffectKind.DRAIN, EffectKind.UNDRAIN, EffectKind.RESET})
"""After these the GPUs are read again at once: what was read before is no longer so."""


class Eyes:
    """The telemetry, the survey and the portraits of one server, and the watch of its log. `warn` tells a person.

    `log_showed` is asked what the log has shown so far.
    """

    def __init__(  # noqa: PLR0913  ports, a pace, what else may be seen, and ways to speak
        self,
        outside: Outside,
        tools: Tools,
        *,
        plan: Plan,
        senses: Senses,
        hands: Executor,
        node: str,
        warn: Callable[[str], None],
        log_showed: LogShowed,
    ) -> None:
        self._outside = outside
        self._warn = warn
        self._node = node
        self._host = senses.host
        self._warned: set[str] = set()
        self._watch: Watch | None = None
        self.telemetry = Telemetry(
            tools.driver,
            outside.clock,
            hands=hands,
            pace=Pace(poll_seconds=plan.poll_seconds, read_seconds=plan.read_seconds),
            node=node,
            grading=senses.grading,
            exporter=senses.exporter,
            log_showed=log_showed,
        )
        self.survey = Survey(self.telemetry, tools.holders, outside.clock, known=senses.known, warn=self.warn_once)
        self._portraits = (
            None
            if senses.portraits is None
            else Portraits(senses.painter or tools.driver, outside.clock, hands=hands, store=senses.portraits)
        )
        self.tools = tools if self._portraits is None else replace(tools, portrait=self._portraits.of)
        """The tools of the bench, which keeps portraits as evidence."""

    def open(self, cases: Iterable[Case]) -> list[Happening]:
        """Learn which GPUs there are and read them once, after what was saved is known; return what was seen."""
        with contextlib.suppress(EdgeError):  # a reading tells what the list does not
            # One that somebody drained is still in the driver's own list.
            self.telemetry.expect(self._outside.inventory.gpus())
        return self.telemetry.look(cases, self._warn)

    def load_portraits(self) -> None:
        """Take over the portraits that were kept; that they cannot be used is warned of."""
        if self._portraits is not None:
            try:
                self._portraits.load()
            except Refused as error:
                self._warn(str(error))

    def rounds(
        self,
        new_merger: Callable[[], Merger],
        *,
        tell: Callable[[Told], None],
        each_round: Callable[[Merger], float],
        opening: str,
        timezone: tzinfo,
    ) -> Generator[None, None, None]:
        """Follow the log, a round a step. Raises EdgeError when it cannot be read."""
        self._watch = Watch(
            self._outside,
            new_merger,
            tell=tell,
            warn=self._warn,
            timezone=timezone,
            node=self._node,
            each_round=each_round,
            opening=opening,
        )
        yield from self._watch.rounds()

    def turn(self, merger: Merger, real: Iterable[Case], *, portrayed: Iterable[Case]) -> list[Happening]:
        """Take and begin what is due of readings and portraits, beside the loop; return what was seen.

        `real` are the cases whose marks are on the machine; of a GPU with one of `portrayed` no portrait is taken.
        """
        found = self.telemetry.turn(real, self.warn_once)
        if self._portraits is not None:
            self._portraits.turn(self.telemetry.reading, portrayed, self.warn_once)
        for one in self.telemetry.memory.values():
            if one.uuid:
                merger.learn_uuid(one.pci, one.uuid, node=None)
        return found

    def hosts(self) -> Hosts:
        """Return whose lines the log has shown so far: it may be gathered from many machines."""
        return hosts_of((self._node, self._host), () if self._watch is None else self._watch.place().hosts)

    def board(self, mode: Mode, cases: Iterable[Case]) -> Board:
        """Return what people may see. Called from any thread."""
        cases = tuple(cases)
        real = tuple(case for case in cases if case.drill is None)
        seen = self.survey.sights(real)
        reading = self.telemetry.reading
        return Board(
            mode=mode,
            node=self._node,
            now=self._outside.clock.now(),
            road=None if reading is None else reading.road,
            driver_version=None if reading is None else reading.driver_version,
            driver_trouble=self.telemetry.trouble,
            # Addresses that only a line has named come last: they must not shift the numbers of those that are there.
            gpus=tuple(seen[pci] for pci in sorted(seen, key=lambda pci: (pci not in self.telemetry.memory, pci))),
            cases=cases,
            place=None if self._watch is None else self._watch.place(),
            findings=self.telemetry.faults(),
            obstacles={case.gpu: obstacle_of(seen[case.gpu]) for case in real if case.state not in ENDED},
        )

    def warn_once(self, sentence: str) -> None:
        """Warn, unless it was said before: what stays so is not said every round."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)
