"""What one reading of a GPU can show, as rows with their level and source. What goes on standing is not kept here.

A row answers yes, no, or None: unknown. What is unknown begins nothing and ends nothing. How a row's level ranks with
the settings and the profile stands in `grading_of`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuward.isolation.catalogue.advice import Advice, advise
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rows import Scope
from gpuward.isolation.grade import Policy
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.node import GpuReading

MISSING_READINGS = 2
"""A GPU is missing once two readings agree (policy_other.csv, gpu_missing)."""
_BOOK = "gpuward code book, policy_other.csv"


@dataclass(frozen=True, slots=True)
class Look:
    """One GPU by one reading. `before` is the last reading of it by the same road; None: there was none."""

    before: GpuReading | None
    now: GpuReading | None
    """None: the reading shows other GPUs and not this one."""
    absent: int = 0
    """How many readings in a row have not shown it."""
    links_learned: int = 0
    speeds: Mapping[int, float] = field(default_factory=dict)
    """The best speed of each link that was ever read, in GB/s."""
    drained: bool = False
    """It is not shown because somebody drained it: then its absence is no sign of a loss."""
    fabric_at_rest: bool = True
    """No other GPU of the server is lost, missing or in a case: those take the links of their peers down with them."""


Holds = Callable[[Look], bool | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One row. `because` may name {action}, {grown}, {links}. Of a kind's rows, the first that holds counts.

    `action` is an imperative about "it", the GPU; `action_at` puts before it what the level asks for.
    """

    kind: str
    name: str
    holds: Holds
    level: Level
    title: str
    because: str
    action: str
    source: str
    fault_class: FaultClass = FaultClass.HARDWARE
    parks: bool = False
    anew: bool = False
    """Each reading in which it holds is a new event; else it is one for as long as it goes on holding."""
    most: Level = Level.P0
    """No setting and no profile lifts it above this."""

    def action_at(self, level: Level) -> str:
        """Return what to do when it is graded so."""
        inner = self.action[0].lower() + self.action[1:]
        return advise(Advice(now=f"When it suits, {inner}", once_free=self.action), level, Scope.GPU)


@dataclass(frozen=True, slots=True)
class Graded:
    """The level and class of a finding. `says` tells, within a sentence, who chose them when its row did not."""

    level: Level
    fault_class: FaultClass
    says: str = ""


Grading = Callable[[Finding], Graded]


def by_row(row: Finding) -> Graded:
    """Grade a finding by what its row says: the default profile, nothing set."""
    return Graded(row.level, row.fault_class)


def grading_of(book: Book, policy: Policy) -> Grading:
    """Return the function that grades findings. It ranks as `grade` does for a line; the first that speaks counts.

    1. The settings' level for the kind, for all rows of the kind alike.
    2. The profile's level for the kind, where policy_other.csv fixes one.
    3. The row's own level, where the profile leaves it open (`by_payload`): what the driver asks for is finer than the
       kind `recovery_action`.

    A row that has a `most` is never lifted above it, by nobody: a word that is not in the book takes no GPU out of
    service. The class is the one that is set, else the row's; profiles have none.
    """

    def grade(row: Finding) -> Graded:
        level, by = _chosen(book, policy, row)
        if level > row.most:
            level, by = row.most, f"never above {row.most}"
        fault_class = policy.classes.get(row.kind, row.fault_class)
        says = "" if level is row.level else f"; graded {level}, {by}"
        if fault_class is not row.fault_class:
            says += f"; the settings set its class to {fault_class}"
        return Graded(level, fault_class, says)

    return grade


def _chosen(book: Book, policy: Policy, row: Finding) -> tuple[Level, str]:
    if row.kind in policy.levels:
        return policy.levels[row.kind], "as set in the settings"
    other = book.other(row.kind)
    word = None if other is None else other.levels.get(policy.profile)
    return (row.level if word is None else LEVELS.get(word, row.level)), f"as profile {policy.profile} has it"


def _grew(look: Look) -> bool | None:
    """Compare with the last count: a counter that fell was reset, and what it had counted is over."""
    count = None if look.now is None else look.now.ecc.volatile
    if count is None:
        return None
    if count == 0:
        return False
    last = None if look.before is None else look.before.ecc.volatile
    if last is None or count == last:
        return None
    return count > last


def _remap_failed(look: Look) -> bool | None:
    return None if look.now is None else look.now.remap.failed


def _remap_pending(look: Look) -> bool | None:
    return None if look.now is None else look.now.remap.pending


def _asks_for(*actions: str) -> Holds:
    def holds(look: Look) -> bool | None:
        asked = None if look.now is None else look.now.recovery_action
        return None if asked is None else asked in actions

    return holds


def _asks_unknown(look: Look) -> bool | None:
    asked = None if look.now is None else look.now.recovery_action
    return None if asked is None else asked not in _ACTIONS


def _told_lost(look: Look) -> bool | None:
    """Say yes when two readings agree, as for one that is not shown: the kernel's own line of a loss comes first."""
    if look.now is None:
        # Somebody may drain a GPU that was told lost, and nothing has taken that back.
        return False if look.drained and not (look.before is not None and look.before.lost) else None
    if not look.now.lost:
        return False
    return True if look.before is not None and look.before.lost else None


def _not_shown(look: Look) -> bool | None:
    if look.now is not None or look.drained:
        return False
    return True if look.absent >= MISSING_READINGS else None


