"""The faults remembered, findable by GPU, node and what they are. What they mean for one another is in judge."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuward.isolation.catalogue.rules import Rule, Selector
from gpuward.isolation.live import LiveFault

_NEAR = 128
"""Faults of one code looked at on one GPU or node."""
_CODED = frozenset({"xid", "xid_unknown", "sxid_fatal", "sxid_nonfatal"})

_Place = tuple[Any, ...]


@dataclass(slots=True)
class Index:
    """The faults remembered, findable by node, GPU and what they are, newest last; bounded as a whole."""

    faults: "OrderedDict[str, LiveFault]" = field(default_factory=OrderedDict)
    places: dict[_Place, deque[LiveFault]] = field(default_factory=dict)

    def add(self, live: LiveFault) -> None:
        """Remember a fault, as the newest."""
        self.faults[live.id] = live
        for place in _places(live):
            self.places.setdefault(place, deque(maxlen=_NEAR)).append(live)

    def drop(self, live: LiveFault) -> None:
        """Forget a fault."""
        del self.faults[live.id]
        for place in _places(live):
            near = self.places.get(place)
            if near is not None:
                if live in near:
                    near.remove(live)
                if not near:
                    del self.places[place]

    def candidates(self, rule: Rule, live: LiveFault) -> Iterator[LiveFault]:
        """Yield possible companions of `live`, newest first."""
        if rule.companion is not None:
            yield from self.near(rule.companion, rule, live)

    def near(self, wanted: Selector, rule: Rule, live: LiveFault) -> Iterator[LiveFault]:
        """Yield faults of the wanted codes and kinds on the GPU or node that the rule's key names, newest first."""
        pci = live.pci if {"gpu", "sm", "link"}.intersection(rule.key) else None
        for token in _tokens(wanted):
            yield from reversed(self.places.get((live.machine, pci, token), ()))


def _tokens(selector: Selector) -> Iterable[int | str]:
    """Return what to look a selector's faults up by: its codes, and its kinds that carry no code."""
    if selector.codes:
        return (*sorted(selector.codes), *sorted(kind for kind in selector.kinds if kind not in _CODED))
    return sorted(selector.kinds or _CODED)


def _places(live: LiveFault) -> Iterator[_Place]:
    for pci in (live.pci, None) if live.pci is not None else (None,):
        yield (live.machine, pci, live.kind)
        if live.code is not None:
            yield (live.machine, pci, live.code)
