"""How far the controller goes, for a whole cluster and for each pool of it: read from the settings document."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.evacuation import EvictionTerms, Scope
from gpuward.isolation.fabric import FABRIC_KEYS
from gpuward.isolation.fleet import FleetBrakes
from gpuward.isolation.tainting import OURS
from gpuward.model.case import Mode
from gpuward.model.level import FaultClass
from gpuward.model.objects.owned import OF_KUBERNETES, Taint
from gpuward.model.objects.owned import OURS as OUR_KEYS
from gpuward.settings.columns import COUNT, ENABLED, MODE, OF_BRAKE, OF_BUDGET, SECONDS, SHARE, Column, is_number
from gpuward.settings.reading import Reading

DEFAULT = "default"
"""The pool of the nodes that no other takes in."""
RACK = "topology.kubernetes.io/rack"
"""The label that names a node's rack, unless the settings name another: none is fixed by Kubernetes."""
MOST_LABELS = 32
"""So many labels are kept of each node at most to find its block."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII
)
"""A key of a label or taint (Kubernetes, object names and labels)."""
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """How far the controller goes on the nodes that wear all labels of `selector`."""

    name: str = DEFAULT
    selector: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.OBSERVE
    approval: bool = False
    """Nothing is done without a person's word."""
    probation_seconds: float = 1800.0
    eviction: EvictionTerms = field(default_factory=EvictionTerms)
    brake: Brake = field(default_factory=Brake)
    """How many GPUs of one node may be taken out within a while."""
    brakes: FleetBrakes = field(default_factory=FleetBrakes)
    """How many nodes may look sick within a while."""
    budget: Budget = field(default_factory=Budget)
    """How many GPUs of the pool may be out of service at once."""

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is of the pool."""
        return all(labels.get(key) == value for key, value in self.selector.items())


@dataclass(frozen=True, slots=True)
class LosingTerms:
    """How long is waited before a node that does not answer is given up, and before one that does is believed."""

    lost_seconds: float = 60.0
    """How long it must not have been Ready to count as lost."""
    back_seconds: float = 60.0
    """How long it must have been Ready again before it is proven."""
    proof_seconds: float = 600.0
    """How long its agent may take to tell that its GPUs are well, once it is back."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What counts for a cluster: the terms of the nodes of no pool, the pools in order, and our taint."""

    default: PoolTerms = field(default_factory=PoolTerms)
    pools: tuple[PoolTerms, ...] = ()
    taint: Taint = OURS
    rack_label: str = RACK
    fabric_labels: tuple[str, ...] = FABRIC_KEYS
    """The labels that may name a node's block of the network fabric, the first that it wears counts."""
    keep_days: int = 90
    """How long a case that has ended is kept."""
    losing: LosingTerms = field(default_factory=LosingTerms)
    """When a node counts as lost, and when as back."""


def cluster_of(reading: Reading, table: Mapping[str, Any]) -> ClusterSettings:
    """Return the settings of a cluster that a document has; what is wrong is noted in `reading`."""
    said = reading.columns(table, ("controller",), _OF_CONTROLLER)
    own = {name: said.pop(name) for name in _OF_ALL if name in said}
    default = _terms(PoolTerms(), said, _tables(reading, table, ()))
    pools = table.get("pools", {})
    if not isinstance(pools, dict):
        reading.wrong(("pools",), "must be tables such as [pools.training]")
        pools = {}
    return ClusterSettings(
        default=default,
        pools=tuple(_pool(reading, table, name, default=default) for name in pools),
        taint=Taint(own.get("taint_key", OURS.key), own.get("taint_effect", OURS.effect)),
        rack_label=own.get("rack_label", RACK),
        fabric_labels=tuple(own.get("fabric_labels", FABRIC_KEYS)),
        keep_days=own.get("keep_days", ClusterSettings().keep_days),
        losing=LosingTerms(**{name: own[name] for name in _OF_LOSING if name in own}),
    )


def _pool(reading: Reading, table: Mapping[str, Any], name: str, *, default: PoolTerms) -> PoolTerms:
    where = ("pools", name)
    if name == DEFAULT or not _NAME.fullmatch(name):
        reading.wrong(where, f"must be small letters, digits and '-', and not {DEFAULT}: that one has all other nodes")
    said = reading.columns(table, where, _OF_POOL, inner=_TABLES)
    selector = said.pop("selector", None)
    if selector is None and isinstance(table["pools"][name], dict) and "selector" not in table["pools"][name]:
        reading.wrong(
            where, 'must have a selector, the labels that its nodes wear: selector = {"gpu-pool" = "training"}'
        )
    terms = _terms(default, said, _tables(reading, table, where))
    return replace(terms, name=name, selector=selector or {})


_Tables = Mapping[tuple[str, ...], Mapping[str, Any]]


def _tables(reading: Reading, table: Mapping[str, Any], where: tuple[str, ...]) -> _Tables:
    """Return what the tables of a pool say, those of the whole document for `where` empty."""
    return {
        ("eviction",): reading.columns(table, (*where, "eviction"), _OF_EVICTION),
        ("budget",): reading.columns(table, (*where, "budget"), OF_BUDGET),
        ("brake",): reading.columns(table, (*where, "brake"), OF_BRAKE, inner=_SCOPES),
        **{(scope,): reading.columns(table, (*where, "brake", scope), _OF_FLEET_BRAKE) for scope in _SCOPES},
    }


