"""The loop of one GPU server in a cluster: follow the kernel log, tell what is seen, do what is ordered, and say so.

Nothing is decided here but what is done when nobody can order. It runs in a thread; with the cluster's side it shares
nothing but `post`. What is ordered is saved before it is done, and done beside the loop.
"""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from gpuward import __version__
from gpuward.agent import entries
from gpuward.agent.bench import Tools
from gpuward.agent.board import Board
from gpuward.agent.eyes import SHOWN_DIFFERENTLY, Eyes
from gpuward.agent.hearing import Ears, Hearing
from gpuward.agent.lone import Contact, Lookout, candidate
from gpuward.agent.order_book import OrderBook
from gpuward.agent.orders import (
    Grounds,
    Ledger,
    answers_of,
    case_about,
    with_lone_drain,
    with_order,
    with_outcome,
    without_removed,
)
from gpuward.agent.outbox import Outbox
from gpuward.agent.outfit import NO_SENSES, Plan, Senses
from gpuward.agent.pauses import Pauses
from gpuward.agent.post import Complaint, Post, Receipt, Report, Wanted, Worry
from gpuward.agent.reporting import Seeing, status_of, worst_by_gpu
from gpuward.agent.shift import Ended, Shift
from gpuward.agent.sight import Seen, obstacle_of, sight_of
from gpuward.agent.telling import Telling
from gpuward.agent.tenants import Tenants
from gpuward.agent.watch import READ_SECONDS, Outside, Told, go_round
from gpuward.isolation.merge import Merger
from gpuward.isolation.saved import SavedError
from gpuward.model.case import ENDED, Case, EffectKind
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.happening import Happening
from gpuward.model.objects.gpu_fault import safe_part
from gpuward.model.objects.limits import PART_OF_NAME
from gpuward.model.objects.values import ObjectError, write
from gpuward.ports import Chronicle, Refused, Store

if TYPE_CHECKING:
    from gpuward.model.objects.gpu_node import NodeStatus

BUSY_SECONDS = 0.05
"""How long a round waits for lines while the bench works, or an order is expected."""
EXPECTING_SECONDS = 10.0
"""How long after a fault the controller's orders for it are expected."""
DRILL_SECONDS = 86_400.0
"""How long after the newest order of a drill its GPU is still looked at; none waits longer for work to end."""


@dataclass(frozen=True, slots=True)
class Chest:
    """Where the agent of a cluster's node keeps what must survive it."""

    orders: Store
    outbox: Store
    pauses: Store
    chronicle: Chronicle


@dataclass(frozen=True, slots=True)
class _Now:
    """What is known in one round."""

    live: tuple[Fault, ...]
    """Faults of the kernel's own record on this machine that go on and are not mere history."""
    seen: Mapping[str, Seen]
    grounds: Grounds


