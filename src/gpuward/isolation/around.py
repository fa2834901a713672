"""The faults remembered, findable by GPU, node and what they are. What they mean for one another is in judge."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

from gpuward.isolation.catalogue.rules import Rule, Selector
from gpuward.isolation.live import LiveFault

_NEAR = 128
"""Faults of one code looked at on one GPU or node."""
_CODED = frozenset({"xid", "xid_unknown", "sxid_fatal", "sxid_nonfatal"})
_BY_GPU = frozenset({"gpu", "sm", "link"})

_Place = tuple[Any, ...]


@dataclass(slots=True)
class Index:
    """The faults remembered, findable by node, GPU and what they are, newest last; bounded as a whole."""

    faults: "OrderedDict[str, LiveFault]" = field(default_factory=OrderedDict)
    places: dict[_Place, deque[LiveFault]] = field(default_factory=dict)
    added: int = 0

    def add(self, live: LiveFault) -> None:
        """Remember a fault, as the newest."""
        self.faults[live.id] = live
        live.order = self.added = self.added + 1
        for place in _places(live):
            self.places.setdefault(place, deque(maxlen=_NEAR)).append(live)

    def drop(self, live: LiveFault) -> None:
        """Forget a fault."""
        del self.faults[live.id]
        for place in _places(live):
            near = self.places.get(place)
            if near is None:
                continue
            if near[0] is live:
                near.popleft()
            elif live in near:
                near.remove(live)
            if not near:
                del self.places[place]

    def candidates(self, rule: Rule, live: LiveFault) -> Iterator[LiveFault]:
        """Return possible companions of `live`, newest first."""
        return iter(()) if rule.companion is None else self.near(rule.companion, rule, live)

    def near(self, wanted: Selector, rule: Rule, live: LiveFault) -> Iterator[LiveFault]:
        """Return faults of the wanted codes and kinds on the GPU or node that the rule's key names, newest first."""
        pci = None if _BY_GPU.isdisjoint(rule.key) else live.pci
        if "code" in rule.key and not wanted.codes and live.code is not None:
            return self._of_code(live.code, wanted, (live.machine, pci))
        return chain.from_iterable(
            reversed(place)
            for token in _tokens(wanted.codes, wanted.kinds)
            if (place := self.places.get((live.machine, pci, token)))
        )

    def _of_code(self, code: int, wanted: Selector, place: _Place) -> Iterator[LiveFault]:
        """Yield those of one code among the newest of each kind that is wanted, newest first."""
        for kind in _tokens(wanted.codes, wanted.kinds):
            newest = self.places.get((*place, kind))
            if newest:
                for other in reversed(self.places.get((*place, code), ())):
                    if other.order < newest[0].order:
                        break
                    if other.base.kind == kind:
                        yield other


@lru_cache(maxsize=1024)
def _tokens(codes: frozenset[int], kinds: frozenset[str]) -> tuple[int | str, ...]:
    """Return what to look a selector's faults up by: its codes, and its kinds that carry no code."""
    if codes:
        return (*sorted(codes), *sorted(kind for kind in kinds if kind not in _CODED))
    return tuple(sorted(kinds or _CODED))


def _places(live: LiveFault) -> Iterator[_Place]:
    for pci in (live.pci, None) if live.pci is not None else (None,):
        yield (live.machine, pci, live.kind)
        if live.code is not None:
            yield (live.machine, pci, live.code)
