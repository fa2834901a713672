"""A person's brake on the whole fleet, kept in one ConfigMap: who paused it, when and why. Who heeds it is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuward.model.resource import CONFIG_MAPS

PAUSE = "gpuward-pause"
"""The ConfigMap's name, in gpuward's own namespace."""
MOST_CHARACTERS = 512
_SOMEBODY = "somebody"


@dataclass(frozen=True, slots=True)
class Pause:
    """Whether the fleet is paused. `at` is None where nobody can tell since when."""

    on: bool
    by: str = ""
    at: float | None = None
    because: str = ""

    @property
    def sentence(self) -> str:
        """Why nothing new is isolated, and what goes on; empty when the fleet is not paused."""
        if not self.on:
            return ""
        since = "" if self.at is None else f" since {datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        because = f": {self.because.rstrip('.')}" if self.because else ""
        return f"paused by {self.by or _SOMEBODY}{since}{because}; `gpuward resume` goes on"


def read_pause(found: Mapping[str, Any]) -> Pause:
    """Return what a ConfigMap says. One that says anything at all is a pause, however broken: it is a brake."""
    data = found.get("data")
    if not data:
        return Pause(on=False)
    if not isinstance(data, Mapping):
        return Pause(on=True)
    return Pause(on=True, by=_text(data.get("by")), at=_moment(data.get("at")), because=_text(data.get("because")))


def write_pause(pause: Pause) -> dict[str, str]:
    """Return the data of the ConfigMap; empty when the fleet is not paused."""
    if not pause.on:
        return {}
    at = "" if pause.at is None else datetime.fromtimestamp(pause.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"by": _text(pause.by) or _SOMEBODY, "at": at, "because": _text(pause.because)}
    return {name: value for name, value in told.items() if value}


def pause_object(pause: Pause) -> dict[str, Any]:
    """Return the whole ConfigMap, as it is created."""
    data = write_pause(pause)
    named = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": {"name": PAUSE}}
    return named | ({"data": data} if data else {})


def _text(value: Any) -> str:
    return " ".join(value.split())[:MOST_CHARACTERS] if isinstance(value, str) else ""


def _moment(value: Any) -> float | None:
    """Return the time that a text spells in any zone; None for what is none."""
    try:
        moment = datetime.fromisoformat(value)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, TypeError, OverflowError):
        return None
