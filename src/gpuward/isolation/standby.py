"""Which standby node takes the place of one that falls ill, and which nodes refill a pool. Nothing is promoted here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from gpuward.model.objects.standby_pool import Shape

SECOND_GROUP = ("nvlink_domain", "fabric_block", "driver")
"""What is given up if need be, the last one first; product, count, memory and MIG layout never are."""
_NAMES = tuple(field.name for field in fields(Shape))
_ALWAYS = frozenset({"product", "count", "mig_layout"})


@dataclass(frozen=True, slots=True)
class StandbyNode:
    """A node that stands by, or could: its shape, and why it must not be used now; empty when it may be."""

    name: str
    shape: Shape
    unfit: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The node that was chosen and what of the shape was given up for it; or why none could be."""

    node: str | None
    given_up: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """The pool that has all nodes of another pool's shape, or those that have both shapes: the first by name counts."""

    pool: str
    whole: bool


def choose(lost: Shape, standing_by: Iterable[StandbyNode]) -> Choice:
    """Return the standby that is most like the lost node; by name where several are."""
    standing_by = sorted(standing_by, key=lambda node: node.name)
    if not standing_by:
        return Choice(None, why="no node stands by")
    fit = [node for node in standing_by if not node.unfit]
    if not fit:
        first = standing_by[0]
        return Choice(None, why=f"of {len(standing_by)} that stand by none is fit: {first.name} {first.unfit}")
    for given_up in _relaxations():
        found = next((node for node in fit if is_alike(lost, node.shape, given_up=given_up)), None)
        if found is not None:
            return Choice(found.name, given_up=tuple(name for name in given_up if getattr(lost, name)))
    return Choice(None, why=f"none of {len(fit)} that stand by has its shape: {words_of(lost)}")


def is_alike(wanted: Shape, found: Shape, *, given_up: Sequence[str] = ()) -> bool:
    """Return whether a node's shape is what is wanted.

    What is not said of it is not asked for, but for the MIG layout: not said, MIG is off.
    """
    return all(
        getattr(found, name) == getattr(wanted, name)
        for name in _NAMES
        if name in _ALWAYS or (name not in given_up and getattr(wanted, name) not in {None, ""})
    )


def claim_on(name: str, shapes: Mapping[str, Shape]) -> Claim | None:
    """Return the pool that has nodes of another pool's shape, all if one does; None where all are its own.

    A pool that comes before one of a wider shape takes a part of it by intent: that is no claim.
    """
    mine, others = shapes[name], [other for other in sorted(shapes) if other < name]
    whole = next((other for other in others if is_alike(shapes[other], mine)), None)
    if whole is not None:
        return Claim(whole, whole=True)
    part = (other for other in others if _meet(mine, shapes[other]) and not is_alike(mine, shapes[other]))
    return next((Claim(other, whole=False) for other in part), None)


def refill(shape: Shape, size: int, ready: Sequence[str], *, free: Iterable[StandbyNode]) -> tuple[str, ...]:
    """Return the free nodes that shall stand by, in order, so that a pool of `size` is full again as far as may be."""
    fitting = sorted(
        node.name for node in free if not node.unfit and node.name not in ready and is_alike(shape, node.shape)
    )
    return tuple(fitting[: max(0, size - len(ready))])


def words_of(shape: Shape) -> str:
    """Return a shape in words: what every node of it has."""
    memory = f" of {shape.memory_mib} MiB" if shape.memory_mib else ""
    layout = f", MIG {shape.mig_layout}" if shape.mig_layout else ", MIG off"
    return f"{shape.count} x {shape.product}{memory}{layout}"


def _meet(one: Shape, other: Shape) -> bool:
    """Return whether a node could have both shapes."""
    said = [(name, getattr(one, name), getattr(other, name)) for name in _NAMES]
    return all(left == right or (name not in _ALWAYS and (not left or not right)) for name, left, right in said)


def _relaxations() -> list[tuple[str, ...]]:
    """Return what is given up, from nothing to the whole second group, the last of it first."""
    return [SECOND_GROUP[len(SECOND_GROUP) - number :] for number in range(len(SECOND_GROUP) + 1)]
