"""Which units are stopped for which case, kept over a restart: what was stopped is always started again."""

import threading
from typing import Any

from gpuward.ports import Refused, Store

REMEDY = "start the services that it names by hand, then delete it"


class Pauses:
    """Which units were, or are about to be, stopped for a case: saved before the first is stopped."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._units: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def load(self, *, booted: bool = False) -> None:
        """Take over what was saved, unless a boot has started it all since. Raises Refused when it cannot be used."""
        saved = self._store.load()
        try:
            self._units = {} if saved is None else {case: _names(units) for case, units in saved.items()}
        except TypeError as error:
            raise Refused(f"the saved list of stopped services cannot be used; {REMEDY}") from error
        if booted:
            self._units = {}

    def of(self, case: str) -> tuple[str, ...]:
        """Return the units of a case."""
        return self._units.get(case, ())

    def add(self, case: str, units: tuple[str, ...]) -> None:
        """Save that units of a case are about to be stopped. Raises Refused."""
        with self._lock:
            self._units[case] = tuple(dict.fromkeys((*self._units.get(case, ()), *units)))
            self._store.save({name: list(kept) for name, kept in self._units.items()})

    def remove(self, case: str) -> None:
        """Forget the units of a case: they run again."""
        with self._lock:
            if self._units.pop(case, None) is not None:
                self._store.save({name: list(kept) for name, kept in self._units.items()})


def _names(units: Any) -> tuple[str, ...]:
    if not isinstance(units, list) or not all(isinstance(unit, str) for unit in units):
        raise TypeError
    return tuple(units)
