"""Objects of our kinds for tests, made from their shapes: any that fit, a full one, and each that breaks one limit."""

import copy
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from gpuward.model.objects.gpu_case import CaseSpec, CaseStatus, GpuCase
from gpuward.model.objects.gpu_fault import FaultSpec, FaultStatus, GpuFault, fault_name
from gpuward.model.objects.gpu_node import GpuNode, NodeSpec, NodeStatus
from gpuward.model.objects.head import Head
from gpuward.model.objects.limits import Json, Name, OneOf, Text, Time, Whole
from gpuward.model.objects.shapes import Fields, Flag, Listed, Real, Shape, shape_of
from gpuward.model.objects.standby_pool import PoolSpec, PoolStatus, StandbyPool

TIMES = st.integers(min_value=946_684_800 * 10**6, max_value=4_102_444_800 * 10**6).map(lambda micro: micro / 10**6)
_FULL = ("gpu-1", "work/one", "0000:3b:00", "gpuward.io/standby", "GPU-1a2b", "x")
_OTHER = ("gpu-2", "work/two", "0000:5e:00", "gpuward.io/other", "GPU-3c4d", "y")
_SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)


def values_of(shape: Shape) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911  one case a shape
    """Return values of a shape that fit its limits, as Python has them."""
    match shape:
        case Fields(of, _, members):
            return st.builds(
                of, **{one.name: _member(values_of(one.shape), one.required, one.default) for one in members}
            )
        case Listed(each, items):
            unique = {"unique_by": lambda one: getattr(one, items.key)} if items.key else {}
            return st.lists(values_of(each), max_size=min(items.most, 3), **unique).map(tuple)  # type: ignore[arg-type]
        case Text(most):
            return st.text(max_size=min(most, 40))
        case Name(most, pattern, least):
            fitting = st.from_regex(re.compile(pattern or "[ -~]+", re.ASCII), fullmatch=True)
            return fitting.filter(lambda name: least <= len(name) <= most)
        case Whole(least, most):
            return st.integers(least, most)
        case OneOf(members):
            return st.sampled_from(members)
        case Time():
            return TIMES
        case Json():
            return st.dictionaries(st.text(max_size=8), _SCALARS | st.lists(_SCALARS, max_size=3), max_size=4)
        case Flag():
            return st.booleans()
        case Real():
            return st.floats(0, 1e9)


def _member(values: st.SearchStrategy[Any], required: bool, default: Any) -> st.SearchStrategy[Any]:  # noqa: FBT001  a row's
    return values if required else values | st.just(default)


def _status(record: type) -> st.SearchStrategy[Any]:
    return st.none() | values_of(shape_of(record))


HEADS = st.builds(Head, name=st.from_regex(r"[a-z][a-z0-9]{0,10}(\.[a-z0-9]{1,10}){0,3}", fullmatch=True))
GPU_CASES = st.builds(GpuCase, HEADS, values_of(shape_of(CaseSpec)), _status(CaseStatus))
GPU_NODES = st.builds(GpuNode, HEADS, _status(NodeSpec), _status(NodeStatus))
STANDBY_POOLS = st.builds(StandbyPool, HEADS, values_of(shape_of(PoolSpec)), _status(PoolStatus))


@st.composite
def gpu_faults(draw: st.DrawFn) -> GpuFault:
    """Return faults under the name that each must have."""
    spec: FaultSpec = draw(values_of(shape_of(FaultSpec)))
    return GpuFault(Head(fault_name(spec.node_name, spec.boot, spec.cursor)), spec, draw(_status(FaultStatus)))


def full(shape: Shape, *, other: bool = False) -> Any:  # noqa: C901, PLR0911  one case a shape
    """Return the JSON of a value of a shape in which every field is told; with `other` each is another one."""
    match shape:
        case Fields(_, _, members):
            return {one.spelled: full(one.shape, other=other) for one in members}
        case Listed(each, _):
            return [full(each, other=other)]
        case Text():
            return "other words" if other else "words"
        case Name(most, pattern, _):
            names = _OTHER if other else _FULL
            return next(name for name in names if len(name) <= most and re.search(pattern, name))
        case Whole(least, _):
            return least + other
        case OneOf(members):
            return str(members[-1 if other else 0])
        case Time():
            return f"2026-11-30T03:12:0{7 + other}.000000Z"
        case Json():
            return '{"a":2}' if other else '{"a":1}'
        case Flag():
            return not other
        case Real():
            return 1.5 + other


def broken(shape: Shape, whole: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield copies of a full value with one thing wrong in each, and the field that is wrong."""
    for path, wrong in _wrongs(shape, whole, ()):
        yield where + _dotted(path), _with(whole, path, wrong)


MISSING = object()
"""In place of a value: the field is not there."""
Path = tuple[str | int, ...]


def _wrongs(shape: Shape, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:  # noqa: C901  one case a shape
    match shape:
        case Fields(_, _, members):
            yield path, "no object"
            for one in members:
                inner = (*path, one.spelled)
                if one.required:
                    yield inner, MISSING
                yield from _wrongs(one.shape, value[one.spelled], inner)
        case Listed(each, items):
            yield path, "no list"
            yield path, [_numbered(value[0], items.key, number) for number in range(items.most + 1)]
            yield from _wrongs(each, value[0], (*path, 0))
        case Text(most) | Json(most):
            yield from ((path, wrong) for wrong in ("x" * (most + 1), 7))
        case Name(most, pattern, least):
            if least:
                yield path, ""
            yield from ((path, wrong) for wrong in ("x" * (most + 1), 7, *(["no such name!"] if pattern else [])))
        case Whole(least, most):
            yield from ((path, wrong) for wrong in (least - 1, most + 1, "1"))
        case OneOf():
            yield from ((path, wrong) for wrong in ("no-such-word", 7))
        case Time():
            yield from ((path, wrong) for wrong in ("yesterday", "2026-11-30T03:12:07", 7))
        case Flag():
            yield path, "yes"
        case Real():
            yield path, "1.5"


def _numbered(item: Any, key: str, number: int) -> Any:
    """Return an item of a list, made another one where items are told apart by a key."""
    if not key:
        return item
    return {**item, key: number + 1 if isinstance(item[key], int) else f"{item[key]}-{number}"}


def _with(whole: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(whole)
    place = changed
    for step in path[:-1]:
        place = place[step]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
