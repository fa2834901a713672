"""The child that asks the NVML library and may be killed: one JSON line in, one out. Nothing is judged here.

`nvml` starts it with `python -m gpuward.adapters.nvml_child`. The library is opened for each reading and closed after
it: an open library holds every GPU, and a GPU that is held cannot be reset.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MOST_LINKS = 36
_LOST = 15
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Which member of the union holds the value, by nvmlValueType_t (nvml.h)."""
_RECOVERY_FIELD = 230
_SPEED_FIELD = 164
_COMMON_SPEED_FIELD = 90
_TROUBLES = {
    9: ("unreachable", "the NVIDIA driver is not loaded; load it and try again"),
    12: ("refused", "there is no NVML library (libnvidia-ml.so.1); install the driver's libraries"),
    18: ("refused", "the NVML library and the kernel module are of different versions; reboot, or reload the module"),
}
"""What nvmlInit can answer (nvml.h), and whether to try again."""

Answer = dict[str, Any]


class Asked:
    """One GPU's handle under question: each answer or None, and whether the library called the GPU lost."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.lost = False

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `call` answers, None when the library refuses."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            self.lost = self.lost or getattr(error, "value", None) == _LOST
            return None

    def field(self, handle: Any, number: int, scope: int = 0) -> int | None:
        """Return a field's value; some fields fail one by one inside a call that succeeds."""
        values = self(self._nvml.nvmlDeviceGetFieldValues, handle, [(number, scope)])
        if values is None or values[0].nvmlReturn or values[0].valueType >= len(_VALUES):
            return None
        return int(getattr(values[0].value, _VALUES[values[0].valueType]))


def reading(nvml: Any) -> Answer:
    """Return one reading of all GPUs, or why there is none."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        otherwise = ("refused", f"NVML refuses to start ({error}); see what nvidia-smi says")
        word, sentence = _TROUBLES.get(getattr(error, "value", 0), otherwise)
        return {word: sentence}
    try:
        asked = Asked(nvml)
        count = asked(nvml.nvmlDeviceGetCount)
        if count is None:
            return {"unreachable": "NVML does not tell how many GPUs there are; try again"}
        return {
            "driver": _word(asked(nvml.nvmlSystemGetDriverVersion)),
            "cuda": _cuda(asked(nvml.nvmlSystemGetCudaDriverVersion_v2)),
            "gpus": [_gpu(nvml, index) for index in range(count)],
        }
    finally:
        Asked(nvml)(nvml.nvmlShutdown)


def _gpu(nvml: Any, index: int) -> Answer:
    asked = Asked(nvml)
    handle = asked(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return {"index": index, "lost": asked.lost}
    place = asked(nvml.nvmlDeviceGetPciInfo, handle)
    mig = asked(nvml.nvmlDeviceGetMigMode, handle)
    rows = asked(nvml.nvmlDeviceGetRemappedRows, handle)
    uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    answer: Answer = {
        "index": index,
        "pci": None if place is None else _word(place.busId),
        "uuid": _word(asked(nvml.nvmlDeviceGetUUID, handle)),
        "minor": asked(nvml.nvmlDeviceGetMinorNumber, handle),
        "model": _word(asked(nvml.nvmlDeviceGetName, handle)),
        "persistence": _flag(asked(nvml.nvmlDeviceGetPersistenceMode, handle)),
        "display": _flag(asked(nvml.nvmlDeviceGetDisplayActive, handle)),
        "mig": None if mig is None else _flag(mig[0]),
        "mig_uuids": _mig_uuids(nvml, asked, handle) if mig is not None and mig[0] else None,
        "volatile": asked(nvml.nvmlDeviceGetTotalEccErrors, handle, uncorrected, nvml.NVML_VOLATILE_ECC),
        "aggregate": asked(nvml.nvmlDeviceGetTotalEccErrors, handle, uncorrected, nvml.NVML_AGGREGATE_ECC),
        "pending": None if rows is None else _flag(rows[2]),
        "failed": None if rows is None else _flag(rows[3]),
        "recovery": asked.field(handle, _RECOVERY_FIELD),
        "links": list(_links(nvml, asked, handle)),
        "generation": asked(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        "generation_max": asked(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "width": asked(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        "width_max": asked(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
    }
    return answer | {"lost": asked.lost}


def _mig_uuids(nvml: Any, asked: Asked, handle: Any) -> list[str | None] | None:
    """Return the UUIDs of the MIG devices; places in between may be free."""
    most = asked(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    if most is None:
        return None
    found = [asked(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(most)]
    return [_word(asked(nvml.nvmlDeviceGetUUID, one)) for one in found if one is not None]


def _links(nvml: Any, asked: Asked, handle: Any) -> Iterator[tuple[int, bool, int | None]]:
    """Yield number, state and speed in MB/s of the links, up to the first that the card does not have."""
    for link in range(_MOST_LINKS):
        state = asked(nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            return
        speed = asked.field(handle, _SPEED_FIELD, link) if state else None
        if state and speed is None:
            speed = asked.field(handle, _COMMON_SPEED_FIELD)
        yield link, bool(state), speed


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _word(value: str | bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _cuda(number: int | None) -> str | None:
    """Spell 12020 as 12.2 (nvml.h: 1000 times the major version and 10 times the minor)."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _answer() -> Mapping[str, Any]:
    try:
        nvml = importlib.import_module("pynvml")  # here and nowhere else: the library can hang its process
    except ImportError:
        return {"refused": "the package nvidia-ml-py is not installed; install it or let nvidia-smi be read"}
    return reading(nvml)


def main() -> None:
    """Answer each line of standard input with one line, until it closes."""
    # The library may print to standard output, which is the pipe of the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for _ in sys.stdin:
        answers.write(json.dumps(_answer()) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