def _links_down(look: Look) -> bool | None:
    """Say yes when two readings agree: a link that is trained again is down for a moment."""
    if not look.fabric_at_rest or look.now is None or not look.now.links:
        return None
    if not _is_less(look.now, look):
        return False
    return True if look.before is not None and look.before.links and _is_less(look.before, look) else None


def _is_less(reading: GpuReading, look: Look) -> bool:
    slower = any(
        link.active
        and link.speed_gb_per_second is not None
        and link.speed_gb_per_second < look.speeds.get(link.link, 0)
        for link in reading.links
    )
    return slower or sum(link.active for link in reading.links) < look.links_learned


_RESETS = ("Reset", "GPU Reset", "GPU Reset Required", "Bus Reset")
_REBOOTS = ("Reboot", "Node Reboot", "Node Reboot Required", "System Reboot")
_DRAINS = ("Drain and Reset",)
_PEERS = ("Drain P2P",)
_DOMAINS = ("Recover IMEX Domain",)
_ACTIONS = frozenset({"None", *_RESETS, *_REBOOTS, *_DRAINS, *_PEERS, *_DOMAINS})
_ASKS = "The driver asks for a recovery action: {action}."
_MANUAL = "nvidia-smi manual: GPU Recovery Action; NVML field 230; levels as Xid 154 (recovery.csv)"


def _recovery(name: str, actions: tuple[str, ...], *, level: Level, action: str) -> Finding:
    return Finding(
        kind="recovery_action",
        name=name,
        holds=_asks_for(*actions),
        level=level,
        title=f"the driver asks for a recovery: {name.removeprefix('recovery-').replace('-', ' ')}",
        because=_ASKS,
        action=action,
        source=_MANUAL,
        fault_class=FaultClass.DRIVER,
    )


FINDINGS: tuple[Finding, ...] = (
    Finding(
        kind="ecc_uncorrectable",
        name="ecc-grew",
        holds=_grew,
        level=Level.P0,
        title="uncorrectable memory errors",
        because="The count of uncorrectable memory errors since the last reset went up: {grown}.",
        action="Reset it. If it returns, run diagnostics.",
        source=f"{_BOOK}: ecc_uncorrectable, a volatile uncorrectable counter went up",
        anew=True,
    ),
    Finding(
        kind="row_remap_failure",
        name="remap-failed",
        holds=_remap_failed,
        level=Level.P0,
        title="a memory row could not be remapped",
        because="The driver says that remapping a memory row failed: the GPU has no spare row where it needs one.",
        action="Run field diagnostics: it is a candidate for replacement.",
        source=f"{_BOOK}: row_remap_failure, as Xid 64; NVIDIA GPU memory error management",
        parks=True,
    ),
    Finding(
        kind="row_remap_pending",
        name="remap-pending",
        holds=_remap_pending,
        level=Level.P1,
        title="a row remap is pending",
        because="The driver says that a memory row is to be remapped, which a reset does.",
        action="Reset it.",
        source=f"{_BOOK}: row_remap_pending, as Xid 63; NVIDIA GPU memory error management",
    ),
    _recovery("recovery-reboot", _REBOOTS, level=Level.P0, action="Reboot the node."),
    _recovery("recovery-reset", _RESETS, level=Level.P0, action="End every process on it and reset it."),
    _recovery("recovery-drain-and-reset", _DRAINS, level=Level.P1, action="Reset it."),
    _recovery(
        "recovery-drain-P2P",
        _PEERS,
        level=Level.P1,
        action="Read the recovery action again, and reset the GPU if it is unchanged.",
    ),
    _recovery("recovery-IMEX-domain", _DOMAINS, level=Level.P1, action="Recover the IMEX domain."),
    Finding(
        kind="recovery_action",
        name="recovery-unknown",
        holds=_asks_unknown,
        level=Level.P2,
        title="the driver asks for a recovery that is not in the book",
        because=_ASKS,
        action="Look up what this driver means by it.",
        source="gpuward judgement: an unknown word never takes a GPU out of service",
        fault_class=FaultClass.DRIVER,
        most=Level.P2,
    ),
    Finding(
        kind="gpu_missing",
        name="told-lost",
        holds=_told_lost,
        level=Level.P0,
        title="the GPU is lost",
        because="Two readings in a row say that the GPU is lost.",
        action="Reboot the node, and power cycle it if the GPU does not come back.",
        source="nvidia-smi manual: exit code 15; nvml.h: NVML_ERROR_GPU_IS_LOST; R79",
    ),
    Finding(
        kind="gpu_missing",
        name="not-shown",
        holds=_not_shown,
        level=Level.P0,
        title="the GPU is missing",
        because="Two readings in a row show the other GPUs and not this one, and gpuward is not draining it.",
        action="Reboot the node, and power cycle it if the GPU does not come back.",
        source=f"{_BOOK}: gpu_missing, once two readings agree",
    ),
    Finding(
        kind="nvlink_down",
        name="links-down",
        holds=_links_down,
        level=Level.P1,
        title="NVLinks are down or slower",
        because="Two readings in a row show fewer or slower NVLinks than were learned: {links}.",
        action="Reset it.",
        source=f"{_BOOK}: nvlink_down, a link of the learned set is inactive or slower than learned",
    ),
)
"""What a reading can show, each with the source of its level; kinds and levels are those of the default profile."""
KINDS = tuple(dict.fromkeys(row.kind for row in FINDINGS))
"""The fault kinds that a reading can show, which the settings may name."""
