"""Many lines, one fault: which lines belong together, and when a verdict is due. What the rules say is in judge.

The engine knows no rule by name: identities, windows, counts and keys are rows of the rule book. It is a fold over
records in the order they come, so how they are cut into batches changes nothing. It follows the records' own time,
that of each machine for itself.
"""

from collections.abc import Mapping
from typing import Any

from gpuward.isolation.around import Index
from gpuward.isolation.catalogue.rules import Rule
from gpuward.isolation.grade import Grade
from gpuward.isolation.judge import judge, same_clock
from gpuward.isolation.live import LiveFault, elapsed_seconds, fits_record
from gpuward.isolation.replay import Replays
from gpuward.isolation.saved import FORMAT, SavedError, pack_fault, unpack_fault
from gpuward.isolation.terms import InForce, Terms
from gpuward.isolation.timeline import Timeline
from gpuward.model.fault import Change, ChangeKind, Fault, Verdict
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER, Moment

FAULTS_KEPT = 4096
"""Faults remembered, going on or over: a node has far fewer in a week; more is a flood, and the oldest is let go."""
UUIDS_KEPT = 4096
MACHINES_KEPT = 65536
"""Machines of a central log told apart; those beyond share one number."""

Key = tuple[Any, ...]


class Merger:
    """Folds records into faults and tells each change; one for a node or for a log."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._in_force = InForce(terms)
        self._index = Index()
        self._open: dict[Key, LiveFault] = {}
        self._timelines: dict[int, Timeline] = {}
        self._uuids: dict[tuple[int, str], str] = {}
        self._machines: dict[str, int] = {}
        self._last_machine = 0
        self._replays = Replays()
        self._going_on: list[Fault] | None = None
        """What `faults` returned last; None when something has changed since."""

    def learn_uuid(self, pci: str, uuid: str, *, node: str | None) -> None:
        """Remember the UUID of a GPU, from the driver's list or from a line."""
        key = (self._machine(node), pci)
        if self._uuids.get(key) != uuid and len(self._uuids) < UUIDS_KEPT:
            self._uuids[key] = uuid
            self._going_on = None

    def step(self, record: Record) -> list[Change]:
        """Take one record; return what changed, in order."""
        grade = self._terms.grade(record)
        loaded = record.kind is RecordKind.DRIVER_LOADED
        if (grade is not None or loaded) and self._replays.knows(record):
            return []
        machine = self._last_machine = self._machine(record.node)
        changes = self.advance(record.moment, boot=record.boot, node=record.node)
        user_record = record.facility not in (None, "kern") and "accept_user_records" not in self._terms.options
        if grade is None:
            if not user_record:
                self._learn(record, machine)
            return changes
        key = (machine, *_identity_key(record, grade), user_record)
        live = self._open.get(key)
        if live is None or self._is_over(live, record):
            self._begin(key, record, grade, changes=changes)
        else:
            self._absorb(live, record, grade, changes)
        return changes

    def advance(self, moment: Moment, *, boot: str | None, node: str | None = None) -> list[Change]:
        """Let time pass to `moment` of `boot` on a machine: what waited is settled, what nothing can change is closed.

        Without `node` it is the machine of the newest record. Time does not go back within a boot.
        """
        changes: list[Change] = []
        if moment.wall is None and moment.uptime is None:
            return changes
        timeline = self._timelines.get(self._last_machine if node is None else self._machine(node))
        if timeline is not None:
            timeline.hear(moment, boot)
            self._settle(timeline, changes)
        return changes

    def rest(self, seconds: float) -> list[Change]:
        """Let so much time pass on every machine that no line was heard of since the last rest."""
        changes: list[Change] = []
        for timeline in list(self._timelines.values()):
            timeline.rest(seconds)
            self._settle(timeline, changes)
        return changes

    def finish(self) -> list[Change]:
        """Settle what waits and close every fault: the log has ended."""
        changes: list[Change] = []
        for timeline in self._timelines.values():
            for live in timeline.held():
                self._rejudge(live, changes, ended=True)
        for live in list(self._index.faults.values()):
            if not live.retired:
                self._retire(live, changes)
        return changes

    def faults(self) -> list[Fault]:
        """Return the faults that are still going on, oldest first."""
        if self._going_on is None:
            self._going_on = [self._snapshot(live) for live in self._index.faults.values() if not live.retired]
        return list(self._going_on)

    def pack(self) -> dict[str, Any]:
        """Return all that is remembered as JSON values; `unpack` goes on from there as if nothing had happened."""
        return {
            "format": FORMAT,
            "machine": self._last_machine,
            "faults": [pack_fault(live) for live in self._index.faults.values()],
            "going": [live.id for timeline in self._timelines.values() for live in timeline.faults()],
            "open": [live.id for live in self._open.values()],
            "waiting": [live.id for timeline in self._timelines.values() for live in timeline.held()],
            "timelines": [
                [machine, timeline.now.wall, timeline.now.uptime, timeline.boot]
                for machine, timeline in self._timelines.items()
            ],
            "recent": self._replays.pack(),
            "uuids": [[machine, pci, uuid] for (machine, pci), uuid in self._uuids.items()],
            "machines": list(self._machines),
        }

    def unpack(self, packed: Mapping[str, Any]) -> None:
        """Take over what `pack` returned. For a new merger only.

        Raises SavedError when it is of another version or shape.
        """
        if packed.get("format") != FORMAT:
            raise SavedError(f"saved by another version (format {packed.get('format')!r}, expected {FORMAT})")
        self._going_on = None
        try:
            self._last_machine = packed["machine"]
            self._uuids = {(machine, pci): uuid for machine, pci, uuid in packed["uuids"]}
            self._machines = {node: number for number, node in enumerate(packed["machines"])}
            for row in packed["faults"]:
                self._index.add(unpack_fault(row))
            for machine, wall, uptime, boot in packed["timelines"]:
                self._timelines[machine] = Timeline(now=Moment(wall, uptime), boot=boot)
            for fault_id in packed["going"]:
                live = self._index.faults[fault_id]
                self._timelines[live.machine].go_on(live)
            for fault_id in packed["waiting"]:
                live = self._index.faults[fault_id]
                self._timelines[live.machine].wait(live, self._in_force.wait_seconds(live.kind, live.code))
            self._open = {live.key: live for live in map(self._index.faults.__getitem__, packed["open"])}
            self._replays.unpack(packed["recent"])
        except (KeyError, TypeError, ValueError) as error:
            raise SavedError(f"what was saved cannot be read: {error!r}") from error

    def _machine(self, node: str | None) -> int:
        """Return the number of a machine: lines that name none are of the first one that is named."""
        if node is None:
            return 0
        number = self._machines.get(node)
        if number is None:
            number = len(self._machines)
            if number < MACHINES_KEPT:
                self._machines[node] = number
        return number

    # --- one record -------------------------------------------------------------------------------------------------

    def _is_over(self, live: LiveFault, record: Record) -> bool:
        return live.retired or elapsed_seconds(live.last, record.moment, same_boot=True) > live.gap_seconds

    def _learn(self, record: Record, machine: int) -> None:
        """Take what a line of the kernel tells that is no fault by itself."""
        if record.kind is RecordKind.DRIVER_LOADED:
            self._end_identities(record, machine)
        elif record.kind is RecordKind.GPU_UUID and record.pci and record.details.get("uuid"):
            self.learn_uuid(record.pci, record.details["uuid"], node=record.node)

    def _end_identities(self, record: Record, machine: int) -> None:
        """Let a loaded driver begin anew: the same line after it is another fault. What goes on is still judged."""
        for live in list(self._timelines[machine].faults()) if machine in self._timelines else ():
            same_boot = live.boot == record.boot
            if self._open.get(live.key) is live and elapsed_seconds(live.last, record.moment, same_boot=same_boot) >= 0:
                del self._open[live.key]

    def _begin(self, key: Key, record: Record, grade: Grade, *, changes: list[Change]) -> None:
        self._going_on = None
        identity = self._in_force.identity(record.code if record.kind is RecordKind.XID else None)
        timeline = self._timelines.setdefault(key[0], Timeline())
        timeline.hear(record.moment, record.boot)
        live = LiveFault(
            key=key,
            machine=key[0],
            id=f"{record.node or 'node'}.{record.boot}.{_short(record.cursor)}",
            node=record.node,
            boot=record.boot,
            pci=record.pci,
            code=record.code,
            base=grade,
            first=record.moment,
            last=record.moment,
            since=record.moment,
            heard_at=_heard_at(record, timeline),
            waits_from=_heard_at(record, timeline),
            gap_seconds=identity.gap_seconds,
            linger_seconds=max(identity.gap_seconds, self._in_force.latest_change_seconds(grade.kind, record.code)),
            facility=record.facility,
            user_record=key[-1],
            certain=record.certain or record.pci is None,
            mig=record.mig,
            pid=record.pid,
            process=record.process,
            details={**record.details, **grade.details},
        )
        live.keep(record)
        live.note_facets(record)
        live.count = 1
        while live.id in self._index.faults:
            live.id += "+"
        self._index.add(live)
        self._open[key] = live
        timeline.go_on(live)
        self._rejudge(live, changes, kind=ChangeKind.BEGAN)
        self._touch_others(live, changes)
        while len(self._index.faults) > FAULTS_KEPT:
            oldest = next(iter(self._index.faults.values()))
            if not oldest.retired:
                self._retire(oldest, changes)
            self._index.drop(oldest)

    def _absorb(self, live: LiveFault, record: Record, grade: Grade, changes: list[Change]) -> None:
        self._going_on = None
        part_only = record.part in {"severity", "data"}
        live.count += not part_only
        live.last = _later(live.last, record.moment)
        timeline = self._timelines[live.machine]
        timeline.go_on(live)
        live.heard_at = _heard_at(record, timeline)
        live.keep(record)
        live.node = live.node or record.node
        if live.pid is None:
            live.pid, live.process = record.pid, record.process
        changed = live.note_facets(record) | self._merge_details(live, record, grade)
        if record.certain and not live.certain:
            live.certain = changed = True
        if grade is not live.base and not part_only:
            changed = self._weigh(live, record, grade) or changed
        if changed or self._explanation_is_stale(live, record.moment):
            if not changed:
                live.since = record.moment
                live.waits_from = live.heard_at
                timeline.stop_waiting(live)
            self._rejudge(live, changes)
            self._touch_others(live, changes)

    def _merge_details(self, live: LiveFault, record: Record, grade: Grade) -> bool:
        """Let details that rules look at follow the newest line, keep the others; return whether a rule may care."""
        changed = False
        for name in self._in_force.tracked_details(live.kind, live.code):
            value = grade.details.get(name, record.details.get(name))
            if value != live.details.get(name):
                changed = True
                if value is None:
                    live.details.pop(name, None)
                else:
                    live.details[name] = value
        if not record.details.keys() <= live.details.keys():
            for name, value in record.details.items():
                live.details.setdefault(name, value)
        return changed

    def _weigh(self, live: LiveFault, record: Record, grade: Grade) -> bool:
        """Take the strongest grade of the fault's lines; a line that clears the fault sets its own."""
        cleared_by = self._in_force.identity(live.code).cleared_by
        clears = cleared_by is not None and fits_record(cleared_by, record)
        if not clears and grade.level <= live.base.level:
            return False
        if live.base.kind != grade.kind:
            self._index.drop(live)
            live.base = grade
            self._index.add(live)
        live.base = grade
        live.cleared = clears
        live.details.update(record.details)
        live.details.update(grade.details)
        return True

    def _explanation_is_stale(self, live: LiveFault, moment: Moment) -> bool:
        return (
            live.explainer_last is not None
            and elapsed_seconds(live.explainer_last, moment, same_boot=True) > live.covers_seconds
        )

    # --- verdicts ---------------------------------------------------------------------------------------------------

    def _rejudge(
        self, live: LiveFault, changes: list[Change], *, kind: ChangeKind | None = None, ended: bool = False
    ) -> None:
        self._going_on = None
        was = live.verdict
        timeline = self._timelines[live.machine]
        live.verdict = judge(
            live,
            self._in_force.about(live.kind, live.code),
            self._index,
            now=None if ended else timeline.now_for(live),
        )
        if not live.verdict.waits:
            timeline.stop_waiting(live)
        elif not was.waits:
            timeline.wait(live, self._in_force.wait_seconds(live.kind, live.code))
        kind = kind or _kind_of_change(was, live.verdict)
        if kind is not None:
            changes.append(
                Change(kind=kind, fault=self._snapshot(live), was=None if kind is ChangeKind.BEGAN else was.level)
            )

    def _touch_others(self, live: LiveFault, changes: list[Change]) -> None:
        """Judge again the faults that wait for one like this, or that one like this may still change."""
        for rule in self._in_force.touched_by(live.kind, live.code):
            for other in list(self._index.near(rule.subject, rule, live)):
                if (
                    other is not live
                    and not other.retired
                    and rule.id not in other.sated
                    and self._in_reach(rule, other, live)
                ):
                    self._rejudge(other, changes)

    def _in_reach(self, rule: Rule, other: LiveFault, live: LiveFault) -> bool:
        return elapsed_seconds(other.since, live.first, same_boot=same_clock(other, live)) <= rule.after_seconds

    def _settle(self, timeline: Timeline, changes: list[Change]) -> None:
        for live in timeline.due():
            # One that is settled may settle another.
            if live.verdict.waits:
                timeline.stop_waiting(live)
                self._rejudge(live, changes)
        for live in timeline.over():
            self._retire(live, changes)

    def _retire(self, live: LiveFault, changes: list[Change]) -> None:
        if live.verdict.waits:
            self._rejudge(live, changes, ended=True)
        self._going_on = None
        live.retired = True
        timeline = self._timelines[live.machine]
        timeline.let_go(live)
        if not timeline.going:
            del self._timelines[live.machine]
        if self._open.get(live.key) is live:
            del self._open[live.key]
        changes.append(Change(kind=ChangeKind.CLOSED, fault=self._snapshot(live), was=live.verdict.level))
        live.head.clear()
        live.tail.clear()

    def _snapshot(self, live: LiveFault) -> Fault:
        uuid = None if live.pci is None else self._uuids.get((live.machine, live.pci))
        return live.snapshot(uuid)


