"""Cases as JSON values and back, as they are kept over a restart. Where they are kept is not here."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gpuward.isolation.saved import SavedError
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.level import LEVELS, FaultClass


def pack_case(case: Case) -> dict[str, Any]:
    """Return the case as JSON values."""
    return {**pack_plain(case), "level": str(case.level), "effects": [pack_plain(effect) for effect in case.effects]}


def pack_plain(record: Any) -> dict[str, Any]:
    """Return the fields of a record whose values are as JSON has them, or are packed by the caller."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def unpack_case(packed: Mapping[str, Any]) -> Case:
    """Return the case that was packed. Raises SavedError when something is missing or of another shape."""
    try:
        return Case(
            **{
                **packed,
                "level": LEVELS[packed["level"]],
                "fault_class": FaultClass(packed["fault_class"]),
                "state": CaseState(packed["state"]),
                "order": None if packed["order"] is None else Order(packed["order"]),
                "victims": tuple(packed.get("victims", ())),
                "off": packed.get("off", False),
                "boot": packed.get("boot", ""),
                "drill": None if packed.get("drill") is None else Mode(packed["drill"]),
                "effects": tuple(_unpack_effect(effect) for effect in packed["effects"]),
            }
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SavedError(f"a saved case cannot be read: {error!r}") from error


def _unpack_effect(packed: Mapping[str, Any]) -> Effect:
    return Effect(**{**packed, "kind": EffectKind(packed["kind"]), "outcome": Outcome(packed["outcome"])})
