"""Values to the JSON of an object and back, by their shape. What is too long is cut, what does not fit is refused."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from gpuward.model.objects.limits import Json, Name, OneOf, Text, Time, Whole
from gpuward.model.objects.shapes import Fields, Flag, Listed, Member, Real, Shape, shape_of

_T = TypeVar("_T")
_MICRO = 1_000_000
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, as undecodable bytes leave them: no JSON carries them."""
_UNKNOWABLE = "?"
_CUT = "…"
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
    written = value
    match shape:
        case Fields():
            return _written_fields(shape, value, where)
        case Listed(each, items):
            kept = value[-items.most :] if items.drops else value
            written = [_written(each, one, f"{where}[{number}]") for number, one in enumerate(kept)]
        case Text(most):
            written = _cut(_whole_characters(value), most)
        case Json(most):
            written = _json(value, most)
        case OneOf():
            written = str(value)
        case Time():
            written = _spelled_time(value, where)
    _check(shape, written, where)
    return written


def _read_fields(shape: Fields, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise ObjectError(f"{where} is no object but {_shown(value)}")
    told = {}
    for member in shape.members:
        told[member.name] = _read_member(member, value.get(member.spelled), _within(where, member.spelled))
    try:
        return shape.of(**told)
    except ValueError as error:
        raise ObjectError(f"{where}: {error}") from error


def _read_member(member: Member, value: Any, where: str) -> Any:
    if value is not None:
        return _read(member.shape, value, where)
    if member.required:
        raise ObjectError(f"{where} is missing")
    return member.default


def _read(shape: Shape, value: Any, where: str) -> Any:
    _check(shape, value, where)
    found = value
    match shape:
        case Fields():
            found = _read_fields(shape, value, where)
        case Listed(each, _):
            found = tuple(_read(each, one, f"{where}[{number}]") for number, one in enumerate(value))
        case Json():
            found = _parsed(value, where)
        case OneOf():
            found = shape.words[value]
        case Time():
            found = _read_time(value, where)
        case Real():
            found = float(value)
    return found


def _check(shape: Shape, value: Any, where: str) -> None:
    """Raise ObjectError unless a JSON value is what the API server takes for the shape."""
    if not _fits(shape, value):
        raise ObjectError(f"{where} must be {_wanted(shape)}, but is {_shown(value)}")


def _fits(shape: Shape, value: Any) -> bool:
    fits = True
    match shape:
        case Name(most, pattern, least):
            # Python's `$` also lets a line end pass.
            fits = _is_text(value, least, most) and _compiled(pattern).search(value) is not None and value[-1:] != "\n"
        case OneOf():
            fits = isinstance(value, str) and value in shape.words
        case Text(most) | Json(most):
            fits = _is_text(value, 0, most)
        case Flag():
            fits = isinstance(value, bool)
        case Whole(least, most):
            fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        case Listed(_, items):
            fits = isinstance(value, list) and len(value) <= items.most
        case Time():
            fits = isinstance(value, str)
        case Real():
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return fits


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
    return _SURROGATES.sub(_UNKNOWABLE, text)


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


def _parsed(text: str, where: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ObjectError(f"{where} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ObjectError(f"{where} must be a JSON object, but is {_shown(text)}")
    return value


def _spelled_time(seconds: float, where: str) -> str:
    try:
        whole = math.floor(seconds)
        micro = round((seconds - whole) * _MICRO)
        moment = datetime.fromtimestamp(whole + micro // _MICRO, UTC).replace(microsecond=micro % _MICRO, tzinfo=None)
    except (ValueError, OverflowError, OSError) as error:
        raise ObjectError(f"{where} must be a time in the years 1 to 9999, but is {seconds!r}") from error
    return f"{moment.isoformat(timespec='microseconds')}Z"


def _read_time(text: str, where: str) -> float:
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", text))
        past = moment.astimezone(UTC) - datetime.fromtimestamp(0, UTC) if moment.tzinfo else None
    except (ValueError, OverflowError) as error:
        raise ObjectError(f"{where} is no date and time: {_shown(text)}") from error
    if past is None:
        raise ObjectError(f"{where} must tell its time zone, but is {_shown(text)}")
    return ((past.days * 86_400 + past.seconds) * _MICRO + past.microseconds) / _MICRO


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: Any) -> str:
    return ascii(value)[:80]
