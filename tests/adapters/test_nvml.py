"""Nvml and its child: answers, hangs, deaths and noise of real child processes, and a small library in Python."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.nvml import RECOVERY, Nvml
from gpuward.adapters.nvml_child import reading
from gpuward.model.gpu import Gpu
from gpuward.model.node import EccCounts, GpuReading, NvLink, Pcie, Remap
from gpuward.ports import Inventory, Refused, Unreachable

SOON = 20.0
UUID = "GPU-5a5a5a5a-0000-4000-8000-0123456789ab"
ONE = '{"driver": "580.65.06", "cuda": "13.0", "gpus": [{"index": 0, "pci": "00000000:3F:00.0", "lost": false}]}'
ECHO = f"import os, sys\nfor line in sys.stdin: print('''{ONE}'''.replace('580', str(os.getpid())), flush=True)"


@contextlib.contextmanager
def asking(code: str, *, inventory: Inventory | None = None) -> Iterator[Nvml]:
    """Give an Nvml whose child runs this code."""
    nvml = Nvml((sys.executable, "-c", code), inventory=inventory)
    try:
        yield nvml
    finally:
        nvml.close()


def pid_of(nvml: Nvml) -> int:
    """Return the pid that ECHO puts in the place of the driver's version."""
    return int((nvml.read(SOON).driver_version or "").partition(".")[0])


def test_one_child_answers_all_readings() -> None:
    with asking(ECHO) as nvml:
        assert pid_of(nvml) == pid_of(nvml)


def test_a_closed_one_has_no_child_and_reads_again_with_another() -> None:
    with asking(ECHO) as nvml:
        first = pid_of(nvml)
        nvml.close()
        assert not Path(f"/proc/{first}").exists()
        assert pid_of(nvml) != first


def test_a_child_that_was_killed_is_replaced() -> None:
    with asking(ECHO) as nvml:
        first = pid_of(nvml)
        os.kill(first, signal.SIGKILL)
        with contextlib.suppress(Unreachable):  # its death may be seen only when it is asked
            nvml.read(SOON)
        assert pid_of(nvml) != first


