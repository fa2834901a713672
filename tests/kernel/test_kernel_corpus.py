"""Every line of the corpus of real kernel logs is read as its expected facts say."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuward.model.record import Record, RecordKind
from tests.kit.lines import a_reader, a_signal

Entry = Mapping[str, Any]

EXCEPTIONS: dict[tuple[str, int], str] = {}
"""(file, line): why the expectation is taken for wrong. None so far."""

MUST_AGREE = frozenset(
    {
        "xid",
        "sxid",
        "xid_malformed",
        "sxid_malformed",
        "xid_quoted",
        "nvrm_fallen_off_bus",
        "nvrm_multiline_start",
        "nvrm_rminit_failed",
        "nvrm_gpu_uuid",
        "nvrm_board_serial",
        "aer",
    }
)
FAULTS = frozenset(
    {
        RecordKind.XID,
        RecordKind.SXID,
        RecordKind.FALLEN_OFF_BUS,
        RecordKind.RMINIT_FAILED,
        RecordKind.VERSION_MISMATCH,
        RecordKind.AER,
    }
)
DETAILS = {
    "xid": (
        "message",
        "nvlink",
        "recovery_from",
        "recovery_to",
        "recovery_from_label",
        "recovery_to_label",
        "caused_by_xid",
    ),
    "sxid": ("nvswitch",),
    "nvrm_gpu_uuid": ("uuid",),
    "nvrm_board_serial": ("serial",),
}
FILES = 73
LINES = 2082


def facts(record: Record, kind: str) -> dict[str, Any]:
    """Return what the corpus tells of a line of this kind, as the record says it."""
    found: dict[str, Any] = {"kind": record.kind.value}
    if kind == "xid_quoted":
        return found
    found |= {"pci": record.pci, "frame": record.frame}
    if kind in {"xid", "sxid"}:
        gi, ci = (None, None) if record.mig is None else (record.mig.gi, record.mig.ci)
        found |= {"code": record.code, "pid": record.pid, "name": record.process, "mig_gi": gi, "mig_ci": ci}
    if kind == "sxid":
        found |= {"severity": record.severity, "link": record.link, "part": record.part}
    return found | {key: record.details.get(key) for key in DETAILS.get(kind, ())}


def wanted(entry: Entry, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same keys as the corpus says them."""
    plain = {**entry, "code": entry.get("sxid") or entry["xid"]}
    if entry["kind"] == "xid":
        plain["message"] = entry["message"] or ""
    return {key: plain.get(key) for key in found}


def disagreements(file: Path) -> Iterator[tuple[int, str, Any, Any]]:
    """Yield (line, its text, wanted, found) for every line read otherwise than expected."""
    expected = json.loads((file.parent / "expected" / f"{file.name}.json").read_text())
    lines = file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    reader = a_reader()
    records = [reader.read(a_signal(text, number)) for number, text in enumerate(lines, start=1)]
    for entry in expected:
        number, kind = entry["n"], entry["kind"]
        record = records[number - 1]
        text = lines[number - 1]
        if (file.name, number) in EXCEPTIONS:
            continue
        if kind not in MUST_AGREE:
            if record is not None and record.kind in FAULTS:
                yield number, text, "no fault", record.kind
            continue
        found = {} if record is None else facts(record, kind)
        expectation = wanted(entry, found) if found else {"kind": kind}
        if found != expectation:
            yield number, text, expectation, found


def test_every_corpus_line_is_read_as_expected(corpus: Path) -> None:
    wrong = [(file.name, *each) for file in sorted((corpus / "kernel").glob("*.log")) for each in disagreements(file)]
    assert wrong == []


def test_the_whole_corpus_is_compared(corpus: Path) -> None:
    files = sorted((corpus / "kernel").glob("*.log"))
    counts = [len(json.loads((file.parent / "expected" / f"{file.name}.json").read_text())) for file in files]
    assert (len(files), sum(counts)) >= (FILES, LINES)


@pytest.mark.parametrize(
    ("file", "line", "of"), [("formats-08.log", 21, 20), ("formats-08.log", 22, 20), ("formats-25.log", 2, 1)]
)
def test_a_later_line_of_a_message_names_its_first(corpus: Path, file: str, line: int, of: int) -> None:
    lines = (corpus / "kernel" / file).read_text().split("\n")
    reader = a_reader()
    records = [reader.read(a_signal(text, number)) for number, text in enumerate(lines, start=1)]
    record = records[line - 1]
    assert record is not None
    assert record.details["of"] == of


def test_no_corpus_record_has_details_that_json_cannot_carry(corpus: Path) -> None:
    for file in sorted((corpus / "kernel").glob("*.log")):
        reader = a_reader()
        for number, text in enumerate(file.read_text(errors="surrogateescape").split("\n"), start=1):
            record = reader.read(a_signal(text, number))
            if record is not None:
                assert json.loads(json.dumps(record.details)) == record.details
