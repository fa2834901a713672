"""A happening as a line: for people, or as the journal spells it. What happened is decided elsewhere."""

from collections.abc import Callable
from datetime import UTC, tzinfo

from gpuward.cli import times
from gpuward.cli.objects import dumps
from gpuward.isolation.kernel.text import shown
from gpuward.model.happening import Happening, What, as_object


def line_of(happening: Happening, *, as_json: bool, zone: tzinfo = UTC) -> str:
    """Return the line; empty for what only the journal needs."""
    if as_json:
        return dumps({**as_object(happening), "at": times.as_json(happening.at)})
    what = _WORDS[happening.what](happening)
    where = f"GPU {happening.gpu}" if happening.gpu else happening.node
    return shown(f"{times.as_shown(happening.at, zone)} {where}: {what}") if what else ""


def _observed(happening: Happening) -> str:
    return f"{happening.outcome} by {happening.rule}: {happening.because}"


def _moved(happening: Happening) -> str:
    return f"{happening.before} -> {happening.after}: {happening.because}"


def _effect(happening: Happening) -> str:
    why = f": {happening.because}" if happening.because else ""
    return f"{happening.effect} {happening.outcome}{why}"


_WORDS: dict[What, Callable[[Happening], str]] = {
    What.OBSERVED: _observed,
    What.VERDICT: lambda happening: f"case {happening.case}: {happening.because}",
    What.MOVED: _moved,
    What.EFFECT: _effect,
    What.LAW: lambda happening: f"a law was broken, the case is parked: {happening.rule}",
    What.SAID: lambda happening: happening.because,
}
