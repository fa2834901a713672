"""Which GPU of this node the id of a device means, as device plugins give ids. What no row fits is not guessed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuward.agent.bench import Remembered

_REPLICA = r"(?:::[0-9]+)?"
"""What time-slicing and MPS put behind the id of a GPU that several pods share."""


@dataclass(frozen=True, slots=True)
class Places:
    """The GPUs of a node as ids name them, each with its address."""

    by_uuid: Mapping[str, str]
    by_mig_uuid: Mapping[str, str]
    by_number: Mapping[str, str]
    """By the place in PCI order, as nvidia-smi counts."""
    by_minor: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class IdForm:
    """One row: a form of id, of which the first group is looked up, and where it is from."""

    form: re.Pattern[str]
    among: Callable[[Places], Mapping[str, str]]
    source: str


def _row(form: str, among: Callable[[Places], Mapping[str, str]], source: str) -> IdForm:
    return IdForm(re.compile(form, re.ASCII), among, source)


ID_FORMS = (
    _row(
        rf"(GPU-[0-9A-Za-z-]+){_REPLICA}",
        lambda places: places.by_uuid,
        "NVIDIA device plugin, deviceIDStrategy uuid, its default; `::n` is a replica of a shared GPU",
    ),
    _row(
        rf"(MIG-[0-9A-Za-z-]+){_REPLICA}",
        lambda places: places.by_mig_uuid,
        "the same, of a MIG device",
    ),
    _row(
        rf"MIG-(GPU-[0-9A-Za-z-]+)/[0-9]+/[0-9]+{_REPLICA}",
        lambda places: places.by_uuid,
        "NVIDIA MIG user guide: the name of a MIG device before driver 470 holds that of its GPU",
    ),
    _row(
        rf"([0-9]+)(?::[0-9]+)?{_REPLICA}",
        lambda places: places.by_number,
        "NVIDIA device plugin, deviceIDStrategy index: `n`, of a MIG device `n:m`",
    ),
    _row(
        r"nvidia([0-9]+)(?:/gi[0-9]+)?(?:/vgpu[0-9]+)?",
        lambda places: places.by_minor,
        "GKE's device plugin: the name of the device file; `/gin` is a MIG device, `/vgpun` a share",
    ),
)
"""The forms of ids; each names its GPU by something that is looked up, so that an id of another node's finds none."""


def places_of(memory: Mapping[str, Remembered]) -> Places:
    """Return how ids may name the GPUs that are remembered, which the drained and the lost are among."""
    gpus = sorted(memory.values(), key=lambda one: [int(part, 16) for part in one.pci.split(":")])
    return Places(
        by_uuid={one.uuid: one.pci for one in gpus if one.uuid is not None},
        by_mig_uuid={uuid: one.pci for one in gpus for uuid in one.mig_uuids or ()},
        by_number={str(number): one.pci for number, one in enumerate(gpus)},
        by_minor={str(one.minor): one.pci for one in gpus if one.minor is not None},
    )


def gpu_of(device: str, places: Places) -> str | None:
    """Return the address of the GPU that an id means; None where that is not certain."""
    for row in ID_FORMS:
        match = row.form.fullmatch(device)
        if match is not None:
            return row.among(places).get(match[1])
    return None
