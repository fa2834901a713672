"""What a row of the rule table says, for `explain`: words, source, and the row itself. How it acts is not here."""

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from gpuward.cli.meaning import effect, sentence_of
from gpuward.isolation.catalogue.load import load_rules
from gpuward.isolation.catalogue.rules import Identity, Rule
from gpuward.isolation.judge import span
from gpuward.settings import Settings

_ROW = re.compile(r"^\[\[(?:rule|identity)\]\]\n(?:(?!\[\[|#|$).*\n?)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ruling:
    """A row of the rule table as the settings make it. `row` is the text that the table has, before any setting."""

    rule: str
    enabled: bool
    effect: str
    say: str
    action: str | None
    otherwise: str | None
    adds: str | None
    source: str
    row: str
    known = True

    def as_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}

    def as_text(self) -> list[str]:
        """Return the lines for a person."""
        told = {
            "does": f"{self.effect}." if self.enabled else "nothing: the settings turn it off",
            "says": self.say,
            "do": self.action,
            "else": self.otherwise,
            "adds": self.adds,
            "source": self.source,
        }
        lines = [f"rule {self.rule}", ""]
        lines += [f"  {name:<7} {said}" for name, said in told.items() if said]
        return [*lines, "", "  the row in rules.toml", *(f"    {line}" for line in self.row.splitlines())]


def ruling_of(name: str, settings: Settings) -> Ruling | None:
    """Return the ruling of the row that has this id, in any case of letters; None when there is none."""
    rows: tuple[Rule | Identity, ...] = (*load_rules().identities, *load_rules().rules)
    found = next((row for row in rows if row.id.casefold() == name.casefold()), None)
    if found is None:
        return None
    tuned = load_rules().tuned({name: {**chosen, "enabled": True} for name, chosen in settings.rules.items()})
    enabled = settings.rules.get(found.id, {}).get("enabled", True) is not False
    if isinstance(found, Identity):
        return _of_identity(next(row for row in tuned.identities if row.id == found.id), enabled=enabled)
    return _of_rule(next(row for row in tuned.rules if row.id == found.id), enabled=enabled)


def _of_rule(rule: Rule, *, enabled: bool) -> Ruling:
    return Ruling(
        rule=rule.id,
        enabled=enabled,
        effect=effect(rule),
        say=sentence_of(rule),
        action=_general(rule, rule.action),
        otherwise=_general(rule, rule.otherwise),
        adds=_general(rule, rule.adds),
        source=rule.source,
        row=_row(rule.id),
    )


def _general(rule: Rule, words: str | None) -> str | None:
    """Return a text of a rule in general words, as what it says is told."""
    return None if words is None else sentence_of(replace(rule, say=words))


def _of_identity(row: Identity, *, enabled: bool) -> Ruling:
    codes = ", ".join(map(str, sorted(row.codes)))
    return Ruling(
        rule=row.id,
        enabled=enabled,
        effect="merges lines into one fault",
        say=f"Lines of one boot, GPU and code are one fault while no further apart than {span(row.gap_seconds)} "
        f"({f'codes {codes}' if codes else 'every code without a row of its own'}).",
        action=None,
        otherwise=None,
        adds=None,
        source=row.source,
        row=_row(row.id),
    )


def _row(rule_id: str) -> str:
    """Return the text of a row as it stands in the table."""
    return next(row for row in _rows() if f'\nid = "{rule_id}"\n' in row)


def _rows() -> Iterator[str]:
    text = (pkgutil.get_data("gpuward.isolation.catalogue", "data/rules.toml") or b"").decode("utf-8")
    return (match[0] for match in _ROW.finditer(text))
