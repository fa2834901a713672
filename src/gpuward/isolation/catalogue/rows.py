"""The typed rows of the code book and their closed vocabularies. How they are read from files is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from gpuward.model.level import FaultClass, Level


class Profile(StrEnum):
    """A named choice of levels; `default` keeps the mission's lists, `intent` is default with 92 and 45 corrected."""

    DEFAULT = "default"
    NVIDIA = "nvidia"
    INTENT = "intent"


class LevelWord(StrEnum):
    """What a policy row may say: a level, or what else decides it."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    IGNORE = "ignore"
    BY_DECODE = "by_decode"
    BY_PAYLOAD = "by_payload"
    BY_ROW = "by_row"
    MAX_P2 = "max P2"


class Category(StrEnum):
    """What part of the machine an Xid speaks of."""

    VIDEO = "video"
    APPLICATION = "application"
    MEMORY = "memory"
    FIRMWARE = "firmware"
    NVLINK = "nvlink"
    DRIVER = "driver"
    POWER = "power"
    PCIE = "pcie"
    THERMAL = "thermal"
    SECURITY = "security"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How grave an Xid is by itself, before any policy."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
    FATAL = "fatal"


class Immediate(StrEnum):
    """The catalogue's immediate-action buckets (NVIDIA Xid-Catalog.xlsx, 2025-09-30)."""

    CONTACT_SUPPORT = "CONTACT_SUPPORT"
    RESTART_APP = "RESTART_APP"
    IGNORE = "IGNORE"
    NOT_LISTED = "not_listed"
    RESET_GPU = "RESET_GPU"
    WORKFLOW_NVLINK5_ERR = "WORKFLOW_NVLINK5_ERR"
    WORKFLOW_XID_45 = "WORKFLOW_XID_45"
    WORKFLOW_XID_48 = "WORKFLOW_XID_48"
    CHECK_MECHANICALS = "CHECK_MECHANICALS"
    WORKFLOW_NVLINK_ERR = "WORKFLOW_NVLINK_ERR"
    UPDATE_SWFW = "UPDATE_SWFW"
    RESTART_BM = "RESTART_BM"
    RESTART_VM = "RESTART_VM"
    XID_154 = "XID_154"
    CHECK_UVM = "CHECK_UVM"


class Investigation(StrEnum):
    """The catalogue's investigatory buckets, of the Xid sheet and of the NVLink 5 sheet."""

    NOT_LISTED = "not_listed"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"
    INVESTIGATE_SW = "INVESTIGATE_SW"
    WORKFLOW_NVLINK5_ERR = "WORKFLOW_NVLINK5_ERR"
    CHECK_APP_CUDA = "CHECK_APP/CUDA"
    IGNORE = "IGNORE"
    IGNORE_SYMPATHETIC = "IGNORE (sympathetic)"
    XID_137_FLOW = "XID_137_FLOW"
    WORKFLOW_XID_13 = "WORKFLOW_XID_13"
    WORKFLOW_XID_31 = "WORKFLOW_XID_31"
    SOLO_RESTART_FM = "Solo: RESTART_FM Not Solo: IGNORE (follow other Xid)"
    WORKFLOW_XID_48 = "WORKFLOW_XID_48"
    UPDATE_SWFW = "UPDATE_SWFW"
    INVESTIGATE_LINK_SI = "INVESTIGATE_LINK_SI"
    ABOUT_ANOTHER_XID = "N/A Informational only regarding another Xid"
    INVESTIGATE_SW_USER = "INVESTIGATE_SW_USER"
    SYMPATHETIC_REPORT_SOLO = "SYMPATHETIC_REPORT_SOLO"
    CHECK_NVLINK_FAILURE_FLOW = "CHECK_NVLINK_FAILURE_FLOW"
    REPORT_ISSUE_DAILY = "REPORT_ISSUE (if seen >1 per day)"
    INVESTIGATE_SW_USER_LINK_SI = "INVESTIGATE_SW_USER_LINK_SI"
    INVESTIGATE_SW_OR_USER = "INVESTIGATE_SW/USER"
    INVESTIGATE_PEER_DEVICE = "INVESTIGATE_PEER_DEVICE"
    INVESTIGATE_HOST = "INVESTIGATE_HOST"
    INVESTIGATE_LINK_SI_AND_CABLES = "INVESTIGATE_LINK_SI_AND_CABLES"


class Recovery(StrEnum):
    """What the NVLink 5 sheet asks for."""

    IGNORE = "IGNORE"
    RESET_GPU = "RESET_GPU"
    XID_154_EVAL = "XID_154_EVAL"
    NOT_LISTED = "not_listed"


