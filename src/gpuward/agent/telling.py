"""What is still to be written into the journal: saved before it is written, so a kill loses and doubles nothing."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuward.model.happening import Happening, as_object, from_object
from gpuward.ports import Chronicle, Refused

HEARD_KEPT = 512
"""Changes of faults that are remembered as told: more than lie between two savings of the place in the log."""
NEWEST_READ = 1000
"""Lines of the journal that are looked at for what the last agent wrote."""


class Telling:
    """What happened and is not written yet. `say` gets each happening as it is written, `warn` why one cannot be."""

    def __init__(self, chronicle: Chronicle, *, say: Callable[[Happening], None], warn: Callable[[str], None]) -> None:
        self._chronicle = chronicle
        self._say = say
        self._warn = warn
        self._untold: list[Happening] = []
        self._heard: deque[str] = deque(maxlen=HEARD_KEPT)

    def add(self, happenings: Iterable[Happening]) -> None:
        """Note what happened; it is written when it has been saved."""
        self._untold += happenings

    def is_news(self, change: str) -> bool:
        """Return whether a change is heard of for the first time, and note it: a log is read again after a crash."""
        if change in self._heard:
            return False
        self._heard.append(change)
        return True

    def pack(self, more: Iterable[Happening]) -> dict[str, Any]:
        """Return as JSON values what is to be saved before it is written, with `more` of this moment."""
        return {"heard": list(self._heard), "untold": [as_object(one) for one in (*self._untold, *more)]}

    def unpack(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was packed, also by a version that did not pack this. Raises TypeError or ValueError."""
        self._heard.extend(saved.get("heard", ()))
        self.add(self._unwritten([from_object(one) for one in saved.get("untold", ())]))

    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not self._untold

    def write(self) -> None:
        """Write what was noted, in its order; what cannot be written is said all the same, and warned of."""
        untold, self._untold = self._untold, []
        for happening in untold:
            self._say(happening)
            try:
                self._chronicle.write(happening)
            except Refused as error:
                self._warn(str(error))

    def _unwritten(self, happenings: list[Happening]) -> list[Happening]:
        """Return those that the last agent meant to write down and did not live to."""
        if not happenings:
            return []
        try:
            written = list(self._chronicle.newest(NEWEST_READ))
        except Refused as error:
            self._warn(str(error))
            return []
        return [one for one in happenings if as_object(one) not in written]
