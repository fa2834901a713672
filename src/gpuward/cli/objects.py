"""Faults, lines and changes as the JSON objects that other programs read. The keys are a promise; see docs/json.md."""

import json
from collections.abc import Mapping
from typing import Any

from gpuward.cli.times import as_json
from gpuward.model.fault import Change, Fault
from gpuward.model.gpu import Mig
from gpuward.model.record import Record


def fault_object(fault: Fault) -> dict[str, Any]:
    """Return one fault; what is not known is null."""
    verdict = fault.verdict
    return {
        "time": as_json(fault.first.wall),
        "last": as_json(fault.last.wall),
        "node": fault.node,
        "pci": fault.pci,
        "gpu_uuid": fault.gpu_uuid,
        "kind": fault.kind,
        "code": fault.code,
        "level": str(verdict.level),
        "class": str(verdict.fault_class),
        "title": fault.title,
        "action": verdict.action,
        "because": verdict.because,
        "pid": fault.pid,
        "process": fault.process,
        "mig": _mig(fault.mig),
        "count": fault.count,
        "evidence": [{"line": line.line, "text": line.text} for line in fault.evidence],
        "details": dict(fault.details),
    }


def line_object(record: Record) -> dict[str, Any]:
    """Return one recognised line; what it does not carry is null."""
    return {
        "line": record.line,
        "time": as_json(record.moment.wall),
        "facility": record.facility,
        "kind": str(record.kind),
        "code": record.code,
        "pci": record.pci,
        "pid": record.pid,
        "process": record.process,
        "mig": _mig(record.mig),
        "severity": record.severity,
        "link": record.link,
        "part": record.part,
        "details": dict(record.details),
        "text": record.text,
    }


def change_object(change: Change, *, told: float, history: bool) -> dict[str, Any]:
    """Return one change of a watched fault: what happened, when it was told, and the fault as it stands."""
    verdict = change.fault.verdict
    return {
        "change": str(change.kind),
        "told": as_json(told),
        "id": change.fault.id,
        "history": history,
        "was": None if change.was is None else str(change.was),
        "waits": verdict.waits,
        "explained_by": verdict.explained_by,
        "rules": list(verdict.rules),
        **fault_object(change.fault),
    }


def dumps(value: Mapping[str, Any]) -> str:
    """Return an object as one line; what a terminal would act on, or show as something else, is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _mig(mig: Mig | None) -> dict[str, int | None] | None:
    return None if mig is None else {"gi": mig.gi, "ci": mig.ci}
