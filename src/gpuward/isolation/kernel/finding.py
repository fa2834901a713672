"""What a message says, before it is joined with its frame into a Record. Reading the messages is not here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuward.model.gpu import Mig, PciAddress
from gpuward.model.record import RecordKind

_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})


class Finding(NamedTuple):
    """The recognised parts of one message. `details` holds JSON values only. A tuple for its speed, as Frame."""

    kind: RecordKind
    code: int | None = None
    pci: PciAddress | None = None
    pid: int | None = None
    process: str | None = None
    mig: Mig | None = None
    severity: str | None = None
    link: int | None = None
    part: str | None = None
    details: Mapping[str, Any] = _NO_DETAILS
    sender: PciAddress | None = None
    """The device behind `pci`, a port, whose message this is."""
