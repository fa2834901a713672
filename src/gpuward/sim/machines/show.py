"""What the stub nvidia-smi prints of GPUs when it is queried. Nothing is changed here, and no argument is parsed."""

import time
from collections.abc import Callable, Iterator, Sequence

from gpuward.sim.machines import answer, facts, layout
from gpuward.sim.machines.answer import Answer, Chosen
from gpuward.sim.machines.state import MachineState


def readable(machine: MachineState, chosen: Sequence[Chosen], draw: Callable[[Sequence[Chosen]], str]) -> Answer:
    """Return what `draw` makes of the GPUs that answer, and the words for those that are lost."""
    gone = [one.gpu for one in chosen if one.gpu.lost] if machine.holds("lost-no-handle") else []
    if not gone:
        return Answer(draw(chosen)) if chosen else answer.NONE_FOUND
    errors = "".join(answer.lost(gpu) for gpu in gone)
    if machine.holds("lost-spoils-all"):
        return Answer(errors, answer.LOST)
    rest = [one for one in chosen if one.gpu not in gone]
    return Answer((draw(rest) if rest else "") + errors, answer.LOST)


def query(machine: MachineState, chosen: Sequence[Chosen]) -> str:
    """Return the text of `-q`."""
    head = {
        "Timestamp": time.strftime("%a %b %d %H:%M:%S %Y"),
        "Driver Version": machine.driver,
        "CUDA Version": machine.cuda,
    }
    top = "".join(f"{name:<55}: {value}\n" for name, value in head.items())
    count = f"{'Attached GPUs':<55}: {len(machine.visible)}\n"
    blocks = "\n".join(f"GPU {one.gpu.address}\n{layout.text(_lines(machine, one))}" for one in chosen)
    return f"\n==============NVSMI LOG==============\n\n{top}\n{count}{blocks}\n\n"


def query_xml(machine: MachineState, chosen: Sequence[Chosen]) -> str:
    """Return the text of `-q -x`."""
    head = {
        "timestamp": time.strftime("%a %b %d %H:%M:%S %Y"),
        "driver_version": machine.driver,
        "cuda_version": machine.cuda,
        "attached_gpus": str(len(machine.visible)),
    }
    top = "".join(f"\t<{tag}>{value}</{tag}>\n" for tag, value in head.items())
    blocks = "".join(
        f'\t<gpu id="{one.gpu.address}">\n{layout.xml(_lines(machine, one), depth=1)}\t</gpu>\n\n' for one in chosen
    )
    kind = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
    return f"{kind}<nvidia_smi_log>\n{top}{blocks}</nvidia_smi_log>\n"


def fields(machine: MachineState, chosen: Sequence[Chosen], *, names: Sequence[str], shape: Sequence[str]) -> Answer:
    """Return the answer to `--query-gpu=NAMES --format=SHAPE`."""
    known = {row["field"]: row for row in layout.table("fields.csv")}
    for name in names:
        if name not in known:
            return Answer(f'Field "{name}" is not a valid field to query.\n\n', answer.INVALID)
    return readable(machine, chosen, lambda answering: _csv(machine, answering, [known[name] for name in names], shape))


def _csv(
    machine: MachineState, chosen: Sequence[Chosen], columns: Sequence[dict[str, str]], shape: Sequence[str]
) -> str:
    rows = [] if "noheader" in shape else [", ".join(f"{each['field']} {each['unit']}".strip() for each in columns)]
    for one in chosen:
        values = facts.of(machine, one.gpu, index=one.index, holders=one.pids)
        rows.append(", ".join(_cell(each, values, lost=one.gpu.lost, bare="nounits" in shape) for each in columns))
    return "".join(f"{row}\n" for row in rows)


def _cell(column: dict[str, str], values: dict[str, str], *, lost: bool, bare: bool) -> str:
    value = column["value"].format_map(values)
    if lost and column["unit"]:
        value = facts.LOST
    if value in (facts.NOT_TOLD, facts.LOST):
        return f"[{value}]"
    return value.split(" ")[0] if bare and column["unit"] else value


def _lines(machine: MachineState, one: Chosen) -> Iterator[layout.Line]:
    """Yield all lines of one GPU, with those of its slices and processes where they belong."""
    values = facts.of(machine, one.gpu, index=one.index, holders=one.pids)
    true = facts.conditions(machine, one.gpu, held=bool(one.pids))
    for line in layout.lines("layout.csv", values, true, instead=facts.LOST if one.gpu.lost else None):
        match line.label:
            case "@mig":
                yield from _slices(machine, one.gpu.mig_instances)
            case "@processes":
                yield from _processes(one.pids)
            case _:
                yield line


def _slices(machine: MachineState, count: int) -> Iterator[layout.Line]:
    size = int(machine.model["memory"]) // 8
    for index in range(count):
        values = {
            "index": str(index),
            "instance": str(7 + index),
            "slice": str(size),
            "slice_free": str(size - 9),
        }
        yield from layout.lines("layout_mig.csv", values, frozenset(), deeper=1)


def _processes(pids: Sequence[int]) -> Iterator[layout.Line]:
    for pid in pids:
        values = {"pid": str(pid), "command": _command(pid)}
        yield from layout.lines("layout_process.csv", values, frozenset(), deeper=1)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:  # noqa: PTH123  no pathlib: start-up
            return comm.read().strip()
    except OSError:
        return "[Not Found]"
