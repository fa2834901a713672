"""What a person needs who takes a GPU over from us, as fields: in a line, and as a text for a ticket. It sends none."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from gpuward.model.case import Case, EffectKind, Outcome

_TRIED = (EffectKind.RESET, EffectKind.REBOOT, EffectKind.VERIFY, EffectKind.EVICT, EffectKind.CLEAR)
"""What was tried is what a person would try next; the rest is in the case."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a ticket is about, as far as it is known."""

    case: Case
    model: str = ""
    serial: str = ""
    lines: tuple[str, ...] = ()
    """The lines of the kernel log that the fault rests on."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a ticket: what it is called, and what stands there; empty: it is left out."""

    name: str
    says: Callable[[Subject], str]


FIELDS: tuple[Field, ...] = (
    Field("Node", lambda subject: subject.case.node),
    Field("GPU", lambda subject: subject.case.gpu),
    Field("UUID", lambda subject: subject.case.gpu_uuid or ""),
    Field("Serial", lambda subject: subject.serial),
    Field("Model", lambda subject: subject.model),
    Field("Fault", lambda subject: trouble(subject.case)),
    Field("Since", lambda subject: _at(subject.case.opened_at)),
    Field("Log", lambda subject: "\n".join(subject.lines)),
    Field("Tried", lambda subject: "\n".join(tried(subject.case))),
    Field("Due", lambda subject: subject.case.due),
    Field("Case", lambda subject: subject.case.id),
)


def ticket(subject: Subject) -> str:
    """Return the text of a ticket: a line a field, more lines below each other."""
    width = max(len(field.name) for field in FIELDS) + 2
    lines = []
    for field in FIELDS:
        first, *more = field.says(subject).split("\n")
        if first:
            lines += [f"{field.name + ':':<{width}}{first}", *(f"{'':<{width}}{line}" for line in more)]
    return "\n".join(lines)


def in_a_line(case: Case) -> str:
    """Return what is due as one sentence that says what it is about and what was tried."""
    about = f"GPU {case.gpu} ({case.gpu_uuid or 'UUID not known'}) of {case.node}, {trouble(case)}"
    return (
        f"Open a ticket for {about} (`gpuward why {case.id} --ticket` writes it), and power cycle the node. "
        f"Tried: {'; '.join(tried(case)) or 'nothing'}."
    )


def trouble(case: Case) -> str:
    """Return what is wrong, with the code where there is one."""
    family = "SXid" if case.kind.startswith("sxid") else "Xid"
    return case.title if case.code is None else f"{family} {case.code}: {case.title}"


def tried(case: Case) -> tuple[str, ...]:
    """Return what was tried and what became of it, in order."""
    return tuple(
        f"{effect.kind} at {_at(effect.asked_at)}: {effect.outcome}{f', {effect.why}' if effect.why else ''}"
        for effect in case.effects
        if effect.kind in _TRIED and effect.outcome is not Outcome.ASKED
    )


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
