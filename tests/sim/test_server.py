"""The pretend server's tree and log are read by the real adapters, as a real machine's would be."""

import time
from pathlib import Path

from gpuward.adapters.procfs import ProcFs
from gpuward.sim.server import ADDRESSES, NOTEBOOK, SERVE, TRAIN, Line, build_proc, story, uuid_of, write_log


def test_its_gpus_are_listed_in_pci_order_with_their_uuids(tmp_path: Path) -> None:
    build_proc(tmp_path)
    gpus = ProcFs(str(tmp_path)).gpus()
    assert [(gpu.index, gpu.pci) for gpu in gpus] == [(n, f"0000:{address}") for n, address in enumerate(ADDRESSES)]
    assert [gpu.uuid for gpu in gpus] == [uuid_of(index) for index in range(len(ADDRESSES))]
    assert {gpu.model for gpu in gpus} == {"NVIDIA H100 80GB HBM3"}
    assert [gpu.minor for gpu in gpus] == list(range(len(ADDRESSES)))


def test_its_processes_have_command_session_container_and_pod(tmp_path: Path) -> None:
    build_proc(tmp_path)
    for process in (TRAIN, SERVE, NOTEBOOK):
        holder = ProcFs(str(tmp_path)).holder(process.pid)
        assert holder is not None
        assert (holder.command, holder.session) == (process.command, process.session)
        assert (holder.container_id, holder.pod_uid) == ("9f2c" * 16, process.pod)


def test_its_story_is_told_in_the_order_of_time() -> None:
    times = [line.seconds for line in story()]
    assert times == sorted(times)
    assert times[-1] > 60 + max(line.seconds for line in story() if line.text.startswith("kernel: NVRM: Xid")), (
        "the last wait is seen to end"
    )


def test_its_log_is_written_as_fast_as_asked_and_each_line_is_told_before(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    seen: list[tuple[Line, int]] = []
    began = time.monotonic()
    write_log(log, speed=1000, tell=lambda line: seen.append((line, len(log.read_text().splitlines()))))
    assert 0.19 < time.monotonic() - began < 2
    assert [line for line, _ in seen] == list(story())
    assert [written for _, written in seen] == list(range(len(seen)))
    assert all(text.endswith(line.text) for text, (line, _) in zip(log.read_text().splitlines(), seen, strict=True))
