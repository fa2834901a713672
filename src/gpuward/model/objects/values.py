"""Values to the JSON of an object and back, by their shape. What is too long is cut, what does not fit is refused."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from gpuward.model.objects.limits import Json, Name, OneOf, Text, Time, Whole
from gpuward.model.objects.shapes import Fields, Flag, Listed, Real, Shape, shape_of

_T = TypeVar("_T")
_MICRO = 1_000_000
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, as undecodable bytes leave them: no JSON carries them."""
_UNKNOWABLE = "?"
_CUT = "…"
_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST = datetime(9900, 1, 1, tzinfo=UTC).timestamp()
"""No clock shows a later time, and whatever wait is added to one, the sum can still be told."""
_TO_THE_MICROSECOND = len("2026-01-01T00:00:00.000000Z")
_FRACTION = re.compile(r"(\.[0-9]{6})[0-9]+")


class ObjectError(ValueError):
    """An object is not as this version writes it; the text names the field and says what is wrong."""


def write(value: Any) -> dict[str, Any]:
    """Return a record as the JSON of an object. Raises ObjectError when a name or number does not fit its limit."""
    return _written_fields(shape_of(type(value)), value, "")  # type: ignore[arg-type]  # mypy asks the hash of its instances


def read(record: type[_T], value: Any, where: str) -> _T:
    """Return the record that `value` spells; what this version does not know is passed over, as a newer one wrote it.

    `where` names the value in what ObjectError says, such as `spec`.
    """
    found: _T = _read_fields(shape_of(record), value, where)  # type: ignore[arg-type]  # as above
    return found


def _written_fields(shape: Fields, value: Any, where: str) -> dict[str, Any]:
    written = {}
    for member in shape.members:
        one = getattr(value, member.name)
        # Where None is not the default, an empty value says more than an absent one.
        if one is None or (not member.required and one == member.default):
            continue
        written[member.spelled] = _written(member.shape, one, _within(where, member.spelled))
    return written


def _written(shape: Shape, value: Any, where: str) -> Any:
    write_it = _WRITERS.get(type(shape))
    written = value if write_it is None else write_it(shape, value, where)
    _check(shape, written, where)
    return written


def _written_items(shape: Listed, value: Any, where: str) -> list[Any]:
    kept = value[-shape.items.most :] if shape.items.drops else value
    return [_written(shape.each, one, f"{where}[{number}]") for number, one in enumerate(kept)]


def _read_fields(shape: Fields, value: Any, where: str) -> Any:
    if not isinstance(value, (dict, Mapping)):
        raise ObjectError(f"{where} is no object but {_shown(value)}")
    told = {}
    for member in shape.members:
        one = value.get(member.spelled)
        if one is not None:
            told[member.name] = _read(member.shape, one, _within(where, member.spelled))
        elif member.required:
            raise ObjectError(f"{_within(where, member.spelled)} is missing")
        else:
            told[member.name] = member.default
    try:
        return shape.of(**told)
    except ValueError as error:
        raise ObjectError(f"{where}: {error}") from error


def _read(shape: Shape, value: Any, where: str) -> Any:
    _check(shape, value, where)
    read_it = _READERS.get(type(shape))
    return value if read_it is None else read_it(shape, value, where)


def _read_items(shape: Listed, value: Any, where: str) -> tuple[Any, ...]:
    return tuple([_read(shape.each, one, f"{where}[{number}]") for number, one in enumerate(value)])


def _check(shape: Shape, value: Any, where: str) -> None:
    """Raise ObjectError unless a JSON value is what the API server takes for the shape."""
    if not _FITS[type(shape)](shape, value):
        raise ObjectError(f"{where} must be {_wanted(shape)}, but is {_shown(value)}")


def _is_name(shape: Name, value: Any) -> bool:
    # Python's `$` also lets a line end pass.
    fits = _is_text(value, shape.least, shape.most)
    return fits and _compiled(shape.pattern).search(value) is not None and value[-1:] != "\n"