def _identity_key(record: Record, grade: Grade) -> Key:
    """Return what makes two lines the same fault while they are close in time (R-identity)."""
    family = "xid" if grade.kind == "xid_unknown" else "sxid" if grade.kind.startswith("sxid") else grade.kind
    minor = record.details.get("minor") if record.pci is None else None
    return (record.boot, record.pci, minor, family, record.code)


def _heard_at(record: Record, timeline: Timeline) -> Moment:
    """Return when a line came: one that comes late is waited for as long as any other."""
    return NEVER if record.moment == NEVER else timeline.now


def _short(cursor: str) -> str:
    """Return the cursor as a name carries it: a journal's is long, so a hash of it stands in."""
    if not cursor.startswith("j"):
        return cursor
    from hashlib import blake2b  # noqa: PLC0415  it loads a large library, and only a journal needs it

    return "j" + blake2b(cursor.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _kind_of_change(was: Verdict, now: Verdict) -> ChangeKind | None:
    if now.level > was.level:
        return ChangeKind.WORSENED
    if now.explained_by is not None and now.explained_by != was.explained_by:
        return ChangeKind.EXPLAINED
    same = (was.level, was.fault_class, was.action, was.waits) == (now.level, now.fault_class, now.action, now.waits)
    return None if same else ChangeKind.CHANGED


def _later(one: Moment, other: Moment) -> Moment:
    return other if elapsed_seconds(one, other, same_boot=True) >= 0 else one
