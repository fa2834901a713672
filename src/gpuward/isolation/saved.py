"""A merger's memory as JSON values and back, so that a restart changes nothing. Where it is kept is not here."""

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpuward.isolation.grade import Grade
from gpuward.isolation.live import EVIDENCE_KEPT, LiveFault
from gpuward.model.fault import Verdict
from gpuward.model.gpu import Mig
from gpuward.model.level import LEVELS, FaultClass
from gpuward.model.signal import Moment

FORMAT = 2


class SavedError(ValueError):
    """What was saved is not what this version writes."""


def pack_fault(live: LiveFault) -> dict[str, Any]:
    """Return the fault as JSON values."""
    return {
        "key": list(live.key),
        "id": live.id,
        "machine": live.machine,
        "node": live.node,
        "boot": live.boot,
        "pci": live.pci,
        "code": live.code,
        "base": _pack_grade(live.base),
        "first": _pack_moment(live.first),
        "last": _pack_moment(live.last),
        "since": _pack_moment(live.since),
        "heard_at": _pack_moment(live.heard_at),
        "waits_from": _pack_moment(live.waits_from),
        "sated": sorted(live.sated),
        "gap_seconds": live.gap_seconds,
        "linger_seconds": live.linger_seconds,
        "facility": live.facility,
        "user_record": live.user_record,
        "certain": live.certain,
        "mig": None if live.mig is None else [live.mig.gi, live.mig.ci],
        "pid": live.pid,
        "process": live.process,
        "details": live.details,
        "count": live.count,
        "verdict": _pack_verdict(live.verdict),
        "cleared": live.cleared,
        "explainer_last": None if live.explainer_last is None else _pack_moment(live.explainer_last),
        "covers_seconds": live.covers_seconds,
        "links": sorted(live.links),
        "sms": sorted(live.sms),
        "jobs": sorted(live.jobs),
        "instances": sorted(live.instances, key=lambda gi: -1 if gi is None else gi),
        "head": [list(line) for line in live.head],
        "tail": [list(line) for line in live.tail],
        "retired": live.retired,
    }


def unpack_fault(packed: Mapping[str, Any]) -> LiveFault:
    """Return the fault that was packed.

    Raises SavedError when something is missing or of another shape.
    """
    try:
        return _unpack(packed)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise SavedError(f"a saved fault cannot be read: {error!r}") from error


def _unpack(packed: Mapping[str, Any]) -> LiveFault:
    same = {
        name: packed[name]
        for name in (
            "id",
            "machine",
            "node",
            "boot",
            "pci",
            "code",
            "gap_seconds",
            "linger_seconds",
            "facility",
            "user_record",
            "certain",
            "pid",
            "process",
            "count",
            "cleared",
            "covers_seconds",
            "retired",
        )
    }
    return LiveFault(
        **same,
        key=tuple(packed["key"]),
        base=_unpack_grade(packed["base"]),
        first=Moment(*packed["first"]),
        last=Moment(*packed["last"]),
        since=Moment(*packed["since"]),
        heard_at=Moment(*packed["heard_at"]),
        waits_from=Moment(*packed["waits_from"]),
        sated=frozenset(packed["sated"]),
        mig=None if packed["mig"] is None else Mig(*packed["mig"]),
        details=dict(packed["details"]),
        verdict=_unpack_verdict(packed["verdict"]),
        explainer_last=None if packed["explainer_last"] is None else Moment(*packed["explainer_last"]),
        links=set(packed["links"]),
        sms={(gpc, tpc) for gpc, tpc in packed["sms"]},
        jobs=set(packed["jobs"]),
        instances=set(packed["instances"]),
        head=[(line, text) for line, text in packed["head"]],
        tail=deque(((line, text) for line, text in packed["tail"]), maxlen=EVIDENCE_KEPT),
    )


def _pack_moment(moment: Moment) -> list[float | None]:
    return [moment.wall, moment.uptime]


def _pack_grade(grade: Grade) -> dict[str, Any]:
    return {
        "kind": grade.kind,
        "level": str(grade.level),
        "fault_class": str(grade.fault_class),
        "title": grade.title,
        "action": grade.action,
        "because": grade.because,
        "scope": grade.scope,
        "details": dict(grade.details),
        "rows": list(grade.rows),
    }


def _unpack_grade(packed: Mapping[str, Any]) -> Grade:
    return Grade(
        **{
            **packed,
            "level": LEVELS[packed["level"]],
            "fault_class": FaultClass(packed["fault_class"]),
            "rows": tuple(packed["rows"]),
        }
    )


def _pack_verdict(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "level": str(verdict.level), "fault_class": str(verdict.fault_class)}


def _unpack_verdict(packed: Mapping[str, Any]) -> Verdict:
    return Verdict(
        **{
            **packed,
            "level": LEVELS[packed["level"]],
            "fault_class": FaultClass(packed["fault_class"]),
            "rules": tuple(packed["rules"]),
        }
    )
