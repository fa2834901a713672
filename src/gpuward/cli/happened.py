"""A happening as a line: for people, or as the journal spells it. What happened is decided elsewhere."""

from collections.abc import Callable
from datetime import UTC, tzinfo

from gpuward.cli import times
from gpuward.cli.objects import dumps
from gpuward.isolation.kernel.text import shown
from gpuward.model.happening import Happening, What, as_object


def line_of(happening: Happening, *, as_json: bool, zone: tzinfo = UTC, of_fleet: bool = False) -> str:
    """Return the line; empty for what only the journal needs. `of_fleet`: there are more nodes than one to tell of."""
    if as_json:
        return dumps({**as_object(happening), "at": times.as_json(happening.at)})
    what = _WORDS[happening.what](happening)
    node = happening.node if of_fleet or not happening.gpu else ""
    where = " ".join(filter(None, (node, happening.gpu and f"GPU {happening.gpu}")))
    told = f"{where}: {what}" if where else what
    return shown(f"{times.as_shown(happening.at, zone)} {told}") if what else ""


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
    What.TRUTH: lambda happening: f"in truth: {happening.because}",
}
