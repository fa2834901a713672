"""What holds whatever the log says: nothing raises, batches and idle moments change nothing, levels only rise."""

import json
from collections.abc import Iterator
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.isolation.merge import Merger
from gpuward.model.fault import Change, ChangeKind
from gpuward.model.level import Level
from gpuward.model.record import Record
from gpuward.model.signal import Moment, Signal
from tests.kit.merging import GPU_A, GPU_B, GPU_C, sxid, terms, told, xid
from tests.kit.records import START, at

CODES = st.sampled_from([13, 31, 43, 45, 48, 63, 74, 79, 92, 94, 95, 119, 122, 145, 154, 162, 163, 999])
STEPS = st.lists(
    st.tuples(
        CODES,
        st.sampled_from([0.0, 0.5, 20.0, 61.0, 200.0, 4000.0, 90_000.0]),
        st.sampled_from([GPU_A, GPU_B, GPU_C]),
        st.sampled_from(["train", "serve", None]),
        st.sampled_from(
            [
                {},
                {"rst": True},
                {"rst": False, "d_rst": True},
                {"caused_by_xid": 79},
                {"gpc": 1, "tpc": 2},
                {"recovery_to_label": "GPU Reset Required"},
                {"recovery_to_label": "None"},
                {"registers": [0, 0, 0, 0, 1 << 20, 0, 0]},
            ]
        ),
    ),
    max_size=40,
)
Steps = list[tuple[int, float, str, str | None, dict[str, object]]]


def _records(steps: Steps) -> list[Record]:
    seconds = 0.0
    records = []
    for code, step, pci, process, details in steps:
        seconds += step
        records.append(xid(code, seconds, pci=pci, process=process, details=details))
    return records


@given(steps=STEPS, idle=st.lists(st.floats(min_value=0, max_value=1), max_size=40))
def test_moments_between_the_lines_change_no_fault(steps: Steps, idle: list[float]) -> None:
    records = _records(steps)
    whole = {fault.id: fault for fault in told(records).faults}
    merger = Merger(terms())
    changes: list[Change] = []
    for number, record in enumerate(records):
        changes += merger.step(record)
        following = records[number + 1 : number + 2]
        if following and number < len(idle):
            changes += merger.advance(_between(record, following[0], idle[number]), boot="b1")
    changes += merger.finish()
    assert {change.fault.id: change.fault for change in changes} == whole


def _between(record: Record, following: Record, share: float) -> Moment:
    begin, end = record.moment.wall or 0.0, following.moment.wall or 0.0
    return at(begin + share * (end - begin) - START)


@given(steps=STEPS)
def test_a_level_of_p0_or_p1_only_rises_until_a_line_clears_it(steps: Steps) -> None:
    clearing = {154, 163}
    last: dict[str, Level] = {}
    for change in told(_records(steps)).changes:
        before, level = last.get(change.fault.id), change.fault.verdict.level
        if before is not None and before >= Level.P1 and change.fault.code not in clearing:
            assert level >= before
        last[change.fault.id] = level


@given(steps=STEPS)
def test_every_fault_begins_once_and_is_closed_once(steps: Steps) -> None:
    seen = told(_records(steps))
    for fault in seen.faults:
        kinds = seen.kinds(fault)
        assert kinds[0] is ChangeKind.BEGAN
        assert kinds.count(ChangeKind.BEGAN) == kinds.count(ChangeKind.CLOSED) == 1
    assert sum(fault.count for fault in seen.faults) == len(_records(steps))


@given(steps=STEPS)
def test_every_verdict_has_a_sentence_and_an_action(steps: Steps) -> None:
    for fault in told(_records(steps)).faults:
        assert fault.verdict.because.endswith(".")
        assert fault.verdict.action
        assert "{" not in fault.verdict.because + fault.verdict.action
        assert not fault.verdict.waits, "the log has ended: nothing is left open"


PIECES = st.sampled_from(
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x82 0x40 0x0 0x0 0x0 0x0)",
        "NVRM: Xid (PCI:0000:3b:00): 74, NVLink: fatal error detected on link 14(0x0, 0x0, 0xf, 0x0, 0x0, 0x0, 0x0)",
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "NVRM: The NVIDIA GPU 0000:76:00.0",
        "NVRM: API mismatch: the client has the version 575.51.02, but",
        "[ 12.5] ",
        "Nov 30 03:12:07 gpu-1 kernel: ",
        "4,1,99,-;",
        '{"MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 31"}',
    ]
)


@st.composite
def broken_lines(draw: st.DrawFn) -> str:
    """Return a line made of whole and broken pieces, with rubbish between them."""
    parts = draw(st.lists(st.one_of(PIECES, st.text(max_size=20)), min_size=1, max_size=4))
    line = "".join(parts)
    cut = draw(st.integers(min_value=0, max_value=len(line)))
    return line[:cut] + draw(st.text(max_size=4)) + line[cut + draw(st.integers(min_value=0, max_value=9)) :]


def _through(lines: list[str]) -> Iterator[Change]:
    reader = KernelReader(Context(source="log", timezone=UTC, now=START))
    merger = Merger(terms())
    for number, line in enumerate(lines, 1):
        record = reader.read(Signal(source="log", line=number, cursor=f"f{number}", text=line))
        yield from [] if record is None else merger.step(record)
    yield from merger.finish()


@given(lines=st.lists(broken_lines(), max_size=12))
def test_no_text_raises_and_everything_is_json(lines: list[str]) -> None:
    for change in _through(lines):
        json.dumps(dict(change.fault.details))


def test_a_switch_and_a_gpu_of_one_node_do_not_mix() -> None:
    seen = told([sxid(12028, 0, word="non-fatal"), xid(43, 0, pci="0000:c1:00")])
    assert len(seen.faults) == 2


@given(steps=STEPS)
def test_what_goes_on_is_the_same_however_often_it_was_asked_before(steps: Steps) -> None:
    asked = Merger(terms())
    records = _records(steps[:12])
    for number, record in enumerate(records, 1):
        asked.step(record)
        asked.learn_uuid(record.pci or GPU_A, f"GPU-{number % 2}", node=None)
        fresh = Merger(terms())
        for earlier, one in enumerate(records[:number], 1):
            fresh.step(one)
            fresh.learn_uuid(one.pci or GPU_A, f"GPU-{earlier % 2}", node=None)
        assert asked.faults() == fresh.faults()
    asked.finish()
    assert asked.faults() == []