def test_a_child_that_hangs_is_killed_at_the_deadline_and_replaced(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, sys, time
runs = pathlib.Path({str(tmp_path / "runs")!r})
earlier = runs.read_text() if runs.exists() else ""
runs.write_text(earlier + f"{{os.getpid()}}\\n")
if not earlier: time.sleep(600)
{ECHO}"""
    with asking(code) as nvml:
        started = time.monotonic()
        with pytest.raises(Hung, match=r"did not answer within 1 s"):
            nvml.read(1.0)
        assert time.monotonic() - started < SOON
        second = pid_of(nvml)
    first = int((tmp_path / "runs").read_text().split()[0])
    assert first != second
    assert not Path(f"/proc/{first}").exists()


@pytest.mark.parametrize(
    "code",
    ["pass", "print('{', flush=True)", "import os; os.write(1, b'half')", "import sys; sys.exit('no')"],
)
def test_a_child_that_dies_or_talks_nonsense_is_unreachable(code: str) -> None:
    with asking(code) as nvml, pytest.raises(Unreachable, match="started again"):
        nvml.read(SOON)


def test_a_child_that_complains_without_end_does_not_block_itself() -> None:
    noisy = ECHO.replace("print(", "sys.stderr.write('x' * 1_000_000); print(")
    with asking(noisy) as nvml:
        assert pid_of(nvml) == pid_of(nvml)


def test_a_child_that_floods_is_refused() -> None:
    with asking("import os\nwhile True: os.write(1, b'x' * 65536)") as nvml, pytest.raises(Refused, match="4 MiB"):
        nvml.read(SOON)


@pytest.mark.parametrize(("word", "error"), [("refused", Refused), ("unreachable", Unreachable)])
def test_why_there_is_no_reading_is_the_childs_sentence(word: str, error: type[Exception]) -> None:
    code = f"""input(); print('{{"{word}": "No library; install it"}}', flush=True)"""
    with asking(code) as nvml, pytest.raises(error, match="No library; install it"):
        nvml.read(SOON)


def test_without_the_package_it_is_refused_with_a_sentence() -> None:
    without = "import sys; sys.modules['pynvml'] = None; from gpuward.adapters.nvml_child import main; main()"
    with asking(without) as nvml, pytest.raises(Refused, match="nvidia-ml-py is not installed"):
        nvml.read(SOON)


@dataclass
class Listed:
    """An inventory of these addresses."""

    pcis: Sequence[str]

    def gpus(self) -> tuple[Gpu, ...]:
        """Return them."""
        return tuple(Gpu(index=i, pci=pci, uuid=None, model=None, minor=None) for i, pci in enumerate(self.pcis))

    def driver_version(self) -> str | None:
        """Return none."""
        return None


LOST = ONE.replace("]", ', {"index": 1, "lost": true}]')


@pytest.mark.parametrize(
    ("listed", "want"),
    [
        (["0000:3f:00", "0000:5e:00"], ["0000:3f:00", "0000:5e:00"]),
        (["0000:3f:00", "0000:5e:00", "0000:af:00"], ["0000:3f:00"]),
        ([], ["0000:3f:00"]),
    ],
    ids=["one is left over", "another is drained", "nothing is listed"],
)
def test_a_lost_gpu_has_the_address_that_is_left_over(listed: list[str], want: list[str]) -> None:
    with asking(f"input(); print('''{LOST}''', flush=True)", inventory=Listed(listed)) as nvml:
        gpus = nvml.read(SOON).gpus
    assert [gpu.pci for gpu in gpus] == want
    assert [gpu.lost for gpu in gpus] == [False, True][: len(want)]


class NVMLError(Exception):
    """The library's error, as nvidia-ml-py raises it."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class Library:
    """A small NVML of one GPU: what `answers` does not hold is not supported; an int below zero is an error code."""

    NVMLError = NVMLError
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_AGGREGATE_ECC = 1

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[object, Any] = {
            "Init": 0,
            "DeviceGetCount": 1,
            "DeviceGetHandleByIndex": "handle",
        }
        self.answers.update(answers)
        self.open = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.call(name.removeprefix("nvml"), *arguments)

    def call(self, name: str, *arguments: Any) -> Any:
        """Answer one call."""
        self.open += {"Init": 1, "Shutdown": -1}.get(name, 0)
        if name == "DeviceGetUUID" and arguments[0] != "handle":
            return f"{UUID} of {arguments[0]}"
        key = (name, *arguments[1:]) if (name, *arguments[1:]) in self.answers else name
        answer = self.answers.get(key, -3)
        if isinstance(answer, int) and answer < 0:
            raise NVMLError(-answer)
        return answer

    def nvmlDeviceGetFieldValues(self, _handle: str, fields: Sequence[tuple[int, int]]) -> Sequence[Any]:  # noqa: N802 - its name
        """Answer a field from `fields` in answers; another one fails inside a call that succeeds."""
        value = self.answers.get("fields", {}).get(fields[0])
        union = SimpleNamespace(uiVal=value, dVal=-1.0)
        return [SimpleNamespace(nvmlReturn=0 if value is not None else 3, valueType=1, value=union)]


FULL: dict[object, Any] = {
    "SystemGetDriverVersion": "580.65.06",
    "SystemGetCudaDriverVersion_v2": 13020,
    "DeviceGetPciInfo": SimpleNamespace(busId=b"00000000:3F:00.0"),
    "DeviceGetUUID": UUID,
    "DeviceGetMinorNumber": 4,
    "DeviceGetName": b"NVIDIA H100 80GB HBM3",
    "DeviceGetPersistenceMode": 1,
    "DeviceGetDisplayActive": 0,
    "DeviceGetMigMode": [1, 0],
    "DeviceGetMaxMigDeviceCount": 7,
    ("DeviceGetMigDeviceHandleByIndex", 0): "first",
    ("DeviceGetMigDeviceHandleByIndex", 4): "second",
    ("DeviceGetTotalEccErrors", 1, 0): 2,
    ("DeviceGetTotalEccErrors", 1, 1): 5,
    "DeviceGetRemappedRows": (3, 1, 1, 0),
    ("DeviceGetNvLinkState", 0): 1,
    ("DeviceGetNvLinkState", 1): 0,
    "DeviceGetCurrPcieLinkGeneration": 4,
    "DeviceGetMaxPcieLinkGeneration": 5,
    "DeviceGetCurrPcieLinkWidth": 8,
    "DeviceGetMaxPcieLinkWidth": 16,
    "fields": {(230, 0): 4, (164, 0): 26562},
}


def through_a_child(library: Library) -> tuple[GpuReading, ...]:
    """Return what an Nvml makes of the child's answer."""
    answer = repr(reading(library))
    with asking(f"import json; input(); print(json.dumps({answer}), flush=True)", inventory=Listed([])) as nvml:
        return nvml.read(SOON).gpus


def test_everything_that_the_library_tells_is_read() -> None:
    library = Library()
    library.answers |= FULL
    assert through_a_child(library) == (
        GpuReading(
            index=0,
            pci="0000:3f:00",
            uuid=UUID,
            minor=4,
            model="NVIDIA H100 80GB HBM3",
            persistence=True,
            display_active=False,
            mig=True,
            ecc=EccCounts(volatile=2, aggregate=5),
            remap=Remap(pending=True, failed=False),
            recovery_action="Drain and Reset",
            links=(
                NvLink(0, active=True, speed_gb_per_second=26.562),
                NvLink(1, active=False, speed_gb_per_second=None),
            ),
            pcie=Pcie(generation=4, generation_max=5, width=8, width_max=16),
            lost=False,
            mig_uuids=(f"{UUID} of first", f"{UUID} of second"),
        ),
    )


def test_of_a_card_without_mig_no_mig_device_is_asked_for() -> None:
    library = Library()
    library.answers |= FULL | {"DeviceGetMigMode": [0, 1]}
    assert [gpu.mig_uuids for gpu in through_a_child(library)] == [None]


def test_a_library_that_knows_no_mig_devices_leaves_them_unknown() -> None:
    library = Library()
    library.answers |= FULL | {"DeviceGetMaxMigDeviceCount": -13}
    assert [gpu.mig_uuids for gpu in through_a_child(library)] == [None]


def test_what_the_library_does_not_support_is_unknown() -> None:
    (gpu,) = through_a_child(Library(DeviceGetPciInfo=SimpleNamespace(busId="00000000:3F:00.0")))
    unknown = (gpu.uuid, gpu.minor, gpu.persistence, gpu.mig, gpu.recovery_action, gpu.ecc.volatile, gpu.remap.pending)
    assert unknown == (None,) * 7
    assert (gpu.links, gpu.lost) == ((), False)


def test_a_card_that_is_lost_in_any_answer_is_lost() -> None:
    library = Library(DeviceGetPciInfo=SimpleNamespace(busId="00000000:3F:00.0"), DeviceGetUUID=-15)
    assert [gpu.lost for gpu in through_a_child(library)] == [True]
    assert reading(Library(DeviceGetHandleByIndex=-15))["gpus"] == [{"index": 0, "lost": True}]


def test_the_library_is_closed_after_each_reading_for_an_open_one_holds_the_gpus() -> None:
    for library in (Library(), Library(DeviceGetCount=-999), Library(DeviceGetHandleByIndex=-15)):
        reading(library)
        assert library.open == 0


@pytest.mark.parametrize(
    ("code", "word", "part"),
    [
        (9, "unreachable", "driver is not loaded"),
        (12, "refused", "libnvidia-ml.so.1"),
        (18, "refused", "different versions"),
        (999, "refused", "error 999"),
    ],
)
def test_a_library_that_does_not_start_says_why(code: int, word: str, part: str) -> None:
    answer = reading(Library(Init=-code))
    assert list(answer) == [word]
    assert part in answer[word]


def test_the_words_of_the_recovery_actions_are_those_of_nvidia_smi() -> None:
    assert [RECOVERY[code] for code in range(5)] == ["None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"]