class Member:
    """One agent in a cluster. `say` gets each happening as it is written down, `warn` what a person should know.

    Of `plan` the paces count; the mode is the controller's, and its brake and budget are the controller's too.
    """

    def __init__(  # noqa: PLR0913  what an agent is made of, as Standalone
        self,
        outside: Outside,
        new_merger: Callable[[], Merger],
        *,
        tools: Tools,
        chest: Chest,
        post: Post,
        plan: Plan,
        senses: Senses = NO_SENSES,
        hands: Executor,
        say: Callable[[Happening], None],
        warn: Callable[[str], None],
        timezone: tzinfo,
        node: str,
    ) -> None:
        self._outside = outside
        self._new_merger = new_merger
        self._post = post
        self._warn = warn
        self._timezone = timezone
        self._node = node
        self._eyes = Eyes(
            outside,
            tools,
            plan=plan,
            senses=senses,
            hands=hands,
            node=node,
            warn=warn,
            log_showed=lambda: self._hearing.shown,
        )
        self._telemetry = self._eyes.telemetry
        self._pauses = Pauses(chest.pauses)
        self._shift = Shift(hands, self._eyes.tools, outside.clock, pauses=self._pauses, telemetry=self._telemetry)
        self._telling = Telling(chest.chronicle, say=say, warn=warn)
        self._book = OrderBook(chest.orders)
        kubelet = senses.kubelet
        self._outbox = Outbox(chest.outbox, node=node, warn=self._eyes.warn_once, kubelet=kubelet)
        self._tenants = (
            None
            if kubelet is None
            else Tenants(kubelet, outside.clock, hands=hands, outbox=self._outbox, warn=self._eyes.warn_once)
        )
        ears = Ears(tools.holders, is_ours=self._is_ours, warn=self._eyes.warn_once)
        self._hearing = Hearing(self._outbox, self._telemetry, outside.clock, ears=ears)
        self._ledger = Ledger()
        self._boot = ""
        self._wanted: Wanted | None = None
        self._contact = Contact()
        self._worried = False
        self._looked: set[str] = set()
        self._drilled: dict[str, float] = {}
        self._status: NodeStatus | None = None
        self._seeing: Seeing | None = None
        """What the status was told of."""
        self._urgent = False
        self._changed = False

    def run(self, stopped: Callable[[], bool]) -> None:
        """Work until `stopped` says so. Raises EdgeError when the log cannot be read, or the orders not used."""
        go_round(self.rounds(), stopped)

    def rounds(self) -> Generator[None, None, None]:
        """Work, a round a step. Raises EdgeError as `run` does."""
        self._load()
        self._telling.add(self._eyes.open(self._real()))
        yield from self._eyes.rounds(
            self._new_merger,
            tell=self._hear,
            each_round=self.round,
            opening=f"watching {{source}} for node {self._node} in mode {self._book.mode}, as the cluster last said",
            timezone=self._timezone,
        )

    def board(self) -> Board:
        """Return what people may see on the node itself; the cases are the node's own. Called from any thread."""
        return self._eyes.board(self._book.mode, self._ledger.cases.values())

    def round(self, merger: Merger) -> float:
        """Do what is due between two looks at the log; return how long the next look may wait."""
        self._send_faults()  # before anything that takes time
        for ended in self._shift.ended():
            self._settle(ended)
        self._open_post()
        self._telling.add(self._eyes.turn(merger, self._real(), portrayed=self._real()))
        now = self._now(merger)
        asked = self._with_lone(self._with_orders(now.grounds), now)
        if self._keep(asked):
            self._shift.begin(self._ledger.cases.values())
        self._send_faults()
        if self._tenants is not None:  # after the faults are on their way, which wait for nobody
            self._tenants.turn(self._telemetry.memory)
        self._report(now)
        return BUSY_SECONDS if self._shift.busy or self._expects_orders() else READ_SECONDS

    def _expects_orders(self) -> bool:
        newest = self._hearing.newest
        return newest is not None and self._outside.clock.monotonic() < newest + EXPECTING_SECONDS

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _hear(self, told: Told) -> None:
        """Take a change of a fault, and write down what is news."""
        fault, kind = told.change.fault, told.change.kind
        heard = f"{fault.id} {kind} {fault.verdict.level} {fault.count}"
        if self._hearing.hear(told) and kind is not ChangeKind.CLOSED and self._telling.is_news(heard):
            self._telling.add([entries.observed(fault, self._node, at=told.at)])

    def _is_ours(self, fault: Fault) -> bool:
        """Return whether a fault is this machine's: a log may be gathered from many."""
        return not self._eyes.hosts().is_elsewhere(fault.node)

    def _now(self, merger: Merger) -> _Now:
        """Put together what this round knows."""
        live = self._hearing.live(merger)
        faults = worst_by_gpu((*live, *self._hearing.read()))
        self._looked |= faults.keys()
        grounds = self._grounds(faults)
        self._mind_drills(grounds.now)
        cased = {case.gpu for case in self._real() if case.state not in ENDED}
        looks = [
            case_about(f"look.{pci}", pci, None, grounds=grounds)
            for pci in sorted((self._looked | self._drilled.keys()) - cased)
        ]
        seen = self._eyes.survey.sights((*self._real(), *looks))
        return _Now(
            live=live,
            seen=seen,
            grounds=replace(grounds, obstacles={pci: obstacle_of(one) for pci, one in seen.items()}),
        )

    def _mind_drills(self, now: float) -> None:
        """Look at a GPU while it is drilled too: the drill waits for its work as a real case does."""
        orders = () if self._wanted is None else self._wanted.orders
        self._drilled |= {order.pci: now for order in orders if order.drill}
        self._drilled = {pci: at for pci, at in self._drilled.items() if abs(now - at) < DRILL_SECONDS}

    def _grounds(self, faults: Mapping[str, Fault]) -> Grounds:
        return Grounds(
            now=self._outside.clock.now(),
            node=self._node,
            boot=self._boot,
            mode=self._book.mode if self._wanted is None else self._wanted.mode,
            gpus=self._telemetry.memory,
            obstacles={},
            faults=faults,
        )

    # --- what is ordered ----------------------------------------------------------------------------------------------

    def _open_post(self) -> None:
        for word in self._post.heard():
            match word:
                case Wanted():
                    self._wanted = word
                case Receipt():
                    self._outbox.receive(word)
                case Contact():
                    self._contact = word
                case Complaint(sentence):
                    self._eyes.warn_once(sentence)

    def _with_orders(self, grounds: Grounds) -> Ledger:
        """Return the ledger with what is wanted now; until that is heard for the first time nothing is taken away."""
        ledger = self._ledger
        if self._wanted is None:
            return ledger
        for order in self._wanted.orders:
            ledger = with_order(ledger, order, grounds)
        return without_removed(ledger, [order.id for order in self._wanted.orders], now=grounds.now)

    def _with_lone(self, ledger: Ledger, now: _Now) -> Ledger:
        """Return the ledger with a drain that nobody ordered, where nobody can and the hardware broke by the log."""
        lookout = Lookout(
            mode=now.grounds.mode,
            held=self._book.held if self._wanted is None else self._wanted.held,
            sights={pci: sight_of(one) for pci, one in now.seen.items()},
            history=self._hearing.history,
            drained={pci for pci, one in now.seen.items() if one.drained or one.drained_by_others},
        )
        found = candidate([(fault, self._outbox.name_of(fault)) for fault in now.live], ledger, lookout)
        if (found is not None) is not self._worried:
            self._worried = found is not None
            self._post.send(Worry(self._worried))
        why = "" if found is None else self._contact.why_alone(self._outside.clock.monotonic())
        if found is None or not why:
            return ledger
        fault, name = found
        because = f"GPU {fault.pci} is drained without an order: {why}, and {fault.title} is the hardware's."
        self._telling.add([entries.said(because, self._node, gpu=fault.pci or "", at=now.grounds.now)])
        return with_lone_drain(ledger, fault, name, now.grounds)

    def _settle(self, ended: Ended) -> None:
        result = ended.result
        self._ledger = with_outcome(
            self._ledger, ended.case, ended.number, outcome=result.outcome, at=ended.at, why=result.why
        )
        case = self._ledger.cases[ended.case]
        effect = case.effects[ended.number - 1]
        if effect.kind in SHOWN_DIFFERENTLY:
            self._telemetry.hurry()
        if effect.kind is EffectKind.VERIFY:
            self._looked.discard(case.gpu)
        self._telling.add([entries.done(case, effect)])

    # --- what is kept, and told ---------------------------------------------------------------------------------------

    def _keep(self, asked: Ledger) -> bool:
        """Save what was ordered, then write down what happened. False when it could not be saved: nothing is done."""
        wanted = self._wanted or Wanted(self._book.mode, held=self._book.held)
        self._changed = any((self._changed, self._telemetry.has_changed(), self._hearing.has_changed()))
        self._urgent = self._urgent or answers_of(asked) != answers_of(self._book.ledger)
        stands = (asked, wanted.mode, wanted.held) == (self._book.ledger, self._book.mode, self._book.held)
        if not (stands and self._telling.is_empty() and not self._changed):
            try:
                self._book.keep(asked, self._boot, mode=wanted.mode, held=wanted.held, more=self._more())
            except Refused as error:
                self._eyes.warn_once(f"no order is taken, as it cannot be saved: {error}")
                self._telling.write()
                return False
        self._ledger = asked
        self._changed = False
        self._telling.write()
        return True

    def _more(self) -> dict[str, Any]:
        return {
            **self._telemetry.pack(),
            **self._telling.pack(()),
            **self._hearing.pack(),
            "looked": sorted(self._looked),
            "drilled": self._drilled,
        }

    def _load(self) -> None:
        self._boot = safe_part(self._outside.log.origin().boot or "", PART_OF_NAME)
        more = self._book.load(self._boot, at=self._outside.clock.now())
        self._ledger = self._book.ledger
        try:
            if more:
                self._telemetry.unpack(more)
                self._telling.unpack(more)
                self._hearing.unpack(more)
                self._looked = set(more["looked"])
                self._drilled = {str(pci): float(at) for pci, at in dict(more.get("drilled", {})).items()}
        except (SavedError, KeyError, TypeError, ValueError) as error:
            raise Refused(f"what was saved with the orders cannot be used ({error!r}); remove the file") from error
        self._pauses.load(booted=not self._book.is_of_this_boot)
        self._outbox.load()
        self._eyes.load_portraits()

    def _send_faults(self) -> None:
        """Hand on what waits; it is on the disk by then, or it was said that it cannot be."""
        self._outbox.save()
        for parcel in self._outbox.unsent():
            self._post.send(parcel)
            self._urgent = True

    def _report(self, now: _Now) -> None:
        seeing = Seeing(
            version=__version__,
            boot=self._boot,
            mode=now.grounds.mode,
            reading=self._telemetry.reading,
            trouble=self._telemetry.trouble,
            seen=now.seen,
            faults=now.grounds.faults,
            cases=self._real(),
            answers=answers_of(self._ledger),
        )
        status = self._status if seeing == self._seeing else status_of(seeing)
        self._seeing = seeing
        if status is not None and status != self._status:
            self._status = status
            try:
                self._post.send(Report(write(status), urgent=self._urgent))
            except ObjectError as error:
                self._eyes.warn_once(f"the status of {self._node} cannot be told: {error}")
        self._urgent = False

    def _real(self) -> tuple[Case, ...]:
        """Return the node's own cases that are no drills: only they have marks on the machine."""
        return tuple(case for case in self._ledger.cases.values() if case.drill is None)