def _is_whole(shape: Whole, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and shape.least <= value <= shape.most


def _is_real(_shape: Real, value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _wanted(shape: Shape) -> str:
    """Return what a value of a shape must be, in words."""
    wanted = "true or false"
    match shape:
        case Listed(_, items):
            wanted = f"a list of {items.most} at most"
        case Text(most) | Json(most):
            wanted = f"text of {most} characters at most"
        case Name(most, pattern, least):
            wanted = f"{least} to {most} characters" + (f" that match {pattern}" if pattern else "")
        case Whole(least, most):
            wanted = f"a whole number from {least} to {most}"
        case Real():
            wanted = "a number"
        case OneOf():
            wanted = f"one of {', '.join(shape.words)}"
        case Time():
            wanted = "a date and time"
    return wanted


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _is_text(value: Any, least: int, most: int) -> bool:
    if not (isinstance(value, str) and least <= len(value) <= most):
        return False
    return value.isascii() or not _SURROGATES.search(value)


def _whole_characters(text: str) -> str:
    return text if text.isascii() else _SURROGATES.sub(_UNKNOWABLE, text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT


def _json(value: Mapping[str, Any], most: int) -> str:
    """Return the values as JSON text in ASCII; the last ones are left out until it fits."""
    names = list(value)
    while True:
        text = json.dumps({name: value[name] for name in names}, separators=(",", ":"))
        if len(text) <= most:
            return text
        names.pop()


def _parsed(_shape: Json, text: str, where: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ObjectError(f"{where} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ObjectError(f"{where} must be a JSON object, but is {_shown(text)}")
    return value


def _spelled_time(_shape: Time, seconds: float, where: str) -> str:
    try:
        whole = math.floor(seconds)
        micro = round((seconds - whole) * _MICRO)
        moment = datetime.fromtimestamp(whole + micro // _MICRO, UTC).replace(microsecond=micro % _MICRO, tzinfo=None)
    except (ValueError, OverflowError, OSError) as error:
        raise ObjectError(f"{where} must be a time in the years 1 to 9899, but is {seconds!r}") from error
    if seconds >= _LATEST:
        raise ObjectError(f"{where} must be a time in the years 1 to 9899, but is {seconds!r}")
    return f"{moment.isoformat(timespec='microseconds')}Z"


def _read_time(_shape: Time, text: str, where: str) -> float:
    try:
        moment = datetime.fromisoformat(text if len(text) <= _TO_THE_MICROSECOND else _FRACTION.sub(r"\1", text))
        in_utc = moment if moment.tzinfo is UTC or moment.tzinfo is None else moment.astimezone(UTC)
        past = in_utc - _EPOCH if in_utc.tzinfo else None
    except (ValueError, OverflowError) as error:
        raise ObjectError(f"{where} is no date and time: {_shown(text)}") from error
    if past is None:
        raise ObjectError(f"{where} must tell its time zone, but is {_shown(text)}")
    seconds = ((past.days * 86_400 + past.seconds) * _MICRO + past.microseconds) / _MICRO
    if seconds >= _LATEST:
        raise ObjectError(f"{where} must be a time in the years 1 to 9899, but is {_shown(text)}")
    return seconds


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: Any) -> str:
    return ascii(value)[:80]


_FITS: Mapping[type, Callable[[Any, Any], bool]] = {
    Fields: lambda _shape, _value: True,
    Listed: lambda shape, value: isinstance(value, list) and len(value) <= shape.items.most,
    Name: _is_name,
    Text: lambda shape, value: _is_text(value, 0, shape.most),
    Json: lambda shape, value: _is_text(value, 0, shape.most),
    OneOf: lambda shape, value: isinstance(value, str) and value in shape.words,
    Flag: lambda _shape, value: isinstance(value, bool),
    Whole: _is_whole,
    Time: lambda _shape, value: isinstance(value, str),
    Real: _is_real,
}
"""Whether a JSON value is what the API server takes for a shape; of a record each field is looked at by itself."""
_READERS: Mapping[type, Callable[[Any, Any, str], Any]] = {
    Fields: _read_fields,
    Listed: _read_items,
    Json: _parsed,
    OneOf: lambda shape, value, _where: shape.words[value],
    Time: _read_time,
    Real: lambda _shape, value, _where: float(value),
}
"""How what fits is read; what has no row is as it stands."""
_WRITERS: Mapping[type, Callable[[Any, Any, str], Any]] = {
    Fields: _written_fields,
    Listed: _written_items,
    Text: lambda shape, value, _where: _cut(_whole_characters(value), shape.most),
    Json: lambda shape, value, _where: _json(value, shape.most),
    OneOf: lambda _shape, value, _where: str(value),
    Time: _spelled_time,
}
"""How a value is written before it is looked at; what has no row is as it stands."""