def _terms(base: PoolTerms, said: Mapping[str, Any], tables: _Tables) -> PoolTerms:
    """Return the terms of a pool: what is not said is as in `base`."""
    eviction = {
        _AS_FIELD.get(name, name): _AS_VALUE.get(name, _same)(value) for name, value in tables[("eviction",)].items()
    }
    brakes = {scope: replace(getattr(base.brakes, scope), **tables[(scope,)]) for scope in _SCOPES}
    told = dict(said)
    if "mode" in told:
        told["mode"] = Mode(told["mode"])
    return replace(
        base,
        **told,
        eviction=replace(base.eviction, **eviction),
        brake=replace(base.brake, **tables[("brake",)]),
        brakes=replace(base.brakes, **brakes),
        budget=budget_of(tables[("budget",)], base.budget),
    )


def budget_of(chosen: Mapping[str, Any], base: Budget) -> Budget:
    """Return the budget that the columns of a table say; what is not said is as in `base`."""
    by_class = {FaultClass(name): most for name, most in chosen.items() if name != "gpus"}
    return Budget(gpus=chosen.get("gpus", base.gpus), by_class={**base.by_class, **by_class})


def _same(value: Any) -> Any:
    return value


_TABLES = ("eviction", "budget", "brake")
_SCOPES = ("pool", "rack", "kind")
_AS_FIELD = {"victims": "scope", "excluded_namespaces": "excluded"}
_AS_VALUE: Mapping[str, Callable[[Any], Any]] = {"victims": Scope, "excluded_namespaces": frozenset}


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and bool(_KEY.fullmatch(value))


def _is_free(value: Any) -> bool:
    """Return whether a key is nobody else's: what Kubernetes takes off again would look like a person's word."""
    return _is_key(value) and not value.startswith((*OF_KUBERNETES, OUR_KEYS))


def _are_keys(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_LABELS and all(map(_is_key, value))


def _is_selector(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_key, value)) and _all(_VALUE, value.values())


def _all(pattern: re.Pattern[str], values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) and pattern.fullmatch(value) for value in values)


def _one_of(words: Iterable[str]) -> Column:
    allowed = list(words)
    return Column(lambda value: value in allowed, f"must be one of {', '.join(allowed)}")


def _between(least: int, most: int) -> Column:
    return Column(
        lambda value: is_number(value) and least <= value <= most, f"must be a number of seconds, {least} to {most}"
    )


_LABEL_KEY = Column(_is_key, "must be the key of a label, such as example.com/rack")
_OF_POOL = {
    "selector": Column(_is_selector, 'must be labels and their values, such as {"gpu-pool" = "training"}'),
    "mode": MODE,
    "approval": ENABLED,
    "probation_seconds": SECONDS,
}
_OF_LOSING = {
    # Less, and what is a hiccup of the network has pods evicted, or a node believed that is still booting.
    "lost_seconds": _between(20, 86_400),
    "back_seconds": _between(10, 86_400),
    "proof_seconds": _between(60, 86_400),
}
_OF_CONTROLLER = {
    **{name: column for name, column in _OF_POOL.items() if name != "selector"},
    "taint_key": Column(
        _is_free,
        "must be the key of a taint, such as example.com/hardware-fault, and none that Kubernetes or gpuward uses for "
        f"something else ({', '.join((*OF_KUBERNETES, OUR_KEYS))})",
    ),
    "taint_effect": _one_of(EFFECTS),
    "rack_label": _LABEL_KEY,
    "fabric_labels": Column(
        _are_keys, f'must be a list of the keys of labels, at most {MOST_LABELS}, such as ["example.com/leaf-switch"]'
    ),
    "keep_days": COUNT,
    **_OF_LOSING,
}
_OF_ALL = ("taint_key", "taint_effect", "rack_label", "fabric_labels", "keep_days", *_OF_LOSING)
"""What counts for the whole cluster, and is no pool's."""
_WHOLE_SECONDS = Column(
    lambda value: isinstance(value, int) and SECONDS.fits(value),
    "must be a whole number of seconds, 0 or more, at most 1000000000",
)
_OF_EVICTION = {
    "victims": _one_of(Scope),
    "excluded_namespaces": Column(
        lambda value: isinstance(value, list) and _all(_NAME, value),
        'must be a list of namespaces, such as ["monitoring"]',
    ),
    "grace_seconds": _WHOLE_SECONDS,
    "deadline_seconds": SECONDS,
    "save_seconds": SECONDS,
    "force": ENABLED,
}
_OF_FLEET_BRAKE = {"share": SHARE, "nodes": COUNT, "least": COUNT, "window_seconds": SECONDS}
OF_CLUSTER: Mapping[str, tuple[str, ...]] = {
    "controller": tuple(_OF_CONTROLLER),
    "eviction": tuple(_OF_EVICTION),
    "brake": (*OF_BRAKE, *_SCOPES, *_OF_FLEET_BRAKE),
    "budget": tuple(OF_BUDGET),
    "pools": tuple(_OF_POOL),
}
"""The tables of a cluster and their fields, those of the tables in them among them."""
