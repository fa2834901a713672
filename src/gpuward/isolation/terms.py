"""The rows in force for a kind and code, looked up once. What they do is in judge, when they are asked in merge."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpuward.isolation.catalogue.rules import Identity, Rule, RuleBook
from gpuward.isolation.grade import Grade
from gpuward.model.record import Record

_KEPT = 4096
"""Answers remembered; codes come from log lines, so there is no other bound."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What verdicts depend on: rule book, profile, and the options that the settings turn on."""

    rules: RuleBook
    grade: Callable[[Record], Grade | None]
    profile: str = "default"
    options: frozenset[str] = frozenset()


@dataclass(slots=True)
class InForce:
    """Answers which rows speak about a fault, under the terms."""

    terms: Terms
    _about: dict[tuple[str, int | None], tuple[Rule, ...]] = field(default_factory=dict)
    _touched_by: dict[tuple[str, int | None], tuple[Rule, ...]] = field(default_factory=dict)
    _identity: dict[int | None, Identity] = field(default_factory=dict)
    _tracked: dict[tuple[str, int | None], tuple[str, ...]] = field(default_factory=dict)

    def about(self, kind: str, code: int | None) -> tuple[Rule, ...]:
        """Return the rules that may change the verdict on such a fault, in the order of the table."""
        rules = self._about.get((kind, code))
        if rules is None:
            rules = tuple(rule for rule in self.terms.rules.about(kind, code) if self._speaks(rule))
            _remember(self._about, (kind, code), rules)
        return rules

    def touched_by(self, kind: str, code: int | None) -> tuple[Rule, ...]:
        """Return the rules for which such a fault is a companion that may come after the subject."""
        rules = self._touched_by.get((kind, code))
        if rules is None:
            rules = tuple(
                rule
                for rule in self.terms.rules.rules
                if rule.after_seconds
                and rule.companion is not None
                and rule.companion.could_be(kind, code)
                and self._speaks(rule)
            )
            _remember(self._touched_by, (kind, code), rules)
        return rules

    def identity(self, code: int | None) -> Identity:
        """Return how far apart the lines of one fault of this Xid code may lie; None for what is no Xid."""
        identity = self._identity.get(code)
        if identity is None:
            rows = self.terms.rules.identities
            identity = next(row for row in rows if not row.codes or code in row.codes)
            _remember(self._identity, code, identity)
        return identity

    def latest_change_seconds(self, kind: str, code: int | None) -> float:
        """Return how long after its first line a later fault may still change the verdict on such a fault."""
        return max((rule.after_seconds for rule in self.about(kind, code)), default=0.0)

    def wait_seconds(self, kind: str, code: int | None) -> float:
        """Return how long such a fault may be held for a cause."""
        return max((rule.after_seconds for rule in self.about(kind, code) if rule.waits), default=0.0)

    def tracked_details(self, kind: str, code: int | None) -> tuple[str, ...]:
        """Return the details of such a fault that some rule looks at: a change of one calls for a new verdict."""
        names = self._tracked.get((kind, code))
        if names is None:
            rules = self.terms.rules.rules
            asked = [rule.subject for rule in rules] + [rule.companion for rule in rules if rule.companion is not None]
            paths = {
                path
                for selector in asked
                if selector.could_be(kind, code)
                for path in (*selector.details, *selector.lacks)
            }
            names = tuple(sorted({path.split(".")[0] for path in paths}))
            _remember(self._tracked, (kind, code), names)
        return names

    def _speaks(self, rule: Rule) -> bool:
        terms = self.terms
        return (
            (not rule.profiles or terms.profile in rule.profiles)
            and (rule.option is None or rule.option in terms.options)
            and (rule.unless_option is None or rule.unless_option not in terms.options)
        )


_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


def _remember(answers: dict[_Asked, _Answer], asked: _Asked, answer: _Answer) -> None:
    if len(answers) >= _KEPT:
        answers.clear()
    answers[asked] = answer