class Need(StrEnum):
    """What a GPU with this fault needs in the end, where the catalogue publishes no bucket."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    CONTACT_SUPPORT = "contact_support"
    REBOOT_NODE = "reboot_node"
    CHECK_MECHANICALS = "check_mechanicals"
    UPDATE_DRIVER = "update_driver"
    REPLACE = "replace"


class OwnAction(StrEnum):
    """Actions of our own, for faults that are no row of NVIDIA's catalogue."""

    RELOAD_DRIVER = "RELOAD_DRIVER"
    LOOK_UP_CODE = "LOOK_UP_CODE"
    READ_LINE = "READ_LINE"
    READ_RECOVERY = "READ_RECOVERY"


ACTION_WORDS = frozenset(
    str(word) for words in (Immediate, Investigation, Recovery, Need, OwnAction) for word in words.__members__.values()
)
"""Every word that needs a sentence in actions.csv."""


class LinkSeverity(StrEnum):
    """The severity column of the NVLink 5 sheet."""

    NON_FATAL = "Non-fatal"
    FATAL = "Fatal"
    LINK_FATAL = "Link Fatal"
    NOT_PUBLISHED = "not published"


class SwitchScope(StrEnum):
    """How far an SXid reaches."""

    PORT = "port"
    SWITCH = "switch"
    FABRIC = "fabric"


class Scope(StrEnum):
    """What a fault takes out: one GPU or the whole node."""

    GPU = "gpu"
    NODE = "node"


class BitMeaning(StrEnum):
    """What a set bit of an Xid 74 register says (rules.md R74)."""

    IGNORABLE = "ignorable"
    SECONDARY = "secondary"
    ECC_PARITY = "ecc_parity"
    POSSIBLE_HARDWARE = "possible_hardware"
    MARGINAL_SIGNAL = "marginal_signal"
    REPORT_IF_REPEATED = "report_if_repeated"
    DIAGNOSE_IF_REPEATED = "diagnose_if_repeated"
    UNEXPECTED = "unexpected"
    FABRIC_RESET = "fabric_reset"
    THRESHOLD_NOTICE = "threshold_notice"


class Register(IntEnum):
    """The registers of an Xid 74 that carry known bits; the line prints seven, numbered from 1."""

    ONE = 1
    THREE = 3
    FOUR = 4
    FIVE = 5


@dataclass(frozen=True, slots=True)
class XidRow:
    """One Xid as the catalogue, the driver source and the field know it."""

    code: int
    mnemonic: str
    title: str
    category: Category
    severity: Severity
    immediate_action: Immediate
    investigatory_action: Investigation
    needs: Need
    possible_causes: str
    applies_to: str
    obsolete: bool
    notes: str
    source: str


@dataclass(frozen=True, slots=True)
class SxidRow:
    """One NVSwitch error; `fatal` counts only where the line prints no severity word."""

    code: int
    title: str
    fatal: bool
    action: str
    scope: SwitchScope
    notes: str
    source: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Bits to look at and what they must be."""

    mask: int
    value: int

    def fits(self, word: int) -> bool:
        """Return whether `word` shows this pattern."""
        return word & self.mask == self.value


@dataclass(frozen=True, slots=True)
class NvlinkRow:
    """One outcome of the NVLink 5 decode; `number` is its place among the rows of the file, from 1.

    V1 is the layout of drivers below R575, V2 from R575 on. A row without patterns speaks for its whole code.
    `error_status` is empty where any status fits. `promoted_v1` and `promoted_v2` are the patterns under which
    the error is fatal after all and `promoted_recovery` counts.
    """

    number: int
    xid: int
    unit_v1: str
    unit_v2: str
    v1: Pattern | None
    v2: Pattern | None
    error_status: tuple[int, ...]
    severity: LinkSeverity
    recovery: Recovery
    promoted_recovery: Recovery | None
    promoted_v1: Pattern | None
    promoted_v2: Pattern | None
    investigate: Investigation
    origin: str
    local_effect: str
    remote_effect: str
    notes: str
    source: str


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The level of one Xid in each profile, and whose fault it is."""

    code: int
    levels: Mapping[str, LevelWord]
    fault_class: FaultClass
    nvidia_note: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class OtherRow:
    """The level of a fault kind that is no single Xid."""

    kind: str
    scope: Scope
    levels: Mapping[str, LevelWord]
    fault_class: FaultClass
    taint_value: str
    acts: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class RegisterRow:
    """One bit of one register of an Xid 74. Benign: ignorable, or news only."""

    register: Register
    bit: int
    meaning: BitMeaning
    benign: bool
    sentence: str
    source: str


@dataclass(frozen=True, slots=True)
class ActionRow:
    """What a bucket word asks of the person on call: `sentence` while work runs, `once_free` when none does any more.

    `acts` is False for words that ask for nothing.
    """

    word: str
    sentence: str
    once_free: str
    acts: bool
    source: str


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One recovery action of the driver (Xid 154, NVML field 230), by its labels; several may share a value."""

    value: int | None
    labels: tuple[str, ...]
    level: Level
    sentence: str
    source: str


@dataclass(frozen=True, slots=True)
class PhraseRow:
    """What happened, as a sentence about a GPU goes on: `fell off the bus`. `fault` is `xid:79` or a kind."""

    fault: str
    phrase: str
    source: str
