"""The settings document, checked whole: every mistake is named with its place. Where it lies is not here."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rules import PROFILES, RuleBook
from gpuward.isolation.findings import KINDS
from gpuward.isolation.grade import SEEN_KINDS, Grade, Policy, grade, grade_part
from gpuward.isolation.terms import Terms
from gpuward.model.case import Mode
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.record import Record, RecordKind
from gpuward.settings.columns import OF_AGENT, OF_IDENTITIES, OF_RULES, words_of
from gpuward.settings.pools import OF_CLUSTER, ClusterSettings, cluster_of
from gpuward.settings.reading import Reading
from gpuward.settings.reboot import OF_REBOOT, RebootTerms, reboot_of

TABLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("profile", "options", "levels", "classes"), ()),
    "rules": (*OF_RULES, *OF_IDENTITIES),
    "agent": tuple(OF_AGENT),
    **OF_CLUSTER,
    "reboot": tuple(OF_REBOOT),
}
"""What a document may have at its top, and the fields of each table that has fixed ones."""


class SettingsError(ValueError):
    """The document is wrong; the text has one line for each mistake."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How far and how fast the agent of a server goes; the command line goes before it."""

    mode: Mode = Mode.OBSERVE
    poll_seconds: float = 30.0
    read_seconds: float = 20.0
    probation_seconds: float = 1800.0
    check_command: tuple[str, ...] = ()
    """The user's own proof of a repaired GPU, in words; empty: there is none."""
    check_seconds: float = 600.0
    dcgm_url: str | None = None
    """Where a dcgm-exporter answers; it fills in what the driver's own tools do not tell."""
    reset_unqualified: bool = False
    """GPUs of a model and driver that were never qualified are reset all the same."""
    work_on_displays: bool = False
    """GPUs that drive a display are worked on like the others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the people who run the fleet chose. The defaults are the mission's."""

    profile: str = "default"
    """Whose grades: `default` (the mission), `nvidia` (the catalogue), `intent` (default; 92 at P1, 45 at P2)."""
    options: frozenset[str] = frozenset()
    """`lower_48`: an Xid 48 that was contained and remapped is P1, not P0. Off, since a P0 acts on its first line."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Level by `xid:CODE`, `sxid:CODE` or fault kind; goes before the profile."""
    classes: Mapping[str, FaultClass] = field(default_factory=dict)
    """Class by the same names."""
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Windows and counts by rule id, and `enabled = false` to turn a rule off."""
    agent: AgentSettings = field(default_factory=AgentSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    """How far the controller of a cluster goes, in each pool."""
    reboot: RebootTerms = field(default_factory=RebootTerms)
    """Whether it may have nodes rebooted, and how."""

    @property
    def brake(self) -> Brake:
        """How many GPUs of a server may be taken out within a while."""
        return self.cluster.default.brake

    @property
    def budget(self) -> Budget:
        """How many GPUs may be out of service at once."""
        return self.cluster.default.budget


def read_settings(text: str, *, name: str, book: Book, rules: RuleBook) -> Settings:
    """Return the settings that `text` (TOML) spells.

    Raises SettingsError with a line for every mistake: place, what is wrong, what is allowed.
    """
    try:
        table = tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # not only TOMLDecodeError: a number or a nesting may be beyond Python
        raise SettingsError(f"{name}: not TOML: {error}") from error
    reading = Reading(name=name, text=text, kinds=(SEEN_KINDS | frozenset(KINDS)) & frozenset(book.others))
    for word in table.keys() - TABLES.keys():
        reading.wrong((word,), f"no such setting; allowed are {', '.join(sorted(TABLES))}")
    settings = Settings(
        profile=reading.one_of(table.get("profile", "default"), PROFILES, ("profile",)),
        options=reading.options(table.get("options", [])),
        levels=reading.by_fault(table.get("levels", {}), "levels", LEVELS),
        classes=reading.by_fault(table.get("classes", {}), "classes", {str(word): word for word in FaultClass}),
        rules=reading.rules(table.get("rules", {}), rules),
        agent=_agent_of(reading.columns(table, ("agent",), OF_AGENT)),
        cluster=cluster_of(reading, table),
        reboot=reboot_of(reading, table),
    )
    mistakes = reading.mistakes()
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    return settings


def terms_of(settings: Settings, book: Book, rules: RuleBook, *, options: Iterable[str] = ()) -> Terms:
    """Return what verdicts depend on, under the settings and further options."""
    policy = Policy(profile=settings.profile, levels=settings.levels, classes=settings.classes)
    return Terms(
        rules=rules.tuned(settings.rules) if settings.rules else rules,
        grade=grading(book, policy),
        profile=settings.profile,
        options=settings.options | frozenset(options),
    )


def grading(book: Book, policy: Policy) -> Callable[[Record], Grade | None]:
    """Return the function that grades records; an SXid's second or third line that came alone is graded by its row."""

    def of_record(record: Record) -> Grade | None:
        found = grade(book, record, policy)
        if found is None and record.kind is RecordKind.SXID:
            return grade_part(book, record, policy)
        return found

    return of_record


def _agent_of(chosen: Mapping[str, Any]) -> AgentSettings:
    said = dict(chosen)
    if "mode" in said:
        said["mode"] = Mode(said["mode"])
    if "check_command" in said:
        said["check_command"] = words_of(said["check_command"])
    return AgentSettings(**said)
