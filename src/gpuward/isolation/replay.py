"""Which records were taken before, so that a log that is read again creates nothing. What they mean is in merge."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuward.model.record import Record

REPLAYS_KEPT = 32768
REPLAYS_SAVED = 2048
"""Records known again after a restart: the kernel's ring holds a few thousand lines, of which few are ours."""

Place = tuple[Any, ...]


@dataclass(slots=True)
class Replays:
    """The records taken last, by their place in the log and by what they say."""

    seen: dict[int, Place] = field(default_factory=dict)
    recent: deque[Place] = field(default_factory=lambda: deque(maxlen=REPLAYS_SAVED))

    def knows(self, record: Record) -> bool:
        """Return whether this record was taken before: the same place of the same log, or a copy in another section.

        A copy is known by its fraction of a second; stamps of whole seconds may well be alike.
        """
        here = (record.source, record.frame, record.boot)
        moment = record.moment
        place = (record.source, record.boot, record.cursor)
        self.recent.append(place)
        places = [hash(place)]
        if moment.uptime is not None or (moment.wall is not None and moment.wall % 1):
            text = record.details.get("message") or record.text
            places.append(hash((record.code, record.pci, record.pid, record.part, text, moment.uptime or moment.wall)))
        seen = self.seen
        known = places[0] in seen or (len(places) > 1 and seen.get(places[1], here) != here)
        for known_by in places:
            seen.setdefault(known_by, here)
        while len(seen) > REPLAYS_KEPT:
            del seen[next(iter(seen))]
        return known

    def pack(self) -> list[list[Any]]:
        """Return the newest places as JSON values."""
        return [list(place) for place in self.recent]

    def unpack(self, packed: Iterable[Iterable[Any]]) -> None:
        """Take over what `pack` returned."""
        self.recent.extend(tuple(place) for place in packed)
        self.seen.update((hash(place), place) for place in self.recent)
